"""Neighbouring parameters of one transform: all their columns to values at once."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Block, Transform
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals.compilation import Compiled, Intervals
from synthstats_lightning.scoring.numerics import transforms

ALONE = frozenset({Transform.POSITIVE, Transform.UNIT})
"""Transforms whose coordinate is a logarithm or a logit."""


def by_logs(compiled: Compiled) -> frozenset[int]:
    """Nodes of the parameters whose density is evaluated by the logarithm of their value."""
    summed = () if compiled.labels is None else compiled.labels.plan.factors
    return frozenset(
        parameter.node
        for parameter in compiled.parameters
        if parameter.transform in ALONE
        and parameter.distribution.from_logs is not None
        and parameter.node not in summed
    )


def constrain_block(
    block: Block, u: Tensor, intervals: Intervals, logs: Set[int]
) -> tuple[Tensor, Tensor | None]:
    """Values of a block, and the logs of their Jacobians (`None` for 0).

    Args:
        block: Columns with one transform.
        u: Their unconstrained coordinates.
        intervals: Bounds of the block of intervals.
        logs: The nodes of `by_logs`: their mass goes on where values overflow.
    """
    if block.transform is Transform.IDENTITY:
        return u, None
    if block.transform is Transform.POSITIVE:
        exact = tuple(parameter.node in logs for parameter in block.parameters)
        if all(exact):
            return transforms.exponential(u), u
        x, log_jacobian = transforms.positive(u)
        if any(exact):
            log_jacobian = torch.where(_columns(exact, tuple(block.sizes)), u, log_jacobian)
        return x, log_jacobian
    fraction, log_jacobian = transforms.unit(u)
    if block.transform is Transform.UNIT:
        return fraction, log_jacobian
    x = torch.addcmul(intervals.lower, intervals.width, fraction)
    resolved = transforms.is_resolved(x, intervals.lower, intervals.upper)
    return x, torch.where(resolved, log_jacobian + intervals.log_width, -math.inf)


@lru_cache(maxsize=256)
def _columns(marked: tuple[bool, ...], sizes: tuple[int, ...]) -> Tensor:
    """Which columns are of marked parameters."""
    # kept for evaluations with gradients, too
    with torch.inference_mode(False):
        return torch.tensor(marked).repeat_interleave(torch.tensor(sizes))


def row_sums(values: Tensor) -> Tensor:
    """Sums of rows; most parameters are scalars, for which that is a view."""
    return values[:, 0] if values.shape[1] == 1 else values.sum(1)


def no_nan(values: Tensor) -> Tensor:
    """Log-densities, of which those that are not a number are -inf.

    Args:
        values: Log-densities in nats, of any shape.
    """
    return values.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)


def response_rows(
    term: Term, values: Sequence[Tensor | None], shape: tuple[int, int], rank: int
) -> Float[Tensor, "particles rows"]:
    """Log-likelihood of each row; of one draw of a multivariate distribution the whole in equal shares.

    Args:
        term: Distribution of the response, with its data.
        values: Slots of the evaluation.
        shape: Particles and rows.
        rank: Axes of every value after the particle axis.
    """
    result = term.log_prob(values)
    if term.distribution.event_rank:
        whole = result.expand(shape[0], *pad((), rank)).reshape(shape[0], 1)
        return no_nan(whole / shape[1]).expand(shape)
    if result.shape != shape:
        result = result.expand(shape[0], *pad(shape[1:], rank)).reshape(shape)
    return no_nan(result)
