"""Normal and Student-t vectors, normal matrices and Wishart matrices."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.programs.distribution import Domain, Support, entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Distribution,
    Statistics,
    real_vector,
)
from synthstats_lightning.scoring.distributions.coordinates import Coordinates, cholesky, cholesky_inverse
from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    elliptical_subsets,
    gaussian_subsets,
    log_determinant,
    squared_distance,
)
from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal
from synthstats_lightning.scoring.numerics.gamma import log_gamma_ratio
from synthstats_lightning.scoring.numerics.picks import pick_last
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


class MvNormal(Definition):
    """Normal vectors with mean `mu` and covariance `cov`, whose lower triangle is read."""

    inside = real_vector

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, cov: Tensor) -> Tensor:
        value = statistics[0]
        lower, exists = cholesky_factor(cov)
        distance = squared_distance(value - mu, lower)
        result = offset - 0.5 * distance - log_determinant(lower) - value.shape[-1] * HALF_LOG_TWO_PI
        return torch.where(exists, result, -math.inf)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, cov: Tensor) -> Tensor:
        lower, exists = cholesky_factor(cov)
        noise = standard_normal(generator, shape).unsqueeze(-1)
        draws = mu + (lower @ noise).squeeze(-1)
        return torch.where(exists.unsqueeze(-1), draws, torch.nan)

    @staticmethod
    def subsets(value: Tensor, given: Tensor, mu: Tensor, cov: Tensor) -> Subsets:
        n = value.shape[-1]
        residual = (value - mu).reshape(-1, n)
        cov = cov.reshape(-1, n, n)
        particles = max(len(residual), len(cov))
        return gaussian_subsets(residual.expand(particles, n), cov.expand(particles, n, n), given)


_NORMAL_BLOCKS = entry(
    "NormalBlocks",
    {"mu": Domain.REAL, "entries": Domain.REAL},
    Support.REAL,
    event_rank=1,
    parameter_ranks=(1, 1),
    event_from=("mu",),
)


def normal_blocks(
    blocks: Int[Tensor, "blocks length"], places: Int[Tensor, "some length length"]
) -> Distribution:
    """Normal vectors whose covariance is 0 between blocks of their entries.

    Args:
        blocks: Entries of each block, ascending.
        places: Where each entry of a block's covariance stands among `entries`; of one block if all have the
            same.

    Returns:
        A distribution of the mean `mu` and of `entries`, from which covariances are read.
    """

    def covariances(entries: Tensor) -> Tensor:
        return pick_last(entries, places)

    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, entries: Tensor) -> Tensor:
        lower, exists = cholesky_factor(covariances(entries))
        distance = squared_distance((statistics[0] - mu)[..., blocks], lower).sum(-1)
        log_scale = log_determinant(lower).expand(*lower.shape[:-3], len(blocks)).sum(-1)
        result = offset - 0.5 * distance - log_scale - blocks.numel() * HALF_LOG_TWO_PI
        return torch.where(exists.all(-1), result, -math.inf)

    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, entries: Tensor) -> Tensor:
        lower, exists = cholesky_factor(covariances(entries))
        noise = standard_normal(generator, shape)[..., blocks].unsqueeze(-1)
        deviation = torch.empty(shape, dtype=torch.float64)
        deviation[..., blocks] = (lower @ noise).squeeze(-1)
        return torch.where(exists.all(-1, keepdim=True), mu + deviation, torch.nan)

    def subsets(value: Tensor, given: Tensor, mu: Tensor, entries: Tensor) -> Subsets:
        residual = (value - mu).reshape(-1, value.shape[-1])[:, blocks]
        cov = covariances(entries.reshape(-1, entries.shape[-1]))
        known = given[blocks].to(torch.float64)
        # an entry that is not given is made one that says nothing of the others, nor of the density
        both = cov * known[:, :, None] * known[:, None] + torch.diag_embed(1.0 - known)
        lower, exists = cholesky_factor(both if not bool(given.all()) else cov)
        precision = torch.cholesky_inverse(lower.flatten(0, 1)).reshape(lower.shape)
        weighted = (precision @ (residual * known).unsqueeze(-1)).squeeze(-1)
        quadratic = (residual * known * weighted).sum(-1)
        log_scale = log_determinant(lower) + known.sum(-1) * HALF_LOG_TWO_PI
        total = (-0.5 * quadratic - log_scale).sum(-1)
        total = torch.where(exists.all(-1), total, -math.inf)
        spread = precision.diagonal(dim1=-2, dim2=-1)
        cross = cov * known[:, None]
        apart = residual - (cross @ weighted.unsqueeze(-1)).squeeze(-1)
        left = cov.diagonal(dim1=-2, dim2=-1) - ((cross @ precision) * cross).sum(-1)
        less = 0.5 * (weighted.square() / spread - torch.log(spread)) + HALF_LOG_TWO_PI
        more = -0.5 * (apart.square() / left + torch.log(left)) - HALF_LOG_TWO_PI
        change = torch.where(known > 0, less, more)
        changed = torch.empty(len(total), len(value), dtype=torch.float64)
        changed[:, blocks] = total[:, None, None] + change
        return Subsets(*(x.nan_to_num(nan=-math.inf, neginf=-math.inf) for x in (total, changed)))

    def part(value: Tensor, given: Tensor, mu: Tensor, entries: Tensor) -> Tensor:
        residual = (value - mu).reshape(-1, value.shape[-1])[:, blocks]
        cov = covariances(entries.reshape(-1, entries.shape[-1]))
        total = residual.new_zeros(max(len(residual), len(cov)))
        # blocks of which the same entries are given have one factor where they have one covariance
        patterns, pattern_of = torch.unique(given[blocks], dim=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            some, own = pattern_of == number, torch.nonzero(pattern)[:, 0]
            here = (cov if cov.shape[1] == 1 else cov[:, some])[..., own[:, None], own]
            lower, exists = cholesky_factor(here)
            distance = squared_distance(residual[:, some][..., own], lower)
            density = -0.5 * distance - log_determinant(lower) - len(own) * HALF_LOG_TWO_PI
            total = total + torch.where(exists, density, -math.inf).sum(-1)
        return total.nan_to_num(nan=-math.inf, neginf=-math.inf)

    return Distribution(
        entry=_NORMAL_BLOCKS,
        inside=real_vector,
        log_kernel=log_kernel,
        sample=sample,
        subsets=subsets,
        part=part,
        subsets_width=lambda entries, out: blocks.numel() * blocks.shape[1],
    )


class MvStudentT(Definition):
    """Student-t vectors of `nu` degrees of freedom with location `mu` and scale matrix `scale`."""

    inside = real_vector

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, mu: Tensor, scale: Tensor) -> Tensor:
        lower, exists = cholesky_factor(scale)
        distance = squared_distance(statistics[0] - mu, lower)
        count = torch.tensor(float(statistics[0].shape[-1]), dtype=torch.float64)
        result = offset + MvStudentT._log_density(distance, log_determinant(lower), count, nu)
        return torch.where(exists, result, -math.inf)

    @staticmethod
    def _log_density(distance: Tensor, log_scale: Tensor, count: Tensor, nu: Tensor) -> Tensor:
        constant = log_gamma_ratio(0.5 * nu, 0.5 * count)
        constant = constant - 0.5 * count * torch.log(nu * math.pi)
        return constant - log_scale - 0.5 * (nu + count) * torch.log1p(distance / nu)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, mu: Tensor, scale: Tensor
    ) -> Tensor:
        lower, exists = cholesky_factor(scale)
        noise = (lower @ standard_normal(generator, shape).unsqueeze(-1)).squeeze(-1)
        chi_squared = 2.0 * standard_gamma(generator, shape[:-1], 0.5 * nu)
        draws = mu + noise * torch.sqrt(nu / chi_squared).unsqueeze(-1)
        return torch.where(exists.unsqueeze(-1), draws, torch.nan)

    @staticmethod
    def subsets(value: Tensor, given: Tensor, nu: Tensor, mu: Tensor, scale: Tensor) -> Subsets:
        n = value.shape[-1]
        residual, scale, nu = (value - mu).reshape(-1, n), scale.reshape(-1, n, n), nu.reshape(-1, 1)
        particles = max(len(residual), len(scale), len(nu))

        def log_density(distance: Tensor, log_scale: Tensor, count: Tensor) -> Tensor:
            return MvStudentT._log_density(distance, log_scale, count, nu)

        return elliptical_subsets(
            residual.expand(particles, n), scale.expand(particles, n, n), given, log_density
        )


class MatrixNormal(Definition):
    """Normal matrices of mean `mu`, whose rows and columns have covariances with these Cholesky factors."""

    @staticmethod
    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return value.isfinite().all(-1).all(-1)

    @staticmethod
    def _lower(factor: Tensor) -> tuple[Tensor, Tensor]:
        """The lower triangle, that of the identity where its diagonal is not positive, and where it is."""
        allowed = (factor.diagonal(dim1=-2, dim2=-1) > 0).all(-1) & factor.isfinite().all(-1).all(-1)
        identity = torch.eye(factor.shape[-1], dtype=factor.dtype)
        return torch.where(allowed[..., None, None], factor.tril(), identity), allowed

    @staticmethod
    def log_kernel(
        offset: Tensor, statistics: Statistics, mu: Tensor, rowchol: Tensor, colchol: Tensor
    ) -> Tensor:
        residual = statistics[0] - mu
        m, n = residual.shape[-2:]
        rows, rows_allowed = MatrixNormal._lower(rowchol)
        columns, columns_allowed = MatrixNormal._lower(colchol)
        whitened = torch.linalg.solve_triangular(rows, residual, upper=False)
        whitened = torch.linalg.solve_triangular(columns, whitened.mT, upper=False)
        result = offset - 0.5 * whitened.square().sum((-2, -1)) - m * n * HALF_LOG_TWO_PI
        result = result - n * torch.log(rows.diagonal(dim1=-2, dim2=-1)).sum(-1)
        result = result - m * torch.log(columns.diagonal(dim1=-2, dim2=-1)).sum(-1)
        return torch.where(rows_allowed & columns_allowed, result, -math.inf)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, rowchol: Tensor, colchol: Tensor
    ) -> Tensor:
        return mu + rowchol.tril() @ standard_normal(generator, shape) @ colchol.tril().mT


def covariance(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch n n"], Float[Tensor, "*batch"]]:
    """A positive definite matrix by its Cholesky factor, packed row by row with the log of its diagonal."""
    packed, log_jacobian = cholesky(u)
    lower = _unpacked(packed)
    n = lower.shape[-1]
    # from the factor to its product with its transpose: 2^n and the diagonal to the powers n, n - 1, ..., 1
    powers = torch.arange(n, 0, -1, dtype=u.dtype)
    change = n * math.log(2.0) + (powers * torch.log(lower.diagonal(dim1=-2, dim2=-1))).sum(-1)
    return lower @ lower.mT, log_jacobian + change


def covariance_inverse(value: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `covariance`; of the identity where a matrix is not positive definite."""
    rows, columns = torch.tril_indices(*value.shape[-2:])
    return cholesky_inverse(cholesky_factor(value).lower[..., rows, columns])


def _unpacked(packed: Tensor) -> Tensor:
    n = (math.isqrt(8 * packed.shape[-1] + 1) - 1) // 2
    rows, columns = torch.tril_indices(n, n)
    matrix = packed.new_zeros(*packed.shape[:-1], n, n)
    matrix[..., rows, columns] = packed
    return matrix


def _triangle(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)


class Wishart(Definition):
    """Positive definite matrices of `nu` degrees of freedom and a scale with the factor `scale_chol`."""

    coordinates = Coordinates(_triangle, covariance, covariance_inverse)

    @staticmethod
    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        symmetric = torch.isclose(value, value.mT, rtol=1e-8, atol=0.0).all(-1).all(-1)
        return symmetric & cholesky_factor(value).exists

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, scale_chol: Tensor) -> Tensor:
        lower, exists = cholesky_factor(statistics[0])
        p = lower.shape[-1]
        diagonal = scale_chol.diagonal(dim1=-2, dim2=-1)
        allowed = exists & (nu > p - 1) & (diagonal > 0).all(-1) & scale_chol.isfinite().all(-1).all(-1)
        identity = torch.eye(p, dtype=scale_chol.dtype)
        factor = torch.where((diagonal > 0).all(-1)[..., None, None], scale_chol.tril(), identity)
        nu = torch.where(nu > p - 1, nu, float(p))
        # the trace of the inverse scale times the value, by a triangular solve
        whitened = torch.linalg.solve_triangular(factor, lower, upper=False)
        # the powers of both determinants nearly cancel
        result = nu * log_determinant(whitened) - (p + 1.0) * log_determinant(lower)
        result = result - 0.5 * whitened.square().sum((-2, -1)) - 0.5 * nu * p * math.log(2.0)
        result = offset + result - torch.special.multigammaln(0.5 * nu, p)
        return torch.where(allowed, result, -math.inf)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, scale_chol: Tensor) -> Tensor:
        # Bartlett (1933): a triangle of normal variables under roots of chi-squared ones
        p = shape[-1]
        freedom = (nu.unsqueeze(-1) - torch.arange(p, dtype=torch.float64)).clamp_min(1e-6)
        diagonal = torch.sqrt(2.0 * standard_gamma(generator, shape[:-1], 0.5 * freedom))
        triangle = standard_normal(generator, shape).tril(-1) + torch.diag_embed(diagonal)
        factor = scale_chol.tril() @ triangle
        return factor @ factor.mT
