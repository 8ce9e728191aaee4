"""What processes of one run tell each other."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from torch import distributed

T = TypeVar("T")


def rank_and_size() -> tuple[int, int]:
    """This process's rank and the number of processes: 0 and 1 outside of a distributed run."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


@cache
def leave_at_exit() -> None:
    """Has this process leave its process group before the interpreter ends.

    Threads of Gloo may hold tensors of a last collective; to free one they ask for an interpreter that is
    ending, and the process aborts after all its work is done. Lightning does the same for NCCL alone.
    """
    atexit.register(_leave)


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def gather_objects(value: T) -> list[T]:
    """The values of all ranks, in their order; of this process alone outside of a distributed run.

    Every rank must call it.

    Args:
        value: Picklable; tensors on CPU.
    """
    _, size = rank_and_size()
    if size == 1:
        return [value]
    values: list[Any] = [None] * size
    distributed.all_gather_object(values, value)
    return values


def all_ranks(decision: bool) -> bool:
    """Whether all ranks decide for something, so that all do the same; every rank must call it.

    Args:
        decision: What this rank decided.
    """
    return all(gather_objects(decision))


def added_up(parts: Sequence[T]) -> T:
    """What the parts of several ranks come to together.

    Numbers are added, sets are united, and tuples and mappings are added up item by item; an item that only
    some mappings have counts for those.

    Args:
        parts: At least one, all of one kind.
    """
    total: T = _sum(parts)
    return total


def _sum(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: _sum([part[name] for part in parts if name in part]) for name in names}
    if isinstance(first, frozenset):
        return frozenset().union(*parts)
    if isinstance(first, tuple):
        columns = [_sum(column) for column in zip(*parts, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    return sum(parts)


def own_share(lists: Sequence[Sequence[T]]) -> list[T]:
    """This rank's items of a checkpoint, dealt anew in turn where the number of processes has changed.

    Args:
        lists: Items of every rank that saved.
    """
    rank, size = rank_and_size()
    if len(lists) == size:
        return list(lists[rank])
    return [item for items in lists for item in items][rank::size]
