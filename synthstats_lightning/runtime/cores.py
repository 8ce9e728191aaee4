"""How many of a machine's cores each process of a run may count on."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Place(NamedTuple):
    """Where a process runs.

    Attributes:
        machine: Names the running kernel: containers of one machine share it, and its cores.
        cores: Numbers of the cores that the process may run on.
    """

    machine: str
    cores: frozenset[int]


def this_place() -> Place:
    """Where this process runs."""
    machine = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else socket.gethostname()
    return Place(machine, frozenset(os.sched_getaffinity(0)))


def core_share(places: Sequence[Place], rank: int) -> int:
    """Cores that a process may count on, at least one: each core is split among those that may run on it.

    Launchers that bind processes to cores of their own, as SLURM can, and launchers that do not, such as
    torchrun, both come out right.

    Args:
        places: Where all processes of the run are.
        rank: Which of them.
    """
    own = places[rank]
    sharers = Counter(core for place in places if place.machine == own.machine for core in place.cores)
    # a core of three processes is a third of a core for each; the sum of thirds must not fall below 1
    return max(1, int(sum(1 / sharers[core] for core in own.cores) + 1e-9))


def own_cores() -> int:
    """Cores that this process of the run may count on; every rank must call it."""
    return core_share(gather_objects(this_place()), rank_and_size()[0])


def scoring_workers(cores: int) -> int:
    """Scoring workers that leave the trainer one of its cores, at least one worker.

    Args:
        cores: That this process may count on.
    """
    return max(1, cores - 1)
