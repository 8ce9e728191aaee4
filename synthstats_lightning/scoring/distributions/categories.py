"""Categories: by their probabilities, their logits, or thresholds that part them."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Domain, Support, entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Distribution,
    Split,
    Statistics,
    counts,
)
from synthstats_lightning.scoring.distributions.sampling import (
    standard_exponential,
    standard_normal,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.special import (
    broadcast_tensors,
    log1mexp,
    log_ndtr_between,
    softplus,
)
from synthstats_lightning.scoring.numerics.sums import log_sum_exp_last

FARTHEST_THRESHOLD = 1e100
"""Stands for thresholds at either end of all."""
FARTHEST_QUANTILE = 1e60
"""Farther than any threshold, where it is squared, and may be divided by a small standard deviation first."""
_CATEGORICAL_LOGIT = entry(
    "CategoricalLogit", {"logit_p": Domain.REAL}, Support.CATEGORIES, parameter_ranks=(1,)
)
_CUMULATIVE_LOGIT = entry(
    "CumulativeLogit",
    {"thresholds": Domain.REAL, "shift": Domain.REAL},
    Support.CATEGORIES,
    parameter_ranks=(1, 1),
)


def _cumulative_probit(name: str, rank: int) -> Entry:
    """The entry of ordered probit rows with one standard deviation for all, or one each."""
    return entry(
        name,
        {"thresholds": Domain.REAL, "shift": Domain.REAL, "sigma": Domain.POSITIVE},
        Support.CATEGORIES,
        parameter_ranks=(1, 1, rank),
    )


class Categorical(Definition):
    """0, 1, ... with the probabilities along the last axis of `p`, divided by their sum."""

    support_parameters = (0,)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, p: Tensor) -> Tensor:
        return counts(value) & (value < p.shape[-1])

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
        index = statistics[0].clamp(0, p.shape[-1] - 1).long()
        return offset + torch.log(_at(p, index)) - torch.log(p.sum(-1))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
        # the first of K independent exponential clocks of rates p
        clocks = standard_exponential(generator, (*shape, p.shape[-1])) / p
        return clocks.argmin(-1).to(torch.float64)


class CategoricalLogit(Definition, entry=_CATEGORICAL_LOGIT):
    """0, 1, ... by the logarithms of their probabilities, up to a number that is the same for all.

    Multinomial logistic regression without the probabilities of the categories that were not observed.
    """

    support_parameters = (0,)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, logit_p: Tensor) -> Tensor:
        return counts(value) & (value < logit_p.shape[-1])

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, logit_p: Tensor) -> Tensor:
        index = statistics[0].clamp(0, logit_p.shape[-1] - 1).long()
        return offset + _at(logit_p, index) - log_sum_exp_last(logit_p)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], logit_p: Tensor) -> Tensor:
        # the largest of K independent Gumbel variables
        noise = -torch.log(standard_exponential(generator, (*shape, logit_p.shape[-1])))
        return (logit_p + noise).argmax(-1).to(torch.float64)


def _between(statistics: Statistics, thresholds: Tensor) -> Tensor:
    """The part of an ordered logistic log-density that the shift does not change, -inf if thresholds fall."""
    category = statistics[0].clamp(0, thresholds.shape[-1]).long()
    ends = torch.zeros_like(thresholds[..., :1])
    between = torch.cat([ends, log1mexp(-torch.diff(thresholds, dim=-1)), ends], -1)
    return _where_rising(_at(between, category), thresholds)


def _beyond(offset: Tensor, statistics: Statistics, thresholds: Tensor, shift: Tensor) -> Tensor:
    """The rest: logs of the probabilities to be above the lower threshold and below the upper one."""
    category = statistics[0].clamp(0, thresholds.shape[-1]).long()
    lower, upper = _around(thresholds, shift.squeeze(-1), category, FARTHEST_THRESHOLD)
    return offset - softplus(-upper) - softplus(lower)


class CumulativeLogit(Definition, entry=_CUMULATIVE_LOGIT):
    """0, 1, ... of which at most k has the log-odds `thresholds[k] - shift` (McCullagh 1980).

    Ordered logistic regression without the probabilities of the categories that were not observed, and
    without their differences: `F(b) - F(a) = F(b) F(-a) (1 - exp(a - b))`. Thresholds that fall along the
    last axis, which may be any number of one less than categories, have density zero.
    """

    support_parameters = (0,)
    anchor = 0.0
    split = Split(1, _between, _beyond)

    @staticmethod
    def inside(value: Tensor, thresholds: Tensor, shift: Tensor) -> Tensor:
        return _one_of(value, thresholds)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, thresholds: Tensor, shift: Tensor) -> Tensor:
        return _between(statistics, thresholds) + _beyond(offset, statistics, thresholds, shift)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], thresholds: Tensor, shift: Tensor
    ) -> Tensor:
        noise = torch.logit(standard_uniform(generator, shape)).unsqueeze(-1)
        return (noise > thresholds - shift).sum(-1).to(torch.float64)


class CumulativeProbit(Definition, entry=_cumulative_probit("CumulativeProbit", 0)):
    """0, 1, ... of which at most k has the probability `Phi((thresholds[k] - shift) / sigma)`.

    Ordered probit regression (McKelvey and Zavoina 1975) by the two thresholds of the category that was
    observed, in whichever tail keeps the digits; `sigma` is the same for all rows.
    """

    support_parameters = (0,)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, thresholds: Tensor, shift: Tensor, sigma: Tensor) -> Tensor:
        return _one_of(value, thresholds)

    @staticmethod
    def log_kernel(
        offset: Tensor, statistics: Statistics, thresholds: Tensor, shift: Tensor, sigma: Tensor
    ) -> Tensor:
        category = statistics[0].clamp(0, thresholds.shape[-1]).long()
        lower, upper = (
            x / sigma for x in _around(thresholds, shift.squeeze(-1), category, FARTHEST_QUANTILE)
        )
        above = lower + upper > 0
        low, high = torch.where(above, -upper, lower), torch.where(above, -lower, upper)
        return _where_rising(offset + log_ndtr_between(low, high), thresholds)

    @staticmethod
    def sample(
        generator: torch.Generator,
        shape: tuple[int, ...],
        thresholds: Tensor,
        shift: Tensor,
        sigma: Tensor,
    ) -> Tensor:
        noise = (sigma * standard_normal(generator, shape)).unsqueeze(-1)
        return (noise > thresholds - shift).sum(-1).to(torch.float64)


class CumulativeProbitEach(Definition, entry=_cumulative_probit("CumulativeProbitEach", 1)):
    """`CumulativeProbit` with a `sigma` of each row, of shape `(..., 1)` as the shift."""

    support_parameters = (0,)
    anchor = 0.0
    inside = CumulativeProbit.inside

    @staticmethod
    def log_kernel(
        offset: Tensor, statistics: Statistics, thresholds: Tensor, shift: Tensor, sigma: Tensor
    ) -> Tensor:
        return CumulativeProbit.log_kernel(offset, statistics, thresholds, shift, sigma.squeeze(-1))

    @staticmethod
    def sample(
        generator: torch.Generator,
        shape: tuple[int, ...],
        thresholds: Tensor,
        shift: Tensor,
        sigma: Tensor,
    ) -> Tensor:
        return CumulativeProbit.sample(generator, shape, thresholds, shift, sigma.squeeze(-1))


def counted_from(distribution: Distribution, first: int) -> Distribution:
    """A distribution of categories whose first one is another number than 0.

    Args:
        distribution: The same of categories 0, 1, ...
        first: Number that stands for the first category.
    """

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return distribution.inside(value - first, *parameters)

    def statistics(value: Tensor, interior: bool) -> Statistics:
        return distribution.statistics(value - first, interior)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        return distribution.sample(generator, shape, *parameters) + first

    return replace(
        distribution,
        inside=inside,
        statistics=statistics,
        sample=sample,
        anchor=distribution.anchor + first,
    )


def _one_of(value: Tensor, thresholds: Tensor) -> Tensor:
    """Whether values are categories that so many thresholds part."""
    return counts(value) & (value <= thresholds.shape[-1])


def _around(thresholds: Tensor, shift: Tensor, category: Tensor, far: float) -> tuple[Tensor, Tensor]:
    """The thresholds around a category from its shift: `far`, and finite, beyond the first and the last.

    Finite because sums over categories pick entries.
    """
    end = torch.full_like(thresholds[..., :1], far)
    upper = _at(torch.cat([thresholds, end], -1), category)
    lower = _at(torch.cat([-end, thresholds], -1), category)
    return lower - shift, upper - shift


def _where_rising(found: Tensor, thresholds: Tensor) -> Tensor:
    """Densities where thresholds rise, none where they fall."""
    rising = (torch.diff(thresholds, dim=-1) >= 0).all(-1)
    return found if bool(rising.all()) else torch.where(rising, found, -math.inf)


def _at(vectors: Tensor, index: Tensor) -> Tensor:
    """Entries of vectors along the last axis, one of each, broadcast over the axes before it."""
    if index.ndim == 1 and vectors.ndim > 1 and vectors.shape[-2] == 1:
        own = vectors.squeeze(-2)
        if not bool(torch.isfinite(own).all()):
            return own.index_select(-1, index)
        # several times as fast as a selection, and exact: all other products are 0
        chosen = torch.nn.functional.one_hot(index, own.shape[-1]).to(own.dtype)
        return own @ chosen.T
    index, _ = broadcast_tensors(index, vectors[..., 0])
    return vectors.expand(*index.shape, vectors.shape[-1]).gather(-1, index.unsqueeze(-1)).squeeze(-1)
