"""Correlation matrices of Lewandowski, Kurowicka and Joe (2009): correlations, factors, coordinates."""

from __future__ import annotations

import math
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.scoring.distributions.base import Definition, Distribution, Statistics
from synthstats_lightning.scoring.distributions.coordinates import Coordinates, diagonal
from synthstats_lightning.scoring.distributions.gaussian import cholesky_factor, log_determinant
from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal
from synthstats_lightning.scoring.numerics.gamma import log_gamma_ratio
from synthstats_lightning.scoring.numerics.transforms import MAX_EXPONENT, UNIT_LOW, unit_inverse

STEEPEST = 300.0
"""Largest sum of a row's coordinates of correlations: beyond, its last entry would be 0."""


def order_of(length: int) -> int:
    """Rows of the matrix that has `length` entries above its diagonal."""
    return (math.isqrt(8 * length + 1) + 1) // 2


def correlation_matrix(above: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch n n"]:
    """The symmetric matrix with ones on its diagonal and these entries above it, row by row."""
    n = order_of(above.shape[-1])
    rows, columns = torch.triu_indices(n, n, 1)
    places = torch.zeros(n, n, dtype=torch.int64)
    places[rows, columns] = places[columns, rows] = torch.arange(1, len(rows) + 1)
    entries = torch.cat([torch.ones_like(above[..., :1]), above], -1)
    return entries[..., places.flatten()].reshape(*above.shape[:-1], n, n)


def correlations(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """Every correlation by itself between -1 and 1, also where the matrix is not positive definite."""
    # tanh(u / 2), which is 2 sigmoid(u) - 1
    return torch.tanh(0.5 * u), (math.log(2.0) + 2.0 * logsigmoid(u) - u).sum(-1)


def correlations_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `correlations`."""
    return unit_inverse(0.5 * (1.0 + value))


@cache
@torch.inference_mode(False)
def _spiral(n: int) -> Tensor:
    """Places of the entries below the diagonal of `n` rows, as `[n (n - 1) / 2, 2]`, in PyMC's order.

    The last row from right to left comes first; then the remaining triangle's rows, the first from the left
    and the last from the right by turns.
    """
    size = n - 1
    entries = torch.arange(size * (size + 1) // 2)
    filled = torch.cat([entries[size:], entries.flip(0)]).reshape(size, size)
    rows, columns = torch.tril_indices(size, size)
    order = torch.argsort(filled[rows, columns])
    return torch.stack([rows + 1, columns], 1)[order]


def _triangle(u: Tensor, n: int) -> Tensor:
    places = _spiral(n)
    matrix = torch.eye(n, dtype=u.dtype).expand(*u.shape[:-1], n, n).clone()
    matrix[..., places[:, 0], places[:, 1]] = u
    return matrix


def correlation_factor(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch n n"], Float[Tensor, "*batch"]]:
    """A lower triangle with ones on its diagonal, each row divided by its norm."""
    n = order_of(u.shape[-1])
    triangle = _triangle(u, n)
    squared = triangle.square().sum(-1, keepdim=True)
    # row i (from 0) has i free entries, and is squeezed by its norm to the power of -(i + 2)
    exponents = torch.arange(n, dtype=u.dtype) + 2.0
    return triangle / torch.sqrt(squared), -0.5 * (exponents * torch.log(squared.squeeze(-1))).sum(-1)


def correlation_factor_inverse(value: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `correlation_factor`."""
    places = _spiral(value.shape[-1])
    scaled = value / value.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return scaled[..., places[:, 0], places[:, 1]]


def covariance_factor(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """A packed lower triangle from logs of deviations and, off its diagonal, `atanh` of partial correlations.

    Entries of a row are as large as its deviation is; of these numbers none has a scale that another sets,
    and under the distributions here they are independent.
    """
    places = diagonal(u.shape[-1])
    n = len(places)
    rows, columns = torch.tril_indices(n, n)
    below = rows > columns
    on_diagonal, free = u[..., places], u[..., below]
    matrix = u.new_zeros(*u.shape[:-1], n, n)
    limit = STEEPEST / n
    matrix[..., rows[below], columns[below]] = free.clamp(-limit, limit)
    log_left = _log_left(matrix).cumsum(-1)
    # of each entry's own place what those before it leave
    before = torch.cat([torch.zeros_like(log_left[..., :1]), log_left[..., :-1]], -1)
    left = torch.exp(0.5 * before)
    unit = torch.tanh(matrix) * left + torch.diag_embed(left.diagonal(dim1=-2, dim2=-1))
    sd = torch.exp(on_diagonal.clamp(-MAX_EXPONENT, MAX_EXPONENT))
    value = (sd.unsqueeze(-1) * unit)[..., rows, columns]
    index = torch.arange(n, dtype=u.dtype)
    log_last = 0.5 * before.diagonal(dim1=-2, dim2=-1)
    log_jacobian = ((index + 1.0) * on_diagonal - log_last).sum(-1)
    log_jacobian = log_jacobian + (_log_left(free) + 0.5 * before[..., rows[below], columns[below]]).sum(-1)
    return value, log_jacobian


def covariance_factor_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `covariance_factor`."""
    n = len(diagonal(value.shape[-1]))
    rows, columns = torch.tril_indices(n, n)
    matrix = value.new_zeros(*value.shape[:-1], n, n)
    matrix[..., rows, columns] = value
    # sums of squares from each entry to the diagonal
    squares = matrix.square().flip(-1).cumsum(-1).flip(-1)
    sd = squares[..., 0].sqrt()
    after = torch.cat([squares[..., 1:], torch.zeros_like(squares[..., :1])], -1).sqrt()
    partial = torch.asinh(matrix / after.clamp_min(UNIT_LOW)).tril(-1)
    return (partial + torch.diag_embed(torch.log(sd.clamp_min(UNIT_LOW))))[..., rows, columns]


def _log_left(z: Tensor) -> Tensor:
    """Log of 1 minus the square of a correlation, from its `atanh`."""
    return math.log(4.0) + logsigmoid(2.0 * z) + logsigmoid(-2.0 * z)


def _as_many(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


def _below(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


CORRELATION_COORDINATES = Coordinates(lambda shape: shape, correlations, correlations_inverse)
CORRELATION_FACTOR_COORDINATES = Coordinates(_below, correlation_factor, correlation_factor_inverse)
COVARIANCE_FACTOR_COORDINATES = Coordinates(_as_many, covariance_factor, covariance_factor_inverse)


def log_lkj_normaliser(eta: Float[Tensor, "*batch"], n: int) -> Float[Tensor, "*batch"]:
    """Log of the integral of `det(correlation) ** (eta - 1)`: one Beta function a row of the factor.

    Args:
        eta: Shape parameter, positive.
        n: Rows of the matrix.
    """
    total = torch.zeros_like(eta)
    for i in range(1, n):
        b = eta + 0.5 * (n - 1 - i)
        half = torch.as_tensor(0.5 * i, dtype=eta.dtype)
        total = total + 0.5 * i * math.log(math.pi) - log_gamma_ratio(b, half)
    return total


def sample_correlation_rows(
    generator: torch.Generator, batch: tuple[int, ...], n: int, eta: Float[Tensor, ...]
) -> list[Float[Tensor, "*batch columns"]]:
    """Rows of Cholesky factors of random correlation matrices, row i of length i + 1.

    By the onion method: the squared norm of row i before its diagonal is a Beta variable of parameters
    `i / 2` and `eta + (n - 1 - i) / 2`.

    Args:
        generator: Source of all randomness.
        batch: Leading axes of the draws.
        n: Rows of each matrix.
        eta: Shape parameter; broadcasts over `batch`.
    """
    rows = [torch.ones(*batch, 1, dtype=torch.float64)]
    for i in range(1, n):
        a = standard_gamma(generator, batch, torch.tensor(0.5 * i, dtype=torch.float64))
        b = standard_gamma(generator, batch, eta + 0.5 * (n - 1 - i))
        squared = a / (a + b)
        direction = standard_normal(generator, (*batch, i))
        direction = direction / direction.norm(dim=-1, keepdim=True)
        inner = torch.sqrt(squared).unsqueeze(-1) * direction
        rows.append(torch.cat([inner, torch.sqrt(b / (a + b)).unsqueeze(-1)], -1))
    return rows


def sample_correlation_factor(
    generator: torch.Generator, batch: tuple[int, ...], n: int, eta: Float[Tensor, ...]
) -> Float[Tensor, "*batch n n"]:
    """Cholesky factors of random correlation matrices; see `sample_correlation_rows`."""
    rows = sample_correlation_rows(generator, batch, n, eta)
    return torch.stack([torch.nn.functional.pad(row, (0, n - row.shape[-1])) for row in rows], -2)


class LKJCorr(Definition):
    """Correlations above the diagonal; density proportional to `det(correlation) ** (eta - 1)`."""

    anchor = 0.0
    coordinates = CORRELATION_COORDINATES

    @staticmethod
    def inside(value: Tensor, eta: Tensor) -> Tensor:
        return cholesky_factor(correlation_matrix(value)).exists & (value.abs() < 1.0).all(-1)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor) -> Tensor:
        matrix = correlation_matrix(statistics[0])
        lower, exists = cholesky_factor(matrix)
        result = offset + 2.0 * (eta - 1.0) * log_determinant(lower)
        result = result - log_lkj_normaliser(eta, matrix.shape[-1])
        return torch.where(exists, result, -math.inf)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], eta: Tensor) -> Tensor:
        n = order_of(shape[-1])
        lower = sample_correlation_factor(generator, shape[:-1], n, eta)
        above = torch.triu_indices(n, n, 1)
        return (lower @ lower.mT)[..., above[0], above[1]]


class LKJCorrCholesky(Definition):
    """Lower Cholesky factors of such matrices, with respect to their entries below the diagonal."""

    coordinates = CORRELATION_FACTOR_COORDINATES

    @staticmethod
    def inside(value: Tensor, eta: Tensor) -> Tensor:
        unit_rows = (torch.abs(value.square().sum(-1) - 1.0) <= 1e-8).all(-1)
        return (
            unit_rows & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1) & (value.triu(1) == 0).all(-1).all(-1)
        )

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor) -> Tensor:
        log_diagonal = torch.log(statistics[0].diagonal(dim1=-2, dim2=-1))
        n = log_diagonal.shape[-1]
        # the correlation's density, and n - 1 - i for the change to the strict triangle of the factor
        exponents = 2.0 * (eta.unsqueeze(-1) - 1.0) + (n - 1.0 - torch.arange(n, dtype=torch.float64))
        return offset + (exponents * log_diagonal).sum(-1) - log_lkj_normaliser(eta, n)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], eta: Tensor) -> Tensor:
        return sample_correlation_factor(generator, shape[:-2], shape[-1], eta)


def lkj_cholesky_cov(entry: Entry, deviation: Distribution) -> Distribution:
    """The distribution of a lower Cholesky factor, packed row by row.

    Correlations follow Lewandowski, Kurowicka and Joe (2009), with density proportional to
    `det(correlation) ** (eta - 1)`.

    Args:
        entry: What `programs` says of the result.
        deviation: The distribution of the standard deviations, whose parameters have an axis along them.
    """

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return value.isfinite().all(-1) & (value[..., diagonal(value.shape[-1])] > 0).all(-1)

    def log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        places = diagonal(value.shape[-1])
        n = len(places)
        rows = torch.tensor_split(value, (places[:-1] + 1).tolist(), -1)
        sd = torch.stack([row.square().sum(-1) for row in rows], -1).sqrt()
        log_diagonal = torch.log(value[..., places] / sd)
        index = torch.arange(n, dtype=torch.float64)
        # correlation's density and the change from (correlation, deviations) to the packed factor
        exponents = 2.0 * eta.unsqueeze(-1) - 3.0 + n - index
        correlation = (exponents * log_diagonal).sum(-1) - log_lkj_normaliser(eta, n)
        change = (log_diagonal - index * torch.log(sd)).sum(-1)
        return offset + correlation + change + deviation.log_prob(sd, *parameters).sum(-1)

    def sample(
        generator: torch.Generator, shape: tuple[int, ...], eta: Tensor, *parameters: Tensor
    ) -> Tensor:
        n = len(diagonal(shape[-1]))
        batch = shape[:-1]
        sd = deviation.sample(generator, (*batch, n), *parameters)
        rows = sample_correlation_rows(generator, batch, n, eta)
        return torch.cat([row * sd[..., i : i + 1] for i, row in enumerate(rows)], -1)

    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        coordinates=COVARIANCE_FACTOR_COORDINATES,
    )
