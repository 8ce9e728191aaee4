"""Linear sequences of normal innovations, by their banded precision: parts of them without a dense matrix."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    log_determinant,
    squared_distance,
)
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


class LinearSequence(NamedTuple):
    """Entry t is its innovation plus `sum_i rho_i x_(t-i)`, but for the first ones, which are innovations.

    With `A x` the innovations and `D` their variances, the precision of x is `A' D^-1 A`: a band (Rue and
    Held 2005, section 2).

    Attributes:
        mean: Means of the innovations `[particles, n]`.
        scale: Their standard deviations `[particles, n]`.
        rho: Coefficients `[particles, order]`.
    """

    mean: Tensor
    scale: Tensor
    rho: Tensor

    def subsets(self, value: Float[Tensor, " n"], given: Bool[Tensor, " n"]) -> Subsets:
        """Log-densities of the given entries, and of these with one entry less or more.

        The joint density of all entries over that of the missing ones given the others is the first; entry i
        given the others has variance `1 / P_ii` and deviates from its mean by `(P r)_i / P_ii` (Rasmussen and
        Williams 2006, eqs. 5.10 to 5.12), with P the precision of the given entries.

        Args:
            value: Entries of the sequence.
            given: Which entries are given; may be none.
        """
        joint, weighted, bands = self._innovations(value)
        out = (~given).nonzero().squeeze(-1)
        spread = bands[0]
        total = joint
        if len(out):
            across = _columns(bands, out)
            lower, exists = cholesky_factor(across[:, out])
            deviation = torch.cholesky_solve(weighted[:, out].unsqueeze(-1), lower)
            solved = torch.cholesky_solve(across.mT, lower)
            quadratic = (weighted[:, out] * deviation.squeeze(-1)).sum(-1)
            missing = log_determinant(lower) - len(out) * HALF_LOG_TWO_PI - 0.5 * quadratic
            total = torch.where(exists, joint - missing, -math.inf)
            weighted = weighted - (across @ deviation).squeeze(-1)
            spread = spread - (across * solved.mT).sum(-1)
            added = _normal(deviation.squeeze(-1), torch.cholesky_inverse(lower).diagonal(dim1=-2, dim2=-1))
        changed = total[:, None] - _normal(weighted / spread, 1.0 / spread)
        if len(out):
            changed[:, out] = total[:, None] + added
        return Subsets(_no_nan(total), _no_nan(changed))

    def part(self, value: Float[Tensor, " n"], given: Bool[Tensor, " n"]) -> Float[Tensor, " particles"]:
        """Log-density of the given entries alone.

        Args:
            value: Entries of the sequence.
            given: Which entries are given; may be none.
        """
        joint, weighted, bands = self._innovations(value)
        out = (~given).nonzero().squeeze(-1)
        if not len(out):
            return _no_nan(joint)
        lower, exists = cholesky_factor(_columns(bands, out)[:, out])
        quadratic = squared_distance(weighted[:, out], lower)
        missing = log_determinant(lower) - len(out) * HALF_LOG_TWO_PI - 0.5 * quadratic
        return _no_nan(torch.where(exists, joint - missing, -math.inf))

    def _innovations(self, value: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Density of all entries, the precision times their deviation, and the precision's diagonals."""
        n, order = len(value), self.rho.shape[-1]
        particles = max(part.shape[0] for part in self)
        mean, variance = (part.expand(particles, n) for part in (self.mean, self.scale.square()))
        later = (torch.arange(n) >= order).to(torch.float64)
        weights = [torch.ones(1, n, dtype=torch.float64)]
        weights += [-self.rho[:, lag : lag + 1] * later for lag in range(order)]
        noise = -mean
        for lag, weight in enumerate(weights[:n]):
            noise = noise + torch.nn.functional.pad(weight[:, lag:] * value[: n - lag], (lag, 0))
        scaled = noise / variance
        joint = (-0.5 * (noise * scaled + torch.log(variance)) - HALF_LOG_TWO_PI).sum(-1)
        weighted = torch.zeros(particles, n, dtype=torch.float64)
        bands = [torch.zeros(particles, n, dtype=torch.float64) for _ in weights[:n]]
        for lag, weight in enumerate(weights[:n]):
            weighted[:, : n - lag] += weight[:, lag:] * scaled[:, lag:]
            for apart in range(lag + 1):
                both = weight[:, lag:] * weights[lag - apart][:, lag:] / variance[:, lag:]
                bands[apart][:, : n - lag] += both
        return joint, weighted, bands


def _columns(bands: list[Tensor], places: Tensor) -> Tensor:
    """Some columns of a symmetric banded matrix `[particles, n, columns]`."""
    particles, n = bands[0].shape
    found = torch.zeros(particles, n, len(places), dtype=torch.float64)
    columns = torch.arange(len(places))
    for apart, band in enumerate(bands):
        for shift in {apart, -apart}:
            inside = (places + shift >= 0) & (places + shift < n)
            rows = places[inside] + shift
            found[:, rows, columns[inside]] = band[:, torch.minimum(rows, places[inside])]
    return found


def _normal(deviation: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * (deviation.square() / variance + torch.log(variance)) - HALF_LOG_TWO_PI


def _no_nan(density: Tensor) -> Tensor:
    return density.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
