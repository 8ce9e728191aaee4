"""Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv 1507.02646).

Everything is float64 torch and vectorised over columns: one call smooths the importance ratios of all
observations at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

MIN_TAIL = 5
"""Tails of fewer draws are not smoothed and get an infinite Pareto k."""


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
    excess: Float[Tensor, "tail columns"],
) -> tuple[Float[Tensor, " columns"], Float[Tensor, " columns"]]:
    """Empirical-Bayes fit of a generalised Pareto distribution (Zhang and Stephens 2009).

    The shape is shrunk towards 0.5 by the weight of ten observations, as in appendix C of arXiv 1507.02646.

    Args:
        excess: Excesses over the threshold, sorted ascending along the first axis, not negative.

    Returns:
        Shape `k` and scale `sigma` of each column; NaN where the fit is undefined (all excesses equal to 0).
    """
    count = len(excess)
    points = 30 + int(math.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1].clamp_min(torch.finfo(excess.dtype).tiny)
    grid = 1 - torch.sqrt(points / (torch.arange(1, points + 1, dtype=excess.dtype) - 0.5))
    theta = grid[:, None] / (3.0 * quartile) + 1 / excess[-1]
    # not log1p, which takes five times as long and is better only where theta * excess is all but 0
    shape = torch.log(1.0 - theta[:, None, :] * excess).mean(1)
    profile = count * (torch.log(-theta / shape) - shape - 1)
    weight = profile.softmax(0)
    posterior = (theta * weight).sum(0)
    k = torch.log1p(-posterior * excess).mean(0)
    sigma = -k / posterior
    return (count * k + 5.0) / (count + 10.0), sigma


def pareto_quantiles(count: int, k: Float[Tensor, " columns"], sigma: Float[Tensor, " columns"]) -> Tensor:
    """Expected order statistics `[count, columns]` of a generalised Pareto, at (i - 1/2)/count."""
    survival = torch.log1p(-(torch.arange(count, dtype=k.dtype) + 0.5) / count)[:, None]
    small = k.abs() < 1e-12
    safe = torch.where(small, 1.0, k)
    return sigma * torch.where(small, -survival, torch.expm1(-safe * survival) / safe)


class _Tail(NamedTuple):
    """The largest ratios of each column and what was fitted to them.

    Attributes:
        ratio: Log ratios relative to the largest, ascending `[tail, columns]`.
        cutoff: Threshold that they exceed, likewise relative `[columns]`.
        shape: Of the fitted distribution `[columns]`.
        scale: Likewise.
        usable: Whether the fit is defined `[columns]`.
        pareto_k: Shape where it is; infinite elsewhere, see `psis` `[columns]`.
    """

    ratio: Float[Tensor, "tail columns"]
    cutoff: Float[Tensor, " columns"]
    shape: Float[Tensor, " columns"]
    scale: Float[Tensor, " columns"]
    usable: Bool[Tensor, " columns"]
    pareto_k: Float[Tensor, " columns"]


def _fit_tail(top: Float[Tensor, "tail_and_threshold columns"]) -> _Tail:
    """Fits the largest ratios, ascending and relative to the largest; the first is the threshold."""
    # a threshold that underflows would leave excesses that are exact copies of the ratios
    cutoff = top[0].clamp_min(math.log(torch.finfo(top.dtype).tiny))
    ratio = top[1:]
    above = (ratio > cutoff).sum(0)
    constant = (ratio[-1] - ratio[0]).abs() < 1e-12
    k, sigma = fit_generalised_pareto((ratio.exp() - cutoff.exp()).clamp_min(0.0))
    usable = (above >= MIN_TAIL) & ~constant & k.isfinite() & sigma.isfinite()
    pareto_k = torch.where(usable, k, torch.where(constant, -torch.inf, torch.inf))
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
    return _fit_tail(torch.from_numpy((top - top[:, -1:]).T)).pareto_k


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
    fitted = _fit_tail(top.flip(0))
    smooth = pareto_quantiles(tail, fitted.shape, fitted.scale) + fitted.cutoff.exp()
    replaced = torch.where(fitted.usable, smooth.log().clamp_max(0.0), fitted.ratio)
    smoothed = log_ratio.scatter(0, index.flip(0)[1:], replaced)
    return Smoothed(smoothed - smoothed.logsumexp(0), fitted.pareto_k)


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
    if not bool(log_likelihood.sum(1).isfinite().all()):
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
