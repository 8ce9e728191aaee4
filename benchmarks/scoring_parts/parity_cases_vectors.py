"""Models that use the vector-valued distributions that PyMC documents, for parity checks.

As in `parity_cases.py`; a response that is one draw of a multivariate distribution is compared as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import betaln
from scoring_parts.parity_cases import GROUP, REAL, ROWS, Case, X, linear, positive, real

DISTANCE = np.subtract.outer(X, X)
SHARES = np.array([2, 0, 1, 3, 0, 1, 1, 0, 1])
"""Counts whose total is that of a column."""
LKJ_EXCESS = 2.0 if pm.__version__.startswith("5.") else 0.0
"""PyMC 5 adds the log of the LKJ prior's normaliser where it should subtract it; PyMC 6.4 does not."""


def covariance() -> Any:
    """A covariance of the rows that falls with their distance in a covariate."""
    return positive("height") ** 2 * pt.exp(-0.5 * (DISTANCE / positive("width")) ** 2) + 0.3 * np.eye(ROWS)


def small_covariance() -> Any:
    """A covariance of three entries."""
    return positive() * np.array([[1.0, 0.3, 0.1], [0.3, 1.2, -0.2], [0.1, -0.2, 0.9]])


def total() -> Any:
    """A total that a column says."""
    return pt.as_tensor(GROUP).sum()


def probabilities() -> Any:
    """One probability for each row."""
    return pm.math.softmax(linear())


def _grouped(latent: Any) -> Any:
    """A mean that reads one entry of a vector in each row."""
    return latent[GROUP] * (1.0 + X)


def _cholesky(y: Any) -> Any:
    factor, _, _ = pm.LKJCholeskyCov("factor", n=3, eta=1.7, sd_dist=pm.Gamma.dist(2.0, 1.5))
    z = pm.Normal("z", 0.0, 1.0, shape=3)
    return pm.Normal("y", _grouped(pt.dot(factor, z)), 0.8, observed=y)


def _packed(y: Any) -> Any:
    packed = pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.5), compute_corr=False)
    factor = pm.expand_packed_triangular(2, packed, lower=True)
    return pm.Normal("y", factor[1, 0] + factor[1, 1] * X, factor[0, 0], observed=y)


def lkj_integral(eta: float, rows: int) -> float:
    """Log of the integral of `det(correlation) ** (eta - 1)`.

    By the C-vine of Lewandowski, Kurowicka and Joe (2009): partial correlations are independent, those of the
    k-th tree are Beta variables on (-1, 1).
    """
    total = 0.0
    for k in range(1, rows):
        b = eta + 0.5 * (rows - k - 1)
        total += (rows - k) * (np.log(2.0) * (2.0 * b - 1.0) + betaln(b, b))
    return float(total)


CASES: Mapping[str, list[Case]] = {
    "MvNormal": [
        Case(lambda y: pm.MvNormal("y", mu=linear(), cov=covariance(), observed=y), REAL),
        Case(
            lambda y: pm.Normal(
                "y", _grouped(pm.MvNormal("z", real(), small_covariance(), shape=3)), 0.7, observed=y
            ),
            REAL,
        ),
    ],
    "MvStudentT": [
        Case(
            lambda y: pm.Normal(
                "y",
                _grouped(pm.MvStudentT("z", nu=4 * positive("nu"), mu=np.zeros(3), scale=small_covariance())),
                0.7,
                observed=y,
            ),
            REAL,
        ),
    ],
    "Dirichlet": [
        Case(
            lambda y: pm.Normal(
                "y", _grouped(pm.Dirichlet("w", positive() * np.array([1.0, 2.0, 0.7]))), 0.7, observed=y
            ),
            REAL,
        ),
        Case(
            lambda y: pm.Normal(
                "y", _grouped(pm.Dirichlet("w", np.ones(3), shape=(2, 3)).sum(0)), 0.7, observed=y
            ),
            REAL,
        ),
    ],
    "ZeroSumNormal": [
        Case(
            lambda y: pm.Normal("y", _grouped(pm.ZeroSumNormal("z", positive(), shape=3)), 0.7, observed=y),
            REAL,
        ),
    ],
    "StickBreakingWeights": [
        Case(
            lambda y: pm.Normal(
                "y", _grouped(pm.StickBreakingWeights("w", positive(), K=3)), 0.7, observed=y
            ),
            REAL,
        ),
    ],
    "LKJCholeskyCov": [
        Case(_cholesky, REAL, excess=LKJ_EXCESS * lkj_integral(1.7, 3)),
        Case(_packed, REAL, excess=LKJ_EXCESS * lkj_integral(2.0, 2)),
    ],
    "GaussianRandomWalk": [
        Case(
            lambda y: pm.GaussianRandomWalk(
                "y", mu=real(), sigma=positive(), init_dist=pm.Normal.dist(0.1, 2.0), observed=y
            ),
            REAL,
        ),
        Case(
            lambda y: pm.Normal(
                "y",
                pm.GaussianRandomWalk(
                    "z", sigma=positive(), shape=ROWS, init_dist=pm.Normal.dist(real(), 1.5)
                ),
                0.7,
                observed=y,
            ),
            REAL,
        ),
    ],
    "RandomWalk": [
        Case(
            lambda y: pm.Normal(
                "y",
                pm.RandomWalk(
                    "z",
                    init_dist=pm.Normal.dist(0.0, 2.0),
                    steps=ROWS - 1,
                    innovation_dist=pm.StudentT.dist(nu=4.0, mu=real(), sigma=positive()),
                ),
                0.7,
                observed=y,
            ),
            REAL,
        ),
    ],
    "AR": [
        Case(
            lambda y: pm.AR(
                "y",
                rho=pm.Normal("rho", 0.2, 0.3, shape=2),
                sigma=positive(),
                init_dist=pm.Normal.dist(0.2, 1.5),
                observed=y,
            ),
            REAL,
        ),
        Case(
            lambda y: pm.AR(
                "y",
                rho=pm.Normal("rho", 0.2, 0.3, shape=3),
                sigma=positive(),
                constant=True,
                init_dist=pm.Normal.dist(0.2, 1.5),
                observed=y,
            ),
            REAL,
        ),
        Case(
            lambda y: pm.Normal(
                "y",
                pm.AR(
                    "z",
                    rho=real(),
                    sigma=positive(),
                    shape=ROWS,
                    init_dist=pm.StudentT.dist(nu=5.0, mu=0.0, sigma=1.5),
                ),
                0.7,
                observed=y,
            ),
            REAL,
        ),
    ],
    "Multinomial": [Case(lambda y: pm.Multinomial("y", n=total(), p=probabilities(), observed=y), SHARES)],
    "DirichletMultinomial": [
        Case(lambda y: pm.DirichletMultinomial("y", n=total(), a=3.0 * pt.exp(linear()), observed=y), SHARES),
    ],
}
