"""Means over the programs of one task."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def group_sums(
    values: Float[Tensor, " batch"], group: Int[Tensor, " batch"], across_ranks: bool = False
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """Per row, sum and number of the values of its group, detached.

    Args:
        values: One a row.
        group: Group of each row, 0 or more.
        across_ranks: Whether rows of other ranks of a distributed run count; groups must then mean the same
            everywhere.

    Returns:
        Sum and count, `[batch]`.
    """
    values = values.detach()
    distributed = across_ranks and torch.distributed.is_available() and torch.distributed.is_initialized()
    num_groups = group.max() + 1 if len(group) else group.new_zeros(())
    if distributed:
        torch.distributed.all_reduce(num_groups, torch.distributed.ReduceOp.MAX)
    zeros = values.new_zeros(int(num_groups))
    total = zeros.index_add(0, group, values)
    count = zeros.index_add(0, group, torch.ones_like(values))
    if distributed:
        torch.distributed.all_reduce(total)
        torch.distributed.all_reduce(count)
    return total[group], count[group]


def group_mean(
    values: Float[Tensor, " batch"], group: Int[Tensor, " batch"], across_ranks: bool = False
) -> Float[Tensor, " batch"]:
    """Per row, the mean over its group, detached; see `group_sums`."""
    total, count = group_sums(values, group, across_ranks)
    return total / count


def group_advantage(
    reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"], scale_by_std: bool, epsilon: float = 1e-4
) -> Float[Tensor, " batch"]:
    """Reward minus its group's mean, over all ranks, divided by the group's standard deviation if asked for.

    A row alone in its group, and every row of a group of equal rewards, gets 0. Takes one `group_mean`, with
    the standard deviation two.

    Args:
        reward: Reward of each row.
        group: Group of each row.
        scale_by_std: Whether to divide by the standard deviation (with Bessel's correction).
        epsilon: Added to the standard deviation.
    """
    centred = reward.detach() - group_mean(reward, group, across_ranks=True)
    if not scale_by_std:
        return centred
    squares, count = group_sums(centred.square(), group, across_ranks=True)
    return centred / ((squares / (count - 1).clamp(min=1)).sqrt() + epsilon)
