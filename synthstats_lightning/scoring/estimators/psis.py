"""Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv 1507.02646).

Everything is float64 and vectorised over columns: one call smooths the importance ratios of all observations
at once. Tails are fitted in NumPy, whose calls take less time where numbers are few.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

TINY = float(np.finfo(np.float64).tiny)
MIN_TAIL = 5
"""Tails of fewer draws are not smoothed and get an infinite Pareto k."""
FACTORS = 8
"""Numbers that are multiplied before a logarithm is taken of their product."""
LARGEST_FACTOR = 1e30
"""So many of them below this do not overflow."""


class Smoothed(NamedTuple):
    """Pareto-smoothed weights.

    Attributes:
        log_weight: Normalised log weights `[draws, columns]`: each column's exponentials sum to 1.
        pareto_k: Shape of the fitted tail `[columns]`.
    """

    log_weight: Float[Tensor, "draws columns"]
    pareto_k: Float[Tensor, " columns"]


def good_pareto_k(draws: int) -> float:
    """Largest Pareto k at which estimates from so many draws are reliable: `min(1 - 1/log10 S, 0.7)`.

    Args:
        draws: Number of draws S.
    """
    return min(1.0 - 1.0 / math.log10(max(draws, 2)), 0.7)


def tail_length(draws: int) -> int:
    """Draws in the smoothed tail: `min(S/5, 3 sqrt S)`, rounded up (section 2.4, with r_eff = 1)."""
    return math.ceil(min(0.2 * draws, 3.0 * math.sqrt(draws)))


def fit_generalised_pareto(
    excess: Float[Array, "tail columns"],
) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
    """Empirical-Bayes fit of a generalised Pareto distribution (Zhang and Stephens 2009).

    The shape is shrunk towards 0.5 by the weight of ten observations, as in appendix C of arXiv 1507.02646.

    Args:
        excess: Excesses over the threshold, sorted ascending along the first axis, not negative.

    Returns:
        Shape `k` and scale `sigma` of each column; NaN where the fit is undefined (all excesses equal to 0).
    """
    count = len(excess)
    points = 30 + int(math.sqrt(count))
    quartile = np.maximum(excess[int(count / 4 + 0.5) - 1], TINY)
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    with np.errstate(all="ignore"):
        theta = grid[:, None] / (3.0 * quartile) + 1 / excess[-1]
        shape = _mean_log(theta, excess)
        profile = count * (np.log(-theta / shape) - shape - 1)
        weight = np.exp(profile - profile.max(0))
        posterior = (theta * weight).sum(0) / weight.sum(0)
        k = np.log1p(-posterior * excess).mean(0)
        sigma = -k / posterior
    return (count * k + 5.0) / (count + 10.0), sigma


def _mean_log(
    theta: Float[Array, "points columns"], excess: Float[Array, "tail columns"]
) -> Float[Array, "points columns"]:
    """Mean of `log(1 - theta x)` over a tail's excesses x, with one logarithm for each product of `FACTORS`.

    Not log1p, which takes five times as long and is better only where theta x is all but 0.
    """
    # theta is negative or below 1 / x, so that the first point and the last excess have the largest factor
    if not (1.0 - theta[0] * excess[-1]).max() < LARGEST_FACTOR:
        mean: Array = np.log(1.0 - theta[:, None, :] * excess).mean(1)
        return mean
    products = math.ceil(len(excess) / FACTORS)
    padded = np.zeros((FACTORS, products, excess.shape[1]))
    padded.reshape(-1, excess.shape[1])[: len(excess)] = -excess
    factor = theta[:, None, :] * padded[0] + 1.0
    for rest in padded[1:]:
        factor *= theta[:, None, :] * rest + 1.0
    total: Array = np.log(factor, out=factor).sum(1)
    return total / len(excess)


def pareto_quantiles(
    count: int, k: Float[Array, " columns"], sigma: Float[Array, " columns"]
) -> Float[Array, "count columns"]:
    """Expected order statistics `[count, columns]` of a generalised Pareto, at (i - 1/2)/count."""
    survival = np.log1p(-(np.arange(count) + 0.5) / count)[:, None]
    small = np.abs(k) < 1e-12
    safe = np.where(small, 1.0, k)
    quantiles: Array = sigma * np.where(small, -survival, np.expm1(-safe * survival) / safe)
    return quantiles


class _Tail(NamedTuple):
    """The largest ratios of each column and what was fitted to them.

    Attributes:
        ratio: Log ratios relative to the largest, ascending `[tail, columns]`.
        cutoff: Threshold that they exceed, likewise relative `[columns]`.
        shape: Shape of the fitted distribution `[columns]`.
        scale: Scale of the fitted distribution `[columns]`.
        usable: Whether the fit is defined `[columns]`.
        pareto_k: Shape where it is; infinite elsewhere, see `psis` `[columns]`.
    """

    ratio: Float[Array, "tail columns"]
    cutoff: Float[Array, " columns"]
    shape: Float[Array, " columns"]
    scale: Float[Array, " columns"]
    usable: Bool[Array, " columns"]
    pareto_k: Float[Array, " columns"]


def _fit_tail(top: Float[Array, "tail_and_threshold columns"]) -> _Tail:
    """Fits the largest ratios, ascending and relative to the largest; the first is the threshold."""
    # a threshold that underflows would leave excesses that are exact copies of the ratios
    cutoff = np.maximum(top[0], math.log(TINY))
    ratio = top[1:]
    above = (ratio > cutoff).sum(0)
    constant = np.abs(ratio[-1] - ratio[0]) < 1e-12
    k, sigma = fit_generalised_pareto(np.maximum(np.exp(ratio) - np.exp(cutoff), 0.0))
    usable = (above >= MIN_TAIL) & ~constant & np.isfinite(k) & np.isfinite(sigma)
    pareto_k = np.where(usable, k, np.where(constant, -np.inf, np.inf))
    return _Tail(ratio, cutoff, k, sigma, usable, pareto_k)


def pareto_shape(log_ratio: Float[Tensor, "draws columns"]) -> Float[Tensor, " columns"]:
    """Pareto k of each column, as in `psis`, without the smoothed weights.

    Args:
        log_ratio: Log importance ratios, unnormalised; -inf is a ratio of 0. No column may be all -inf.
    """
    draws = len(log_ratio)
    tail = tail_length(draws)
    if tail < MIN_TAIL or tail >= draws:
        return torch.full(log_ratio.shape[1:], torch.inf, dtype=log_ratio.dtype)
    # torch.topk takes seven times as long as selection by NumPy
    columns = np.ascontiguousarray(log_ratio.detach().numpy().T)
    top = np.sort(np.partition(columns, draws - tail - 1, axis=1)[:, draws - tail - 1 :], axis=1)
    return torch.from_numpy(_fit_tail((top - top[:, -1:]).T).pareto_k)


def psis(log_ratio: Float[Tensor, "draws columns"]) -> Smoothed:
    """Replaces the largest importance ratios by expected order statistics of a fitted Pareto tail.

    Args:
        log_ratio: Log importance ratios, unnormalised; -inf is a ratio of 0. No column may be all -inf.

    Returns:
        Normalised smoothed log weights and Pareto k. A column whose tail has fewer than `MIN_TAIL` draws
        above the threshold is left as it is, with k of +inf; one whose largest ratios are all equal has a
        bounded tail and k of -inf.
    """
    draws = len(log_ratio)
    log_ratio = log_ratio - log_ratio.amax(0)
    tail = tail_length(draws)
    if tail < MIN_TAIL or tail >= draws:
        k = torch.full(log_ratio.shape[1:], torch.inf, dtype=log_ratio.dtype)
        return Smoothed(log_ratio - log_ratio.logsumexp(0), k)
    top, index = log_ratio.topk(tail + 1, dim=0)
    fitted = _fit_tail(top.detach().flip(0).numpy())
    with np.errstate(all="ignore"):
        smooth = np.log(pareto_quantiles(tail, fitted.shape, fitted.scale) + np.exp(fitted.cutoff))
    replaced = np.where(fitted.usable, np.minimum(smooth, 0.0), fitted.ratio)
    smoothed = log_ratio.scatter(0, index.flip(0)[1:], torch.from_numpy(replaced))
    return Smoothed(smoothed - smoothed.logsumexp(0), torch.from_numpy(fitted.pareto_k))


class Loo(NamedTuple):
    """Leave-one-out predictive densities.

    Attributes:
        pointwise: Log predictive density of each observation given the others `[rows]`, in nats.
        pareto_k: Pareto k of each observation's importance ratios `[rows]`.
        influence: What each draw adds to each estimate, about (delta method) `[draws, rows]`.
        effective_sample_size: Of each observation's smoothed ratios, in draws `[rows]`.
    """

    pointwise: Float[Tensor, " rows"]
    pareto_k: Float[Tensor, " rows"]
    influence: Float[Tensor, "draws rows"]
    effective_sample_size: Float[Tensor, " rows"]

    @property
    def elpd(self) -> float:
        """Sum over observations, in nats."""
        return float(self.pointwise.sum())

    @property
    def elpd_se(self) -> float:
        """Standard error of the sum over observations, `sqrt(N var)`, in nats."""
        return math.sqrt(len(self.pointwise) * float(self.pointwise.var(correction=0)))

    @property
    def mcse(self) -> float:
        """Monte-Carlo standard error of the sum, of independent draws, in nats."""
        return math.sqrt(float(self.influence.sum(1).square().sum()))


def psis_loo(
    log_likelihood: Float[Tensor, "draws rows"], log_ratio: Float[Tensor, "draws rows"] | None = None
) -> Loo:
    """PSIS leave-one-out (Vehtari, Gelman and Gabry 2017, arXiv 1507.04544, equation 10).

    Args:
        log_likelihood: Pointwise log-likelihood of the draws.
        log_ratio: Log importance ratios towards each leave-one-out posterior; `-log_likelihood`, right for
            equally weighted posterior draws, by default.
    """
    log_weight, pareto_k = psis(-log_likelihood if log_ratio is None else log_ratio)
    return _reweighted(log_likelihood, log_weight, pareto_k)


def importance_loo(
    log_weight: Float[Tensor, " draws"],
    log_likelihood: Float[Tensor, "draws rows"],
    log_ratio: Float[Tensor, "draws rows"],
) -> Loo:
    """Leave-one-out from draws of a proposal whose density is known, without smoothing.

    Ratios have the part in common that leads from proposal to posterior. Smoothing them would err in one
    direction for all rows, and the errors would add up. The prior's share of a proposal bounds them instead.

    Args:
        log_weight: Log weights towards the posterior, unnormalised; at least one finite.
        log_likelihood: Log density of each row given the others, at the draws.
        log_ratio: Log ratios towards each leave-one-out posterior: `log_weight - log_likelihood` where that
            is defined.
    """
    pareto_k = pareto_shape(log_ratio)
    # a finite weight is that of a draw for which no row is impossible
    if not bool(log_weight.isfinite().all()):
        return _reweighted(log_likelihood, log_ratio - log_ratio.logsumexp(0), pareto_k)
    # a fold's weight times the row's density is the posterior's weight, whichever row it is
    largest = log_ratio.amax(0)
    weight = (log_ratio - largest).exp_()
    total = weight.sum(0)
    weight /= total
    pointwise = log_weight.logsumexp(0) - largest - total.log()
    influence = log_weight.softmax(0)[:, None] - weight
    return Loo(pointwise, pareto_k, influence, 1.0 / weight.square().sum(0))


def _reweighted(log_likelihood: Tensor, log_weight: Tensor, pareto_k: Tensor) -> Loo:
    """Leave-one-out by normalised weights of each fold."""
    weight = log_weight.exp()
    pointwise = (log_weight + log_likelihood).logsumexp(0)
    influence = (weight * torch.expm1(log_likelihood - pointwise)).nan_to_num(nan=0.0)
    return Loo(pointwise, pareto_k, influence, 1.0 / weight.square().sum(0))
