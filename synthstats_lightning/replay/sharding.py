"""A buffer's content dealt anew when a run resumes on another number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, TypeVar

import numpy as np

from synthstats_lightning.replay.buffer import ReplayBuffer
from synthstats_lightning.replay.entries import Key, key_of
from synthstats_lightning.replay.state import check_format, unpack
from synthstats_lightning.replay.trajectory import Trajectory

T = TypeVar("T")


def load_shard(buffer: ReplayBuffer, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
    """Restores one process's buffer from those of all processes that saved.

    As many processes as before each get exactly their own. Otherwise the stored programs of all, each once
    and in the order of insertion, and their recent samples, are dealt in turn to the processes that there
    are now; pinned programs go to each. What exceeds the capacity makes room as it always does.

    Args:
        buffer: What is restored.
        states: `ReplayBuffer.state_dict` of every process that saved, in the order of ranks.
        rank: The rank of this process.
        size: Number of processes now.

    Raises:
        ValueError: If a state is of another format, or holds more programs than the capacity.
    """
    if len(states) == size:
        buffer.load_state_dict(states[rank])
        return
    stored: list[list[Trajectory]] = []
    queues: list[list[Trajectory]] = []
    pinned: dict[Key, Trajectory] = {}
    for state in states:
        check_format(state)
        entries, recent = unpack(state)
        order = np.argsort(entries.serial)
        for item in entries.get(order[entries.pinned[order]].tolist()):
            pinned.setdefault(key_of(item), item)
        stored.append(entries.get(order[~entries.pinned[order]].tolist()))
        queues.append(recent)
        buffer.take_prompts(state)
    counts = {name: sum(state[name] for state in states) for name in ("added", "duplicates")}
    dealt = {name: (count + size - 1 - rank) // size for name, count in counts.items()}
    buffer.begin(interleaved(queues)[rank::size], **dealt)
    for item in pinned.values():
        buffer.add(item, pinned=True)
    distinct: dict[Key, Trajectory] = {}
    for item in interleaved(stored):
        distinct.setdefault(key_of(item), item)
    buffer.merge(list(distinct.values())[rank::size])


def interleaved(lists: Sequence[Sequence[T]]) -> list[T]:
    """The first items of all lists, then the second ones, and so on.

    Args:
        lists: Lists of any length, without `None`.
    """
    return [item for item in chain.from_iterable(zip_longest(*lists)) if item is not None]
