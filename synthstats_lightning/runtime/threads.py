"""The budget of cores: workers run single-threaded, the trainer gets the rest.

Imports PyTorch inside functions only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass
class _Limit:
    """Whether `limit_threads` chose how many threads there are, rather than a user."""

    chosen: bool = False


_limit = _Limit()


def trainer_threads(num_workers: int | None = None) -> int:
    """Threads for the trainer's own arithmetic: the cores that scoring workers leave, at least one."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores - (num_workers if num_workers is not None else max(1, cores - 1)))


def wait_passively() -> None:
    """Makes OpenMP threads sleep instead of spin; to be called before PyTorch is imported, which reads it.

    Threads that spin while another process holds the core are ruinous: 185 instead of 8 ms for a decoding
    step were measured on two cores.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def limit_threads() -> None:
    """Makes PyTorch use the cores that workers leave; an explicit `OMP_NUM_THREADS` is respected."""
    import torch

    wait_passively()  # of processes that are started from here on
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if "OMP_NUM_THREADS" not in os.environ:
        _limit.chosen = True
        # processes of a distributed run inherit it; Lightning would share all cores among them, workers' too
        os.environ["OMP_NUM_THREADS"] = str(trainer_threads())
    if _limit.chosen:  # a run before this one may have taken more
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def take_workers_cores() -> int:
    """Gives PyTorch the cores that `limit_threads` left to workers, for a run that has none.

    Every rank must call it. An explicit `OMP_NUM_THREADS` is respected.

    Returns:
        How many threads it uses now.
    """
    import torch

    from synthstats_lightning.runtime.cores import own_cores
    from synthstats_lightning.runtime.distributed import gather_objects

    # the other ranks inherited the first one's limit, and cannot tell it from a user's
    chosen, cores = gather_objects(_limit.chosen)[0], own_cores()
    if chosen:
        torch.set_num_threads(cores)
    return torch.get_num_threads()
