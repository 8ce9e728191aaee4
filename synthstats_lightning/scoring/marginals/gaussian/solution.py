"""The normal distribution of a block given rows of residuals, and what it leaves of their densities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.pattern import Factor, Pattern, pattern_equations
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

SPARSE = 16
"""Rows whose squared number of entries is this many times less than that of columns are multiplied entry by
entry, the others as matrices."""
TOO_LITTLE_LEFT = 1e-9
"""What a leverage lacks of 1, below which that has too few digits."""
LEAST_LEFT = 1e-7
"""What it lacks with the larger standard deviation that then stands in for a row's own."""


class DenseFactor:
    """The Cholesky factor of a precision.

    Args:
        precision: `[particles, size, size]`.
        usable: Where its entries are finite and a model's; the identity elsewhere `[particles]`.

    Attributes:
        lower: The factor itself `[particles, size, size]`.
        exists: Where the precision is positive definite `[particles]`.
        half_log_determinant: Half the log of the precision's determinant `[particles]`.
    """

    def __init__(
        self, precision: Float[Tensor, "particles size size"], usable: Bool[Tensor, " particles"]
    ) -> None:
        identity = torch.eye(precision.shape[-1], dtype=precision.dtype)
        lower, info = torch.linalg.cholesky_ex(torch.where(usable[:, None, None], precision, identity))
        self.exists = usable & (info == 0)
        if bool((info != 0).any()):
            lower = torch.linalg.cholesky_ex(torch.where(self.exists[:, None, None], precision, identity)).L
        self.lower: Tensor = lower
        self.half_log_determinant: Tensor = lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def solve(self, right: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """The precision's inverse times a vector."""
        found: Tensor = torch.cholesky_solve(right[:, :, None], self.lower)[:, :, 0]
        return found

    def away(self, noise: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""
        found: Tensor = torch.linalg.solve_triangular(self.lower.mT, noise[:, :, None], upper=True)[:, :, 0]
        return found


class Solution(NamedTuple):
    """A block given other parameters and some rows: normal with mean `mean` and a precision.

    Attributes:
        mean: Mean of each element `[particles, size]`.
        factor: Triangular factor of the precision; that of the identity where it does not exist.
        log_evidence: Log density of the rows with the block integrated out, -inf where it does not exist
            `[particles]`.
    """

    mean: Float[Tensor, "particles size"]
    factor: DenseFactor | Factor
    log_evidence: Float[Tensor, " particles"]


def solve(
    prior: Sequence[Rows],
    response: Rows,
    size: int,
    particles: int,
    pattern: Pattern | None = None,
    only_evidence: bool = False,
) -> Solution:
    """Integrates a block out of its prior and some rows of the response.

    Every density is one of whitened residuals `r = r0 + J x`, so that with `H = J'J` the integral over `x` is
    `exp(-|r^|^2 / 2) |H|^(-1/2) (2 pi)^(size / 2)` at the residuals `r^` of least squares, whatever the shape
    of prior and design: Woodbury's identity and the determinant lemma are inside `H`.

    Args:
        prior: Rows of the block's own distributions.
        response: Rows of the response.
        size: Elements of the block.
        particles: How many there are, also where all rows are the same for each.
        pattern: Which entries of `H` can differ from 0, where most cannot.
        only_evidence: Whether derivatives of nothing but the log evidence are wanted. The residuals of least
            squares do not change with `x` to first order, so that its derivatives are those at a fixed `x`.
    """
    every = [*prior, response]
    allowed = torch.stack([rows.allowed.expand(particles) for rows in every]).all(0)
    # no element of such a matrix is larger than its diagonal
    if pattern is None:
        precision, gradient = normal_equations(every, size)
        precision, gradient = precision.expand(particles, -1, -1), gradient.expand(particles, -1)
        usable = allowed & (precision.diagonal(dim1=-2, dim2=-1) + gradient).isfinite().all(-1)
        dense_factor = DenseFactor(precision.detach() if only_evidence else precision, usable)
        factor: DenseFactor | Factor = dense_factor
        half_log_determinant = dense_factor.half_log_determinant
        if only_evidence and precision.requires_grad:
            half_log_determinant = _with_slope(dense_factor, precision)
        mean = -dense_factor.solve(torch.where(factor.exists[:, None], gradient, 0.0))
    else:
        entries, slopes = pattern_equations(every, pattern)
        entries, slopes = entries.expand(-1, particles), slopes.expand(-1, particles)
        usable = allowed & (entries[pattern.diagonal] + slopes[:-1]).isfinite().all(0)
        sparse_factor = pattern.factor(entries, usable)
        factor = sparse_factor
        half_log_determinant = sparse_factor.half_log_determinant
        mean = -sparse_factor.solve(torch.where(factor.exists, slopes, 0.0))
    if only_evidence:
        mean = mean.detach()
    distance = sum(
        (rows.residuals(mean).square().sum(-1) for rows in every), torch.zeros(1, dtype=mean.dtype)
    )
    volume = sum(
        (rows.log_volume - rows.log_scales().sum(-1) for rows in every), torch.zeros(1, dtype=mean.dtype)
    )
    total = volume - 0.5 * distance - half_log_determinant - response.number * HALF_LOG_TWO_PI
    return Solution(mean, factor, torch.where(factor.exists & total.isfinite(), total, -math.inf))


def _with_slope(
    factor: DenseFactor, precision: Float[Tensor, "particles size size"]
) -> Float[Tensor, " particles"]:
    """Half the log determinant of a precision: its derivative is that of half a trace with the inverse fixed.

    Args:
        factor: That of the precision, without derivatives.
        precision: The precision itself, with its derivatives.
    """
    covariance = torch.cholesky_inverse(factor.lower)
    safe = torch.where(factor.exists[:, None, None], precision, 0.0)
    trace = torch.linalg.vecdot(covariance.flatten(1), safe.flatten(1))
    found: Tensor = factor.half_log_determinant + 0.5 * (trace - trace.detach())
    return found


class Influence(NamedTuple):
    """What single rows of the response change.

    Attributes:
        residual: Whitened residuals at the block's mean `[particles, rows]`.
        leverage: Variance of their expectations under the block's distribution `[particles, rows]`.
    """

    residual: Float[Tensor, "particles rows"]
    leverage: Float[Tensor, "particles rows"]


def influence(found: Solution, rows: Rows) -> Influence:
    """Residuals and leverages of rows, which may be among those that the solution is given or not.

    Args:
        found: The block given some rows.
        rows: Rows of the response.
    """
    columns, coefficients, _ = rows.affine
    (particles, size), factor = found.mean.shape, found.factor
    if not isinstance(factor, DenseFactor):
        variance = factor.variances(rows)
    elif is_sparse(rows, size):
        covariance = torch.nn.functional.pad(torch.cholesky_inverse(factor.lower), (0, 1, 0, 1))
        if rows.factors is not None:
            coefficients = coefficients * torch.nn.functional.pad(rows.factors, (0, 1))[:, columns]
        pairs = columns[:, :, None] * (size + 1) + columns[:, None, :]
        picked = covariance.reshape(particles, -1)[:, pairs.reshape(-1)].reshape(particles, *pairs.shape)
        variance = ((picked @ coefficients[..., None]).squeeze(-1) * coefficients).sum(-1)
    else:
        design = dense(rows, size).mT
        whitened = torch.linalg.solve_triangular(factor.lower, design.expand(particles, -1, -1), upper=False)
        variance = whitened.square().sum(1)
    return Influence(rows.residuals(found.mean), variance / rows.scale.square())


def raised_scales(
    found: Influence,
    scale: Float[Tensor, "#particles #rows"],
    given: Bool[Tensor, " rows"],
    exists: Bool[Tensor, " particles"],
) -> Float[Tensor, "particles rows"] | None:
    """Standard deviations with which what each row is given the others is known to some digits.

    Where a row's own standard deviation is far below that of its expectation given the others, its leverage
    is 1 to the last digits and what it lacks of 1 is not known. As that deviation vanishes, densities of rows
    given others converge, with an error of its square over the expectation's variance: a larger one, of the
    root of `LEAST_LEFT`, stands in for it.

    Args:
        found: Residuals and leverages of the rows.
        scale: Their standard deviations, one for all or one a row.
        given: Which of the rows the solution is given.
        exists: Where there is a solution: leverages mean nothing elsewhere.

    Returns:
        `None` where no deviation is too small.
    """
    left = 1.0 - found.leverage
    small = exists[:, None] & given & (left < TOO_LITTLE_LEFT)
    if not bool(small.any()):
        return None
    factor = (LEAST_LEFT / left.clamp_min(torch.finfo(torch.float64).eps)).sqrt()
    return scale * torch.where(small, factor, 1.0)


def without_and_with(
    found: Influence, log_scales: Float[Tensor, "#particles rows"], given: Bool[Tensor, " rows"]
) -> Float[Tensor, "particles rows"]:
    """Log density of each row given all given rows but itself.

    Without row i the variance of its expectation grows from `l` to `l / (1 - l)` (Sundararajan and Keerthi
    2001), in units of its own.

    Args:
        found: Residuals and leverages of the rows.
        log_scales: Logs of their standard deviations.
        given: Which of the rows the solution is given.
    """
    tiny = torch.finfo(torch.float64).eps
    shrunk = torch.where(given, (1.0 - found.leverage).clamp_min(tiny), 1.0 + found.leverage)
    determinant = torch.where(given, 0.5, -0.5) * shrunk.log()
    return determinant - 0.5 * found.residual.square() / shrunk - log_scales - HALF_LOG_TWO_PI


def cost(rows: int, entries: int, size: int) -> float:
    """Multiplications for one particle, about.

    Args:
        rows: Rows of the response.
        entries: Columns that each depends on.
        size: Elements of the block.
    """
    products = SPARSE * entries**2 if few_entries(entries, size) else size**2
    return size**3 / 3 + rows * products


def is_sparse(rows: Rows, size: int) -> bool:
    """Whether rows have few enough entries to be multiplied entry by entry.

    Args:
        rows: Residuals that are affine in a block.
        size: Elements of the block.
    """
    return few_entries(rows.affine.columns.shape[1], size)


def few_entries(entries: int, size: int) -> bool:
    """Whether rows of so few entries are multiplied entry by entry.

    Args:
        entries: Entries of a row.
        size: Elements of the block.
    """
    return SPARSE * entries**2 < size**2


def dense(rows: Rows, size: int) -> Float[Tensor, "#particles rows size"]:
    """Coefficients as matrices.

    Args:
        rows: Residuals that are affine in a block.
        size: Elements of the block.
    """
    matrix = rows.affine.matrix(size)
    return matrix if rows.factors is None else matrix * rows.factors[:, None, :]


def normal_equations(
    every: Sequence[Rows], size: int
) -> tuple[Float[Tensor, "#particles size size"], Float[Tensor, "#particles size"]]:
    """`J'J` and `J'r0` of all rows.

    Args:
        every: Rows, part by part.
        size: Elements of the block.
    """
    precision: Tensor | None = None
    diagonal, gradient = torch.zeros(2, 1, size, dtype=torch.float64)
    for rows in every:
        if rows.number == 0:
            continue
        if rows.affine.columns.shape[1] == 1 and rows.factors is None:
            squares, slope = _single_products(rows, size)
            diagonal, gradient = diagonal + squares, gradient + slope
            continue
        one_scale = rows.scale.shape[1] == 1
        weight = rows.scale.square().reciprocal()
        gram, slope = (_sparse_products if is_sparse(rows, size) else _dense_products)(
            rows, None if one_scale else weight, size
        )
        if rows.factors is not None:
            left = rows.factors * weight if one_scale else rows.factors
            gram = gram * left[:, :, None] * rows.factors[:, None, :]
            slope = slope * rows.factors
        elif one_scale:
            gram = gram * weight[:, :, None]
        precision = gram if precision is None else precision + gram
        gradient = gradient + (slope * weight if one_scale else slope)
    if precision is None:
        return torch.diag_embed(diagonal), gradient
    if bool(diagonal.any()):
        precision = precision.expand(max(len(precision), len(diagonal)), -1, -1)
        precision = precision.diagonal_scatter(precision.diagonal(dim1=1, dim2=2) + diagonal, 0, 1, 2)
    return precision, gradient


def _single_products(rows: Rows, size: int) -> tuple[Tensor, Tensor]:
    """The diagonal of `J'J`, and `J'r0`, of rows that read one element each: most priors."""
    columns, coefficients, origin = rows.affine
    single = coefficients[:, :, 0]
    weighted = single * rows.scale.square().reciprocal()
    squares, slopes = weighted * single, weighted * origin
    where = columns[:, 0]
    diagonal = squares.new_zeros(len(squares), size + 1).index_add(1, where, squares.expand(-1, len(where)))
    slope = slopes.new_zeros(len(slopes), size + 1).index_add(1, where, slopes.expand(-1, len(where)))
    return diagonal[:, :size], slope[:, :size]


def _dense_products(rows: Rows, weight: Tensor | None, size: int) -> tuple[Tensor, Tensor]:
    design, origin = rows.affine.matrix(size), rows.affine.origin
    if weight is None:
        return design.mT @ design, (design.mT @ origin[:, :, None]).squeeze(-1)
    weighted = design.mT * weight[:, None, :]
    return weighted @ design, (weighted @ origin[:, :, None]).squeeze(-1)


def _sparse_products(rows: Rows, weight: Tensor | None, size: int) -> tuple[Tensor, Tensor]:
    columns, coefficients, origin = rows.affine
    # particles last, so that one addition serves them all
    entries = coefficients.permute(1, 2, 0)
    weighted = entries if weight is None else entries * weight.T[:, None, :]
    pairs = (columns[:, :, None] * (size + 1) + columns[:, None, :]).reshape(-1)
    products = (weighted[:, :, None, :] * entries[:, None, :, :]).flatten(0, 2)
    gram = products.new_zeros((size + 1) ** 2, products.shape[1]).index_add(0, pairs, products)
    gram = gram.T.reshape(-1, size + 1, size + 1)[:, :size, :size]
    slopes = (weighted * origin.T[:, None, :]).flatten(0, 1)
    slope = slopes.new_zeros(size + 1, slopes.shape[1]).index_add(0, columns.reshape(-1), slopes)
    return gram, slope.T[:, :size]
