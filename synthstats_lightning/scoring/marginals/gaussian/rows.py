"""Whitened residuals of normal distributions as rows that are affine in a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.distributions.fields import intrinsic_moments, proper_moments
from synthstats_lightning.scoring.distributions.gaussian import cholesky_factor
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine

SMALLEST = 1e-145
"""Smaller scales count as this one, beside which every other number is as large: their squares underflow."""


LEAST_ALIKE = 1e-30
"""Neighbours that are less alike than that count as this alike."""


class Rows(NamedTuple):
    """Independent standard normal residuals `(origin + coefficients @ x) / scale`.

    Attributes:
        affine: What is divided by the scale.
        scale: `[particles or 1, rows or 1]`; finite and positive also where not allowed.
        log_volume: Sum of the logs of what the density is multiplied by for whitening, without the scales
            `[particles or 1]`.
        allowed: Where the distribution's parameters are `[particles or 1]`.
        factors: What each element of the block is multiplied by before, where particles share the
            coefficients `[particles or 1, size]`.
    """

    affine: Affine
    scale: Float[Tensor, "#particles #rows"]
    log_volume: Float[Tensor, " #particles"]
    allowed: Bool[Tensor, " #particles"]
    factors: Float[Tensor, "#particles size"] | None = None

    @property
    def number(self) -> int:
        """Number of rows."""
        return self.affine.columns.shape[0]

    def log_scales(self) -> Float[Tensor, "#particles rows"]:
        """Log of each row's scale."""
        return self.scale.log().expand(-1, self.number)

    def residuals(self, x: Float[Tensor, "particles size"]) -> Float[Tensor, "#particles #rows"]:
        """Whitened residuals at a value of the block."""
        return self.affine.at(x if self.factors is None else x * self.factors) / self.scale

    def some(self, kept: Bool[Tensor, " rows"]) -> Rows:
        """Some of the rows."""
        columns, coefficients, origin = self.affine
        affine = Affine(columns[kept], coefficients[:, kept], origin[:, kept])
        return self._replace(
            affine=affine, scale=self.scale if self.scale.shape[1] == 1 else self.scale[:, kept]
        )


def spread(affine: Affine, shape: Shape, wanted: Shape) -> Affine:
    """A map of a node's elements as one of those of a larger shape that it broadcasts to."""
    if math.prod(shape) == math.prod(wanted):
        return affine
    places = torch.arange(math.prod(shape)).reshape(shape).expand(wanted).reshape(-1)
    columns, coefficients, origin = affine
    return Affine(columns[places], coefficients[:, places], origin[:, places])


def response_rows(
    value: Float[Tensor, " rows"],
    mean: Affine,
    scale: Float[Tensor, "#particles #rows"],
    jacobian: Float[Tensor, " rows"] | None = None,
) -> Rows:
    """Residuals of a normal response.

    Args:
        value: The response's values, one a row.
        mean: Its mean, an element a row.
        scale: Its standard deviations, one for all or one a row.
        jacobian: How much wider each row lies in the response's own units, above 0: residuals and scales are
            multiplied by it; 1 by default.
    """
    columns, coefficients, origin = mean
    safe, allowed = _positive(scale)
    nothing = torch.zeros(1, dtype=torch.float64)
    if jacobian is None:
        return Rows(Affine(columns, -coefficients, value - origin), safe, nothing, allowed)
    wide = Affine(columns, -coefficients * jacobian[:, None], (value - origin) * jacobian)
    return Rows(wide, safe * jacobian, nothing, allowed)


def constant_rows(affine: Affine, scale: Float[Tensor, "#particles 1"]) -> Rows:
    """Residuals of one scale that are known up to it.

    Args:
        affine: The residuals before division.
        scale: Their standard deviation.
    """
    safe, allowed = _positive(scale)
    return Rows(affine, safe, torch.zeros(1, dtype=torch.float64), allowed)


def deviation(start: int, mean: Affine) -> Affine:
    """Elements of a parameter minus their means.

    Args:
        start: Column of the first element.
        mean: Their means, an element each.
    """
    columns, coefficients, origin = mean
    own = torch.arange(start, start + len(columns))[:, None]
    ones = coefficients.new_ones(*coefficients.shape[:2], 1)
    return Affine(torch.cat([own, columns], 1), torch.cat([ones, -coefficients], 2), -origin)


def normal_rows(start: int, mean: Affine, scale: Float[Tensor, "#particles #rows"]) -> Rows:
    """Residuals of independent normal parameters; see `deviation` and `response_rows`."""
    safe, allowed = _positive(scale)
    return Rows(deviation(start, mean), safe, torch.zeros(1, dtype=torch.float64), allowed)


def walk_rows(
    start: int,
    first: Affine,
    drift: Affine,
    first_scale: Float[Tensor, "#particles walks 1"],
    step_scale: Float[Tensor, "#particles walks steps"],
) -> Rows:
    """Residuals of normal random walks: of their first values, and of their steps.

    Args:
        start: Column of the first element.
        first: Mean of each walk's first value.
        drift: Mean of each step, walk by walk.
        first_scale: Standard deviation of the first values.
        step_scale: That of the steps.
    """
    walks, steps = step_scale.shape[1:]
    index = torch.arange(start, start + walks * (steps + 1)).reshape(walks, steps + 1)
    begin = deviation(0, first)
    begin = begin._replace(columns=torch.cat([index[:, :1], begin.columns[:, 1:]], 1))
    later = deviation(0, drift)
    own = torch.stack([index[:, 1:].reshape(-1), index[:, :-1].reshape(-1)], 1)
    ones = later.coefficients[:, :, :1]
    later = Affine(
        torch.cat([own, later.columns[:, 1:]], 1),
        torch.cat([ones, -ones, later.coefficients[:, :, 1:]], 2),
        later.origin,
    )
    scale = torch.cat(_same_particles([first_scale.flatten(1), step_scale.flatten(1)]), 1)
    safe, allowed = _positive(scale)
    return Rows(stacked([begin, later]), safe, torch.zeros(1, dtype=torch.float64), allowed)


def autoregression_rows(
    start: int,
    length: int,
    first: Affine,
    constant: Affine,
    rho: Float[Tensor, "#particles series order"],
    first_scale: Float[Tensor, "#particles series order"],
    scale: Float[Tensor, "#particles series 1"],
) -> Rows:
    """Residuals of normal autoregressions: of their first values, and of the later ones given those before.

    Args:
        start: Column of the first element.
        length: Values of a series, at least as many as its order.
        first: Means of each series' first values.
        constant: What is added to each of a series' later values.
        rho: Coefficients, that of the value just before first.
        first_scale: Standard deviations of the first values.
        scale: That of the later ones.
    """
    series, order = rho.shape[1:]
    later = length - order
    index = torch.arange(start, start + series * length).reshape(series, length)
    begin = deviation(0, first)
    begin = begin._replace(columns=torch.cat([index[:, :order].reshape(-1, 1), begin.columns[:, 1:]], 1))
    finite = rho.isfinite()
    lags = torch.where(finite, rho, 0.0)[:, :, None].expand(-1, -1, later, -1).flatten(1, 2)
    own = torch.cat([torch.ones_like(lags[..., :1]), -lags], 2)
    back = torch.arange(order, length)[:, None] - torch.arange(order + 1)
    columns, coefficients, origin = constant
    particles = max(len(own), len(coefficients))
    shifts = [own, -coefficients.repeat_interleave(later, 1)]
    moved = Affine(
        torch.cat([index[:, back].reshape(-1, order + 1), columns.repeat_interleave(later, 0)], 1),
        torch.cat([part.expand(particles, -1, -1) for part in shifts], 2),
        -origin.repeat_interleave(later, 1),
    )
    steps = scale.expand(-1, -1, later)
    safe, allowed = _positive(torch.cat(_same_particles([first_scale.flatten(1), steps.flatten(1)]), 1))
    nothing = torch.zeros(1, dtype=torch.float64)
    return Rows(stacked([begin, moved]), safe, nothing, allowed & finite.flatten(1).all(1))


class Whitening(NamedTuple):
    """What normal vectors minus their means are multiplied by to become independent standard normal numbers.

    Attributes:
        matrix: Triangular, with a positive diagonal; one for all vectors or one for each
            `[particles or 1, vectors or 1, k, k]`.
        allowed: Where there is such a matrix for every vector `[particles or 1]`.
    """

    matrix: Float[Tensor, "#particles #vectors k k"]
    allowed: Bool[Tensor, " #particles"]


def covariance_whitening(covariance: Float[Tensor, "#particles *vectors k k"]) -> Whitening:
    """The inverse of a covariance's Cholesky factor."""
    lower, exists = _factor(covariance)
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype)
    return Whitening(torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False), exists)


def field_whitening(
    name: str, parameters: Sequence[Tensor], allowed: Bool[Tensor, " #particles"]
) -> Whitening:
    """The transposed Cholesky factor of the precision of a vector given by its neighbours.

    Args:
        name: `"CAR"` or `"ICAR"`.
        parameters: Parameters of the distribution that satisfy its constraints.
        allowed: Where those of the model do.
    """
    moments = proper_moments if name == "CAR" else intrinsic_moments
    lower, exists = _factor(moments(*parameters)[1])
    return Whitening(lower.mT, exists & allowed)


class Neighbours(NamedTuple):
    """Places with symmetric weights between them, each with some weight.

    Attributes:
        first: The one place of each pair with a weight `[pairs]`.
        second: The other one `[pairs]`.
        weights: Weights of the pairs `[pairs]`.
        sums: Sum of the weights of each place `[size]`.
        eigenvalues: Of the weights, divided by the roots of both places' sums `[size]`.
    """

    first: Int[Tensor, " pairs"]
    second: Int[Tensor, " pairs"]
    weights: Float[Tensor, " pairs"]
    sums: Float[Tensor, " size"]
    eigenvalues: Float[Tensor, " size"]


def find_neighbours(weights: Float[Tensor, "#particles size size"], size: int) -> Neighbours | None:
    """The pairs of places that a matrix of weights ties.

    Args:
        weights: What ties each place to each other one, 0 where nothing does.
        size: Elements of the vectors that have them.

    Returns:
        `None` for several vectors, weights that particles differ in, that are not symmetric or negative, and
        for places without any.
    """
    if weights.shape != (1, size, size):
        return None
    matrix = weights[0].detach()
    sums = matrix.sum(0)
    if not bool((matrix == matrix.T).all() and (matrix >= 0).all() and (sums > 0).all()):
        return None
    if bool(matrix.diagonal().any()):
        return None
    first, second = matrix.triu(1).nonzero().T
    scaled = matrix / (sums[:, None] * sums).sqrt()
    return Neighbours(first, second, matrix[first, second], sums, torch.linalg.eigvalsh(scaled))


def neighbour_rows(
    start: int,
    mean: Affine,
    neighbours: Neighbours,
    alpha: Float[Tensor, " #particles"],
    tau: Float[Tensor, " #particles"],
    allowed: Bool[Tensor, " #particles"],
) -> Rows:
    """Residuals of a vector with the precision `tau * (D - alpha * W)`: of its places, and of pairs of them.

    As `x' (D - a W) x` is `(1 - |a|) sum_i d_i x_i^2 + |a| sum_ij w_ij (x_i - sign(a) x_j)^2` over pairs,
    these are more residuals than elements, which are tied to their neighbours alone. The precision's
    determinant comes from the eigenvalues of the weights.

    Args:
        start: Column of the first element.
        mean: Means of the elements.
        neighbours: The weights `W`, whose sums are `D`.
        alpha: How much neighbours are alike, between -1 and 1.
        tau: How precise all are, above 0.
        allowed: Where the parameters satisfy the distribution's constraints.
    """
    first, second, weights, sums, eigenvalues = neighbours
    alike = alpha.abs().clamp_min(LEAST_ALIKE)[:, None]
    precisions = torch.cat(_same_particles([(1.0 - alike) * sums, alike * weights]), 1) * tau[:, None]
    inside = (precisions > 0).all(1) & precisions.isfinite().all(1)
    scale = torch.where(inside[:, None], precisions, 1.0).rsqrt()
    columns, coefficients, origin = deviation(start, mean)
    sign = torch.where(alpha < 0, -1.0, 1.0).to(torch.float64)[:, None]
    sign = sign[:1] if bool((sign == sign[0]).all()) else sign
    particles = max(len(coefficients), len(sign))
    pairs = Affine(
        torch.cat([columns[first], columns[second]], 1),
        torch.cat(
            [
                coefficients[:, first].expand(particles, -1, -1),
                (-sign[..., None] * coefficients[:, second]).expand(particles, -1, -1),
            ],
            2,
        ),
        origin[:, first] - sign * origin[:, second],
    )
    single = Affine(columns, coefficients, origin)
    left = 1.0 - torch.where(inside, alpha, 0.0)[:, None] * eigenvalues
    inside = inside & (left > 0).all(1)
    determinant = torch.where(left > 0, left, 1.0).log().sum(1) + sums.log().sum()
    determinant = determinant + len(sums) * torch.where(inside, tau, 1.0).log()
    safe, holds = _positive(scale)
    return Rows(
        stacked([single, pairs]), safe, 0.5 * determinant + safe.log().sum(1), allowed & inside & holds
    )


def _factor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    lower, exists = cholesky_factor(matrix)
    size = matrix.shape[-1]
    return lower.reshape(len(lower), -1, size, size), exists.reshape(len(lower), -1).all(-1)


def vector_rows(start: int, mean: Affine, whitening: Whitening) -> Rows:
    """Residuals of normal vectors.

    Args:
        start: Column of the first element.
        mean: Means, vector by vector.
        whitening: What makes their deviations independent.
    """
    return whitened(deviation(start, mean), whitening)


def whitened(centred: Affine, whitening: Whitening) -> Rows:
    """Residuals of normal vectors around 0.

    Args:
        centred: Their elements, vector by vector.
        whitening: What makes them independent.
    """
    matrix, allowed = whitening
    size = matrix.shape[-1]
    vectors = len(centred.columns) // size
    entries = centred.columns.shape[1]
    columns = centred.columns.reshape(vectors, 1, size * entries).expand(-1, size, -1)
    mixed = matrix[..., None] * centred.coefficients.reshape(-1, vectors, 1, size, entries)
    origin = (matrix @ centred.origin.reshape(-1, vectors, size, 1)).squeeze(-1)
    affine = Affine(
        columns.reshape(vectors * size, size * entries),
        mixed.reshape(-1, vectors * size, size * entries),
        origin.reshape(-1, vectors * size),
    )
    volume = matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1).expand(-1, vectors).sum(-1)
    return Rows(affine, torch.ones(1, 1, dtype=torch.float64), volume, allowed)


def vector_walk_rows(
    start: int, length: int, first: Affine, drift: Affine, begin: Whitening, step: Whitening
) -> Rows:
    """Residuals of random walks of normal vectors: of their first values, and of their steps.

    Args:
        start: Column of the first element.
        length: Values of a walk.
        first: Mean of each walk's first value.
        drift: Mean of each step, walk by walk.
        begin: What makes the first values' deviations independent.
        step: What makes those of the steps independent.
    """
    size = begin.matrix.shape[-1]
    walks = len(first.columns) // size
    index = torch.arange(start, start + walks * length * size).reshape(walks, length, size)
    opening, later = deviation(0, first), deviation(0, drift)
    opening = opening._replace(columns=torch.cat([index[:, 0].reshape(-1, 1), opening.columns[:, 1:]], 1))
    own = torch.stack([index[:, 1:].reshape(-1), index[:, :-1].reshape(-1)], 1)
    ones = later.coefficients[:, :, :1]
    moved = Affine(
        torch.cat([own, later.columns[:, 1:]], 1),
        torch.cat([ones, -ones, later.coefficients[:, :, 1:]], 2),
        later.origin,
    )
    parts = [whitened(opening, begin), whitened(moved, step)]
    return Rows(
        stacked([part.affine for part in parts]),
        parts[0].scale,
        parts[0].log_volume + parts[1].log_volume,
        begin.allowed & step.allowed,
    )


def stacked(parts: Sequence[Affine]) -> Affine:
    """Several maps as one; entries that some do not have are filled with their first column, times 0."""
    entries = max(part.columns.shape[1] for part in parts)
    particles = max(max(len(part.coefficients), len(part.origin)) for part in parts)
    columns, coefficients, origins = [], [], []
    for part in parts:
        missing = entries - part.columns.shape[1]
        columns.append(torch.cat([part.columns, part.columns[:, :1].expand(-1, missing)], 1))
        padded = torch.nn.functional.pad(part.coefficients, (0, missing))
        coefficients.append(padded.expand(particles, -1, -1))
        origins.append(part.origin.expand(particles, -1))
    return Affine(torch.cat(columns), torch.cat(coefficients, 1), torch.cat(origins, 1))


def _positive(scale: Tensor) -> tuple[Tensor, Tensor]:
    """Scales with 1 where they are not standard deviations, and the particles in which all are."""
    holds = (scale > 0) & scale.isfinite()
    return torch.where(holds, scale.clamp_min(SMALLEST), 1.0), holds.all(-1)


def _same_particles(parts: Sequence[Tensor]) -> list[Tensor]:
    particles = max(len(part) for part in parts)
    return [part.expand(particles, -1) for part in parts]
