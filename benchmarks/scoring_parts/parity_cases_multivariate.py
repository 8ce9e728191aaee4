"""More models of the vector- and matrix-valued distributions that PyMC documents, for parity checks.

As in `parity_cases_vectors.py`, which has the plain ones: here are other parametrisations, several vectors in
one variable, and distributions over matrices and graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.integrate import quad
from scipy.stats import norm
from scoring_parts.parity_cases import GROUP, REAL, ROWS, Case, X, linear, positive, real, unit
from scoring_parts.parity_cases_vectors import (
    LKJ_EXCESS,
    SHARES,
    covariance,
    lkj_integral,
    small_covariance,
    total,
)

VECTORS_6 = not pm.__version__.startswith("5.")
LOWER = np.linalg.cholesky(np.array([[1.0, 0.3, 0.1], [0.3, 1.2, -0.2], [0.1, -0.2, 0.9]]))
RING = np.eye(3, k=1, dtype=int) + np.eye(3, k=-1, dtype=int)


def _grouped(latent: Any) -> Any:
    """A mean that reads one entry of a vector in each row."""
    return latent[GROUP] * (1.0 + X)


def _mean(latent: Any) -> Case:
    """A model whose mean is read from a vector of three."""
    return Case(lambda y: pm.Normal("y", _grouped(latent()), 0.7, observed=y), REAL)


def car_excess(neighbours: np.ndarray) -> float:
    """What PyMC's CAR leaves out: half the log-determinant of the degrees, and the normal's constant."""
    degrees = neighbours.sum(0)
    return float(0.5 * len(degrees) * math.log(2.0 * math.pi) - 0.5 * np.log(degrees).sum())


def icar_excess(neighbours: np.ndarray, sigma: float, zero_sum_stdev: float) -> float:
    """The log of what PyMC's ICAR integrates to: it lacks a normal's constants but those of the sum."""
    n = len(neighbours)
    laplacian = np.diag(neighbours.sum(0)) - neighbours
    scale = n * zero_sum_stdev
    precision = laplacian / sigma**2 + 1.0 / scale**2
    log_integral = 0.5 * n * math.log(2.0 * math.pi) - 0.5 * np.linalg.slogdet(precision).logabsdet
    return float(log_integral - 0.5 * math.log(2.0 * math.pi) - math.log(scale))


def _correlation(y: Any) -> Any:
    if VECTORS_6:
        factor = pm.LKJCorr("c", n=3, eta=1.7)
        correlations = pt.stack([pt.dot(factor[i], factor[j]) for i, j in ((0, 1), (0, 2), (1, 2))])
    else:
        correlations = pm.LKJCorr("c", n=3, eta=1.7)
    return pm.Normal("y", _grouped(correlations), 0.7, observed=y)


def _correlation_matrix(y: Any) -> Any:
    if VECTORS_6:
        factor = pm.LKJCorr("c", n=4, eta=1.0)
        matrix = pt.dot(factor, factor.T)
    else:
        matrix = pm.LKJCorr("c", n=2, eta=1.0, return_matrix=True)
    return pm.Normal("y", matrix[0, 1] * X + matrix[1, 1], positive(), observed=y)


def _wishart(y: Any) -> Any:
    """PyMC 5 has a density for these matrices, but no coordinates to compare it in; 6 needs a fixed scale."""
    matrix = pm.Wishart("w", nu=5, V=LOWER @ LOWER.T)
    return pm.Normal("y", _grouped(matrix[0]) + matrix[1, 2] * X, 0.7, observed=y)


def _bartlett(y: Any) -> Any:
    """PyMC 5 makes this matrix in single precision."""
    matrix = pm.WishartBartlett("w", S=LOWER @ LOWER.T, nu=5)
    return pm.Normal("y", _grouped(matrix[0]), 0.7, observed=y)


WISHART = {"Wishart": [Case(_wishart, REAL)], "WishartBartlett": [Case(_bartlett, REAL)]}


def _ordered_multinomial(y: Any) -> Any:
    cuts = pt.concatenate([[-2.0], pt.cumsum(pt.full(ROWS - 2, 0.4) * positive()) - 2.0])
    return pm.OrderedMultinomial("y", eta=real(), cutpoints=cuts, n=total(), compute_p=False, observed=y)


def _decaying() -> Any:
    """A covariance of three entries that falls with their distance."""
    places = np.arange(3)
    return pt.exp(-np.abs(np.subtract.outer(places, places)) / positive("width"))


def _ordered(transformed: Callable[[Any], Any], log_probability: float) -> Case:
    """A model whose mean is read from three numbers in order; PyMC's prior is not given that order."""
    latent = partial(transformed, pm.distributions.transforms.ordered)
    return Case(lambda y: pm.Normal("y", _grouped(latent()), 0.7, observed=y), REAL, log_probability)


def _log_order(mu: Sequence[float], sigma: float) -> float:
    """Log-probability that three normal variables of equal scale come out in order, by quadrature."""
    first, second, third = (norm(m, sigma) for m in mu)
    found, _ = quad(
        lambda x: first.cdf(x) * second.pdf(x) * third.sf(x), -np.inf, np.inf, epsabs=1e-13, epsrel=1e-13
    )
    return math.log(found)


CASES: Mapping[str, list[Case]] = {
    "Normal": [
        _ordered(lambda by: pm.Normal("z", real(), positive(), shape=3, transform=by), -math.log(6.0)),
        _ordered(
            lambda by: pm.Normal("z", 0.3, 2.0, shape=(2, 3), transform=by).sum(0), -2.0 * math.log(6.0)
        ),
        _ordered(
            lambda by: pm.Normal("z", [-1.0, 0.5, 0.7], 0.8, transform=by), _log_order([-1.0, 0.5, 0.7], 0.8)
        ),
    ],
    "Gamma": [
        _ordered(lambda by: pm.Gamma("z", positive(), 1.5, shape=3, transform=by), -math.log(6.0)),
    ],
    "Uniform": [_ordered(lambda by: pm.Uniform("z", -0.5, 2.0, shape=3, transform=by), -math.log(6.0))],
    "Beta": [_ordered(lambda by: pm.Beta("z", 2.0, positive(), shape=3, transform=by), -math.log(6.0))],
    "StudentT": [
        _ordered(
            lambda by: pm.StudentT("z", 5.0, mu=real(), sigma=positive(), shape=3, transform=by),
            -math.log(6.0),
        ),
    ],
    "MvNormal": [
        _mean(lambda: pm.MvNormal("z", real(), chol=positive() * LOWER)),
        _mean(lambda: pm.MvNormal("z", np.zeros(3), small_covariance(), shape=(2, 3)).sum(0)),
    ],
    "MvStudentT": [
        Case(
            lambda y: pm.MvStudentT("y", nu=4 * positive("nu"), mu=linear(), scale=covariance(), observed=y),
            REAL,
        ),
    ],
    "ZeroSumNormal": [
        _mean(lambda: pm.ZeroSumNormal("z", positive(), shape=(2, 3)).sum(0)),
        _mean(lambda: pm.ZeroSumNormal("z", positive(shape=(2, 1)), shape=(2, 3)).sum(0)),
    ],
    "ZeroSumNormal with two axes": [
        _mean(lambda: pm.ZeroSumNormal("z", positive(), shape=(2, 3), n_zerosum_axes=2)[0]),
        _mean(lambda: pm.ZeroSumNormal("z", 1.2, shape=(2, 4, 3), n_zerosum_axes=2)[1, 2]),
    ],
    "StickBreakingWeights": [
        _mean(lambda: pm.StickBreakingWeights("w", positive(shape=2), K=3, shape=(2, 4)).sum(0)),
    ],
    "LKJCorr": [
        Case(_correlation, REAL, LKJ_EXCESS * lkj_integral(1.7, 3)),
        Case(_correlation_matrix, REAL, LKJ_EXCESS * lkj_integral(1.0, 2)),
    ],
    "CAR": [
        Case(
            lambda y: pm.Normal(
                "y",
                _grouped(pm.CAR("z", real() * np.ones(3), RING, unit(), positive())),
                0.7,
                observed=y,
            ),
            REAL,
            car_excess(RING),
        ),
    ],
    "ICAR": [
        Case(
            lambda y: pm.Normal(
                "y", _grouped(positive() * pm.ICAR("z", RING, zero_sum_stdev=0.3)), 0.7, observed=y
            ),
            REAL,
            icar_excess(RING, 1.0, 0.3),
        ),
    ],
    "MatrixNormal": [
        Case(
            lambda y: pm.Normal(
                "y",
                _grouped(
                    pm.MatrixNormal(
                        "z",
                        mu=real() * np.ones((2, 3)),
                        rowchol=positive() * np.array([[1.0, 0.0], [0.4, 0.8]]),
                        colcov=LOWER @ LOWER.T,
                    ).sum(0)
                ),
                0.7,
                observed=y,
            ),
            REAL,
        ),
    ],
    "KroneckerNormal": [
        Case(
            lambda y: pm.KroneckerNormal(
                "y",
                mu=linear(),
                covs=[positive("height") * (LOWER @ LOWER.T), _decaying()],
                sigma=positive(),
                observed=y,
            ),
            REAL,
        ),
    ],
    **(WISHART if VECTORS_6 else {}),
    "OrderedMultinomial": [Case(_ordered_multinomial, SHARES)],
}
