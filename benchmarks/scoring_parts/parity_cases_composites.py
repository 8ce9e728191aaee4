"""Models that use distributions made of others: mixtures, hurdles, truncated and censored ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scoring_parts.parity_cases import (
    CENSORED,
    COUNTS,
    FROM_ONE,
    POSITIVE,
    REAL,
    SEMICONTINUOUS,
    UNIT,
    ZERO_COUNTS,
    Case,
    linear,
    of_latent,
    positive,
    real,
    row_weights,
    unit,
    weights,
)

CASES: Mapping[str, list[Case]] = {
    "HurdleGamma": [
        Case(
            lambda y: pm.HurdleGamma("y", psi=unit(), mu=pt.exp(linear()), sigma=positive(), observed=y),
            SEMICONTINUOUS,
        )
    ],
    "HurdleLogNormal": [
        Case(
            lambda y: pm.HurdleLogNormal("y", psi=unit(), mu=linear(), sigma=positive(), observed=y),
            SEMICONTINUOUS,
        )
    ],
    "DiracDelta": [
        Case(
            lambda y: pm.Mixture(
                "y",
                w=weights(),
                comp_dists=[pm.DiracDelta.dist(0), pm.DiracDelta.dist(2), pm.Poisson.dist(positive())],
                observed=y,
            ),
            ZERO_COUNTS,
        )
    ],
    "NormalMixture": [
        Case(
            lambda y: pm.NormalMixture(
                "y", w=weights(), mu=real(shape=3), sigma=positive(shape=3), observed=y
            ),
            REAL,
        ),
        Case(lambda y: pm.NormalMixture("y", w=[0.3, 0.7], mu=real(shape=2), sigma=0.8, observed=y), REAL),
        of_latent(lambda: pm.NormalMixture("z", w=[0.3, 0.7], mu=real(shape=2), sigma=[0.5, 1.0], shape=2)),
    ],
    "Mixture": [
        Case(
            lambda y: pm.Mixture(
                "y",
                w=weights(),
                comp_dists=[
                    pm.Normal.dist(linear(), positive()),
                    pm.StudentT.dist(nu=4, mu=0.0, sigma=2.0),
                    pm.SkewNormal.dist(mu=0.0, sigma=1.5, alpha=1.0),
                ],
                observed=y,
            ),
            REAL,
        ),
        Case(
            lambda y: pm.Mixture(
                "y",
                w=weights(),
                comp_dists=pm.Poisson.dist(pt.exp(linear())[:, None] * positive(shape=3)[None, :]),
                observed=y,
            ),
            COUNTS,
        ),
        Case(
            lambda y: pm.Mixture(
                "y",
                w=row_weights(),
                comp_dists=[
                    pm.Truncated.dist(pm.Gamma.dist(2.0, positive()), upper=9.0),
                    pm.Exponential.dist(0.7),
                ],
                observed=y,
            ),
            POSITIVE,
        ),
        of_latent(
            lambda: pm.Mixture(
                "z",
                w=[0.4, 0.6],
                comp_dists=[pm.Gamma.dist(2.0, 1.0), pm.HalfNormal.dist(positive())],
                shape=2,
            )
        ),
    ],
    "Truncated": [
        *(
            Case(lambda y, make=make: pm.Truncated("y", make(), lower=-4.5, upper=6.0, observed=y), REAL)
            for make in (
                lambda: pm.StudentT.dist(nu=4 * positive("nu"), mu=linear(), sigma=positive()),
                lambda: pm.Cauchy.dist(linear(), positive()),
                lambda: pm.Laplace.dist(linear(), positive()),
                lambda: pm.Logistic.dist(linear(), positive()),
                lambda: pm.Gumbel.dist(linear(), positive()),
                lambda: pm.Moyal.dist(linear(), positive()),
                lambda: pm.ExGaussian.dist(linear(), sigma=positive(), nu=1.3),
            )
        ),
        *(
            Case(lambda y, make=make: pm.Truncated("y", make(), lower=0.04, upper=9.0, observed=y), POSITIVE)
            for make in (
                lambda: pm.Gamma.dist(2 * positive("alpha"), positive()),
                lambda: pm.LogNormal.dist(linear(), positive()),
                lambda: pm.Weibull.dist(positive("alpha"), positive()),
                lambda: pm.Exponential.dist(positive()),
                lambda: pm.HalfNormal.dist(3 * positive()),
            )
        ),
        Case(lambda y: pm.Truncated("y", pm.Gamma.dist(2.0, positive()), lower=0.01, observed=y), POSITIVE),
        # a constant shape: PyTensor 2 has the derivative of gammaincc in its shape to four digits only
        Case(
            lambda y: pm.Truncated("y", pm.InverseGamma.dist(2.5, positive()), upper=9.0, observed=y),
            POSITIVE,
        ),
        Case(
            lambda y: pm.Truncated("y", pm.Beta.dist(positive("alpha"), positive()), upper=0.97, observed=y),
            UNIT,
        ),
        *(
            Case(lambda y, make=make: pm.Truncated("y", make(), lower=1, upper=20, observed=y), FROM_ONE)
            for make in (
                lambda: pm.Poisson.dist(3 * positive()),
                lambda: pm.NegativeBinomial.dist(mu=3 * positive(), alpha=positive("alpha")),
                lambda: pm.Geometric.dist(0.5 * unit()),
            )
        ),
        Case(lambda y: pm.Truncated("y", pm.Poisson.dist(3 * positive()), lower=1, observed=y), FROM_ONE),
        of_latent(lambda: pm.Truncated("z", pm.Gamma.dist(2.0, positive()), lower=1.0, shape=2)),
        of_latent(
            lambda: pm.Truncated(
                "z", pm.StudentT.dist(nu=3.0, mu=real(), sigma=1.0), lower=0.5, upper=4.0, shape=2
            )
        ),
    ],
    "Censored": [
        Case(
            lambda y: pm.Censored(
                "y", pm.Normal.dist(linear(), positive()), lower=-0.4, upper=1.1, observed=y
            ),
            CENSORED,
        ),
        Case(
            lambda y: pm.Censored(
                "y", pm.Normal.dist(linear(), positive()), lower=-0.4, upper=None, observed=y
            ),
            np.maximum(REAL, -0.4),
        ),
        Case(
            lambda y: pm.Censored(
                "y", pm.Weibull.dist(positive("alpha"), positive()), lower=None, upper=1.0, observed=y
            ),
            np.minimum(POSITIVE, 1.0),
        ),
        Case(
            lambda y: pm.Censored("y", pm.Poisson.dist(2 * positive()), lower=1, upper=4, observed=y),
            np.clip(COUNTS, 1, 4),
        ),
    ],
}
"""Distribution name as PyMC documents it to its models."""
