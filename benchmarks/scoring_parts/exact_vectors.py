"""Log-densities of vectors in 50 digits, at parameters of their whole ranges and draws from the scorer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mpmath as mp
import torch
from scoring_parts.exact_densities import normal
from torch import Tensor

from synthstats_lightning.scoring.distributions import Distribution

Cases = Iterator[tuple[str, float, Any]]
gamma, log = mp.loggamma, mp.log


def _uniform_log(source: random.Random, low: float, high: float) -> float:
    """Log-uniform, and often one of the ends."""
    return source.choice(
        [low, high, *(math.exp(source.uniform(math.log(low), math.log(high))) for _ in "123")]
    )


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _exact(values: Tensor) -> Any:
    return [mp.mpf(value) for value in values.reshape(-1).tolist()]


def _matrix(values: Tensor) -> Any:
    return mp.matrix(values.tolist())


def _case(distribution: Distribution, value: Tensor, parameters: tuple[Tensor, ...], wanted: Any) -> Any:
    shown = ", ".join(str(p.tolist()) for p in parameters)
    return (
        f"{distribution.name}({shown}) at {value.tolist()}",
        float(distribution.log_prob(value, *parameters)),
        wanted,
    )


def _draw(
    distribution: Distribution, shape: tuple[int, ...], parameters: tuple[Tensor, ...], seed: int
) -> Tensor:
    return distribution.sample(torch.Generator().manual_seed(seed), shape, *parameters)


def _covariance(source: random.Random, n: int) -> tuple[Tensor, Tensor]:
    """A lower factor with scales of many sizes and moderate correlations, and its covariance."""
    lower = torch.eye(n, dtype=torch.float64)
    for i in range(n):
        for j in range(i):
            lower[i, j] = source.uniform(-0.7, 0.7)
    lower = torch.diag(_tensor([_uniform_log(source, 1e-40, 1e40) for _ in range(n)])) @ lower
    return lower, lower @ lower.T


def _quadratic(value: Tensor, mu: Tensor, covariance: Tensor) -> tuple[Any, Any]:
    """Squared distance and log-determinant."""
    matrix, residual = _matrix(covariance), mp.matrix(_exact(value)) - mp.matrix(_exact(mu))
    return (residual.T * (matrix**-1) * residual)[0], log(mp.det(matrix))


def _mv_normal(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        mu, cov = _tensor([source.uniform(-1e3, 1e3) for _ in range(3)]), _covariance(source, 3)[1]
        value = _draw(distribution, (3,), (mu, cov), seed)
        distance, log_det = _quadratic(value, mu, cov)
        yield _case(distribution, value, (mu, cov), -(distance + log_det + 3 * log(2 * mp.pi)) / 2)


def _mv_student_t(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        nu = _uniform_log(source, *distribution.entry.ranges["nu"])
        mu, scale = _tensor([0.0, 1.0, -2.0]), _covariance(source, 3)[1]
        value = _draw(distribution, (3,), (_tensor(max(nu, 0.1)), mu, scale), seed)
        distance, log_det = _quadratic(value, mu, scale)
        free = mp.mpf(nu)
        wanted = gamma((free + 3) / 2) - gamma(free / 2) - 3 * log(free * mp.pi) / 2 - log_det / 2
        wanted -= (free + 3) / 2 * mp.log1p(distance / free)
        yield _case(distribution, value, (_tensor(nu), mu, scale), wanted)


def _dirichlet(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        a = _tensor([_uniform_log(source, *distribution.entry.ranges["a"]) for _ in range(4)])
        value = _draw(distribution, (4,), (a,), seed).clamp_min(1e-290)
        shapes = _exact(a)
        wanted = gamma(sum(shapes)) - sum(gamma(s) for s in shapes)
        wanted += sum((s - 1) * log(x) for s, x in zip(shapes, _exact(value), strict=True))
        yield _case(distribution, value, (a,), wanted)


def _stick_breaking(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        alpha = _tensor(_uniform_log(source, *distribution.entry.ranges["alpha"]))
        value = _draw(distribution, (4,), (alpha,), seed)
        x, shape = _exact(value), mp.mpf(float(alpha))
        wanted = 3 * log(shape) + shape * log(x[-1]) - sum(log(sum(x[i:])) for i in range(4))
        yield _case(distribution, value, (alpha,), wanted)


def _counts(source: random.Random) -> tuple[Tensor, Tensor]:
    counts = _tensor(
        [float(int(_uniform_log(source, 1.0, 1e13))) * source.choice([0, 1, 1]) for _ in range(4)]
    )
    return counts, counts.sum()


def _multinomial(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for _ in range(cases):
        value, n = _counts(source)
        weights = _tensor([_uniform_log(source, 1e-9, 1.0) for _ in range(4)])
        weights = weights / weights.sum()
        p, k = _exact(weights), _exact(value)
        wanted = gamma(sum(k) + 1) - sum(gamma(c + 1) for c in k)
        wanted += sum(c * log(w / sum(p)) for c, w in zip(k, p, strict=True) if c)
        yield _case(distribution, value, (n, weights), wanted)


def _dirichlet_multinomial(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for _ in range(cases):
        value, n = _counts(source)
        a = _tensor([_uniform_log(source, *distribution.entry.ranges["a"]) for _ in range(4)])
        shapes, k = _exact(a), _exact(value)
        wanted = gamma(sum(k) + 1) + gamma(sum(shapes)) - gamma(sum(shapes) + sum(k))
        wanted += sum(gamma(c + s) - gamma(s) - gamma(c + 1) for c, s in zip(k, shapes, strict=True))
        yield _case(distribution, value, (n, a), wanted)


def _wishart(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        nu = _tensor(max(_uniform_log(source, *distribution.entry.ranges["nu"]), 2.5))
        factor = _covariance(source, 3)[0]
        value = _draw(distribution, (3, 3), (nu, factor), seed)
        if not bool(distribution.inside(value, nu, factor)):
            continue
        free, lower, x = mp.mpf(float(nu)), _matrix(factor), _matrix(value)
        scale = lower * lower.T
        trace = sum((scale**-1 * x)[i, i] for i in range(3))
        constant = free * 3 / 2 * log(2) + free / 2 * log(mp.det(scale)) + mp.mpf(3) / 2 * log(mp.pi)
        constant += sum(gamma((free - i) / 2) for i in range(3))
        yield _case(distribution, value, (nu, factor), (free - 4) / 2 * log(mp.det(x)) - trace / 2 - constant)


def _log_lkj(eta: Any, n: int) -> Any:
    """Log of the integral of `det(correlation) ** (eta - 1)` (Lewandowski et al. 2009, eq. 16)."""
    total = mp.mpf(0)
    for k in range(1, n):
        shape = eta + mp.mpf(n - k - 1) / 2
        total += (2 * eta - 2 + n - k) * (n - k) * log(2) + (n - k) * (2 * gamma(shape) - gamma(2 * shape))
    return total


def _lkj(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        eta = _tensor(_uniform_log(source, *distribution.entry.ranges["eta"]))
        value = _draw(distribution, (3,), (eta,), seed)
        a, b, c = _exact(value)
        shape, determinant = mp.mpf(float(eta)), 1 + 2 * a * b * c - a * a - b * b - c * c
        if determinant < mp.mpf(10) ** -6:  # its factor has too few digits left
            continue
        yield _case(distribution, value, (eta,), (shape - 1) * log(determinant) - _log_lkj(shape, 3))


def _lkj_cholesky(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        eta = _tensor(_uniform_log(source, *distribution.entry.ranges["eta"]))
        value = _draw(distribution, (3, 3), (eta,), seed)
        if not bool(distribution.inside(value, eta)):
            continue
        diagonal, shape = _exact(value.diagonal()), mp.mpf(float(eta))
        powers = zip(range(3), diagonal, strict=True)
        wanted = sum((2 * (shape - 1) + 2 - i) * log(d) for i, d in powers) - _log_lkj(shape, 3)
        yield _case(distribution, value, (eta,), wanted)


def _zero_sum(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    shape = (4,) * distribution.event_rank
    for seed in range(cases):
        sigma = _tensor(_uniform_log(source, 1e-100, 1e6))
        value = _draw(distribution, shape, (sigma,), seed)
        scale = mp.mpf(float(sigma))
        wanted = -(3 ** len(shape)) * (log(scale) + log(2 * mp.pi) / 2)
        yield _case(distribution, value, (sigma,), wanted - sum(x * x for x in _exact(value)) / scale**2 / 2)


def _garch(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        ends = ((1e-40, 1e40), (1e-6, 1.0), (1e-6, 1.0), (1e-40, 1e40))
        parameters = tuple(_tensor(_uniform_log(source, *pair)) for pair in ends)
        value = _draw(distribution, (5,), parameters, seed)
        omega, alpha, rate, initial = (mp.mpf(float(p)) for p in parameters)
        variance, wanted = initial**2, mp.mpf(0)
        for x in _exact(value):
            wanted += normal(x, mp.mpf(0), mp.sqrt(variance))
            variance = omega + alpha * x * x + rate * variance
        yield _case(distribution, value, parameters, wanted)


_NEIGHBOURS = _tensor(
    [[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]
)


def _field(value: Tensor, mean: Tensor, precision: Any) -> Any:
    residual = mp.matrix(_exact(value)) - mp.matrix(_exact(mean))
    return (log(mp.det(precision)) - (residual.T * precision * residual)[0] - 4 * log(2 * mp.pi)) / 2


def _car(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        alpha, tau = _tensor(source.uniform(-0.99, 0.99)), _tensor(_uniform_log(source, 1e-80, 1e80))
        mu = torch.zeros(4, dtype=torch.float64)
        parameters = (mu, _NEIGHBOURS, alpha, tau)
        value = _draw(distribution, (4,), parameters, seed)
        precision = mp.mpf(float(tau)) * (2 * mp.eye(4) - mp.mpf(float(alpha)) * _matrix(_NEIGHBOURS))
        yield _case(distribution, value, parameters, _field(value, mu, precision))


def _icar(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        sigma = _uniform_log(source, 1e-40, 1e40)
        parameters = (_NEIGHBOURS, _tensor(sigma), _tensor(sigma * source.uniform(0.01, 1.0)))
        value = _draw(distribution, (4,), parameters, seed)
        scale, stdev = (mp.mpf(float(p)) for p in parameters[1:])
        precision = (2 * mp.eye(4) - _matrix(_NEIGHBOURS)) / scale**2 + mp.ones(4) / (4 * stdev) ** 2
        yield _case(distribution, value, parameters, _field(value, torch.zeros(4), precision))


def _matrix_normal(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        rows, columns = _covariance(source, 2), _covariance(source, 3)
        mu = torch.zeros(2, 3, dtype=torch.float64)
        value = _draw(distribution, (2, 3), (mu, rows[0], columns[0]), seed)
        row, column, x = _matrix(rows[0]), _matrix(columns[0]), _matrix(value)
        product = (column * column.T) ** -1 * x.T * (row * row.T) ** -1 * x
        trace = sum(product[i, i] for i in range(3))
        wanted = -trace / 2 - 3 * log(2 * mp.pi) - 3 * log(mp.det(row)) - 2 * log(mp.det(column))
        yield _case(distribution, value, (mu, rows[0], columns[0]), wanted)


def _categorical(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for _ in range(cases):
        weights = _tensor([_uniform_log(source, 1e-100, 1.0) for _ in range(4)])
        weights, label = weights / weights.sum(), source.randrange(4)
        p = _exact(weights)
        yield _case(distribution, _tensor(float(label)), (weights,), log(p[label] / sum(p)))


def _interpolated(distribution: Distribution, source: random.Random, cases: int) -> Cases:
    for seed in range(cases):
        x = _tensor(sorted(source.uniform(-1e3, 1e3) for _ in range(5)))
        pdf = _tensor([_uniform_log(source, 1e-40, 1e40) for _ in range(5)])
        value = _draw(distribution, (), (x, pdf, pdf), seed)
        places, heights, at = _exact(x), _exact(pdf), mp.mpf(float(value))
        areas = [(places[i + 1] - places[i]) * (heights[i + 1] + heights[i]) / 2 for i in range(4)]
        left = max(i for i in range(4) if places[i] <= at)
        share = (at - places[left]) / (places[left + 1] - places[left])
        height = heights[left] + share * (heights[left + 1] - heights[left])
        yield _case(distribution, value, (x, pdf, pdf), log(height / sum(areas)))


VECTORS: Mapping[str, Callable[[Distribution, random.Random, int], Cases]] = {
    "MvNormal": _mv_normal,
    "MvStudentT": _mv_student_t,
    "Dirichlet": _dirichlet,
    "StickBreakingWeights": _stick_breaking,
    "Multinomial": _multinomial,
    "DirichletMultinomial": _dirichlet_multinomial,
    "Wishart": _wishart,
    "LKJCorr": _lkj,
    "LKJCorrCholesky": _lkj_cholesky,
    "ZeroSumNormal": _zero_sum,
    "ZeroSumMatrix": _zero_sum,
    "GARCH11": _garch,
    "CAR": _car,
    "ICAR": _icar,
    "MatrixNormal": _matrix_normal,
    "Categorical": _categorical,
    "Interpolated": _interpolated,
}
"""Distributions of vectors, and those whose parameters are: cases with the scorer's and the exact density."""
