"""What processes of one run tell each other."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import distributed

T = TypeVar("T")


def gather_objects(value: T) -> list[T]:
    """The values of all ranks, in their order; of this process alone outside of a distributed run.

    Every rank must call it.

    Args:
        value: Picklable; tensors on CPU.
    """
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def own_state(states: list[T], what: str) -> T:
    """This rank's share of a checkpoint.

    Args:
        states: Of every rank that saved.
        what: Named in the error.

    Raises:
        ValueError: If the checkpoint is of another number of processes.
    """
    rank, size = 0, 1
    if distributed.is_available() and distributed.is_initialized():
        rank, size = distributed.get_rank(), distributed.get_world_size()
    if len(states) != size:
        raise ValueError(
            f"the checkpoint holds the {what} of {len(states)} processes, this run has {size}:"
            " resume with as many as before"
        )
    return states[rank]
