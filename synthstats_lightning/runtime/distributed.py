"""What processes of one run tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from torch import distributed

T = TypeVar("T")


def rank_and_size() -> tuple[int, int]:
    """This process's rank and the number of processes: 0 and 1 outside of a distributed run."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


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


def own_share(lists: Sequence[Sequence[T]]) -> list[T]:
    """This rank's items of a checkpoint, dealt anew in turn where the number of processes has changed.

    Args:
        lists: Items of every rank that saved.
    """
    rank, size = rank_and_size()
    if len(lists) == size:
        return list(lists[rank])
    return [item for items in lists for item in items][rank::size]
