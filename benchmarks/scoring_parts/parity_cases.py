"""Models that use every univariate distribution that PyMC documents, for parity checks.

Each distribution has models in which the response follows it, with latent parameters, so that gradients in
every parameter count; and, where a continuous latent may follow it, models in which one does.
Torch-free: it runs wherever PyMC does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from synthstats_lightning.programs.distribution import Distribution, Domain, Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS

ROWS = 9
_RNG = np.random.default_rng(20_261)
X = np.linspace(-1.0, 1.0, ROWS)
"""A covariate, centred."""
GROUP = np.arange(ROWS) % 3
"""A covariate of groups."""

REAL = _RNG.normal(0.3, 1.2, ROWS)
POSITIVE = _RNG.gamma(2.0, 0.8, ROWS) + 0.05
UNIT = _RNG.beta(2.0, 3.0, ROWS)
ABOVE_ONE = 1.05 + _RNG.exponential(0.7, ROWS)
ANGLE = _RNG.uniform(-3.0, 3.0, ROWS)
INNER = _RNG.uniform(-0.9, 1.9, ROWS)
SEMICONTINUOUS = np.where(np.arange(ROWS) % 3 == 0, 0.0, POSITIVE)
COUNTS = _RNG.poisson(2.5, ROWS)
KNOTS = np.array([-5.0, -1.0, 0.5, 2.0, 6.0])
HEIGHTS = np.array([0.0, 0.7, 1.0, 0.4, 0.1])
ZERO_COUNTS = np.where(np.arange(ROWS) % 3 == 0, 0, COUNTS)
FROM_ONE = COUNTS + 1
BINARY = _RNG.integers(0, 2, ROWS)
CATEGORIES = _RNG.integers(0, 4, ROWS)
CENSORED = np.clip(REAL, -0.4, 1.1)


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes:
        program: Takes the response (or its placeholder) and adds variables to the model in context.
        response: Observed values `[ROWS]`.
        excess: What PyMC's log prior has too much, where it is known not to be normalised.
    """

    program: Callable[[Any], Any]
    response: NDArray[Any]
    excess: float = 0.0


def real(name: str = "a", **settings: Any) -> Any:
    """A latent on the whole line."""
    return pm.Normal(name, 0.2, 0.6, **settings)


def positive(name: str = "b", **settings: Any) -> Any:
    """A positive latent of order one."""
    return pm.LogNormal(name, 0.1, 0.3, **settings)


def unit(name: str = "p", **settings: Any) -> Any:
    """A latent between 0 and 1."""
    return pm.Beta(name, 3.0, 3.0, **settings)


def weights() -> Any:
    """Three probabilities."""
    first, second = unit("w1"), unit("w2")
    return pt.stack([first, (1.0 - first) * second, (1.0 - first) * (1.0 - second)])


def linear() -> Any:
    """A mean that varies with a covariate."""
    return real("level") + real("slope") * X


def row_weights() -> Any:
    """Two probabilities that vary with a covariate."""
    share = pm.math.invlogit(linear())
    return pt.stack([share, 1.0 - share], axis=-1)


def of_latent(latent: Callable[[], Any]) -> Case:
    """A model whose mean is a sum of two latents that follow a distribution."""
    return Case(lambda y: pm.Normal("y", latent().sum() + 0.1 * X, 1.3, observed=y), REAL)


LATENTS = {
    Domain.REAL: real,
    Domain.POSITIVE: positive,
    Domain.NON_NEGATIVE: positive,
    Domain.UNIT: unit,
    Domain.OPEN_UNIT: unit,
}
RESPONSES = {
    Support.REAL: REAL,
    Support.POSITIVE: POSITIVE,
    Support.UNIT: UNIT,
    Support.NATURAL: COUNTS,
    Support.POSITIVE_COUNT: FROM_ONE,
    Support.BINARY: BINARY,
}


def by_name(entry: Distribution) -> list[Case]:
    """Models of a distribution whose constructor in PyMC takes the parameters that the table names.

    The response follows it, with a mean that varies with a covariate where its first parameter is a real
    number, and two latents do, if they may.
    """
    make = getattr(pm, entry.name)

    def parameters() -> dict[str, Any]:
        return {
            name: LATENTS[domain](name) for name, domain in zip(entry.parameters, entry.domains, strict=True)
        }

    def response(y: Any) -> Any:
        latents = parameters()
        if entry.domains[0] is Domain.REAL:
            latents[entry.parameters[0]] += real("slope") * X
        return make("y", **latents, observed=y)

    cases = [Case(response, RESPONSES[entry.support])]
    return cases if entry.discrete else [*cases, of_latent(lambda: make("z", **parameters(), shape=2))]


CONTINUOUS: Mapping[str, list[Case]] = {
    "Normal": [
        Case(lambda y: pm.Normal("y", linear(), tau=positive(), observed=y), REAL),
        of_latent(lambda: pm.Normal("z", real(), positive(), shape=2)),
    ],
    "HalfNormal": [
        Case(lambda y: pm.HalfNormal("y", positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.HalfNormal("z", positive(), shape=2)),
    ],
    "LogNormal": [
        Case(lambda y: pm.LogNormal("y", linear(), positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.LogNormal("z", real(), 0.6, shape=2)),
    ],
    "Exponential": [
        Case(lambda y: pm.Exponential("y", positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.Exponential("z", positive(), shape=2)),
    ],
    "Gamma": [
        Case(lambda y: pm.Gamma("y", mu=pt.exp(linear()), sigma=positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.Gamma("z", positive("alpha"), positive(), shape=2)),
    ],
    "ChiSquared": [
        Case(lambda y: pm.ChiSquared("y", nu=positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.ChiSquared("z", nu=3.0, shape=2)),
    ],
    "InverseGamma": [
        Case(lambda y: pm.InverseGamma("y", positive("alpha"), positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.InverseGamma("z", positive("alpha"), positive(), shape=2)),
    ],
    "Beta": [
        Case(lambda y: pm.Beta("y", mu=pm.math.invlogit(linear()), nu=4 * positive(), observed=y), UNIT),
        of_latent(lambda: pm.Beta("z", positive("alpha"), positive(), shape=2)),
    ],
    "Uniform": [
        Case(lambda y: pm.Uniform("y", -4.0 - positive(), 6.0 + positive("c"), observed=y), REAL),
        of_latent(lambda: pm.Uniform("z", -1.0, 2.0, shape=2)),
        of_latent(lambda: pm.Uniform("z", real(), 5.0 + positive(), shape=2)),
    ],
    "StudentT": [
        Case(
            lambda y: pm.StudentT("y", nu=4 * positive("nu"), mu=linear(), sigma=positive(), observed=y), REAL
        ),
        of_latent(lambda: pm.StudentT("z", nu=4.0, mu=real(), sigma=positive(), shape=2)),
    ],
    "HalfStudentT": [
        Case(lambda y: pm.HalfStudentT("y", 4 * positive("nu"), positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.HalfStudentT("z", 4.0, positive(), shape=2)),
    ],
    "AsymmetricLaplace": [
        Case(
            lambda y: pm.AsymmetricLaplace("y", b=positive(), kappa=positive("k"), mu=linear(), observed=y),
            REAL,
        ),
        Case(lambda y: pm.AsymmetricLaplace("y", b=positive(), q=unit(), mu=real(), observed=y), REAL),
        of_latent(lambda: pm.AsymmetricLaplace("z", b=1.2, kappa=positive("k"), mu=0.1, shape=2)),
    ],
    "ExGaussian": [
        Case(lambda y: pm.ExGaussian("y", linear(), sigma=positive(), nu=positive("nu"), observed=y), REAL),
        Case(lambda y: pm.ExGaussian("y", real(), sigma=positive(), nu=0.01, observed=y), REAL),
        of_latent(lambda: pm.ExGaussian("z", 0.1, sigma=positive(), nu=1.5, shape=2)),
    ],
    "Interpolated": [
        Case(
            lambda y: (real(), pm.Interpolated("y", KNOTS, HEIGHTS, observed=y)),
            REAL,
        ),
        of_latent(lambda: pm.Interpolated("z", KNOTS, HEIGHTS, shape=2)),
    ],
    "LogitNormal": [
        Case(lambda y: pm.LogitNormal("y", linear(), sigma=positive(), observed=y), UNIT),
    ],
    "Pareto": [
        Case(lambda y: pm.Pareto("y", positive(), unit(), observed=y), ABOVE_ONE),
        of_latent(lambda: pm.Pareto("z", positive(), unit(), shape=2)),
        of_latent(lambda: pm.Pareto("z", 3.0, 0.5, shape=2)),
    ],
    "Rice": [
        Case(lambda y: pm.Rice("y", nu=positive("nu"), sigma=positive(), observed=y), POSITIVE),
        Case(lambda y: pm.Rice("y", b=positive("nu"), sigma=positive(), observed=y), POSITIVE),
        of_latent(lambda: pm.Rice("z", nu=positive("nu"), sigma=0.8, shape=2)),
    ],
    "SkewNormal": [
        Case(
            lambda y: pm.SkewNormal("y", mu=linear(), sigma=positive(), alpha=real("skew"), observed=y), REAL
        ),
        of_latent(lambda: pm.SkewNormal("z", mu=real(), sigma=positive(), alpha=1.5, shape=2)),
    ],
    "SkewStudentT": [
        Case(
            lambda y: pm.SkewStudentT(
                "y", a=positive("alpha"), b=positive(), mu=linear(), sigma=positive("s"), observed=y
            ),
            REAL,
        ),
        of_latent(lambda: pm.SkewStudentT("z", a=2.0, b=positive(), mu=0.1, sigma=1.0, shape=2)),
    ],
    "Triangular": [
        Case(
            lambda y: pm.Triangular("y", lower=-1.0 - positive(), c=0.5 * unit(), upper=2.5, observed=y),
            INNER,
        ),
        of_latent(lambda: pm.Triangular("z", lower=-1.0, c=unit(), upper=2.0, shape=2)),
        of_latent(lambda: pm.Triangular("z", lower=-1.0, c=0.5, upper=1.0 + positive(), shape=2)),
    ],
    "TruncatedNormal": [
        Case(lambda y: pm.TruncatedNormal("y", linear(), positive(), lower=0.0, observed=y), POSITIVE),
        Case(lambda y: pm.TruncatedNormal("y", linear(), positive(), upper=5.0, observed=y), REAL),
        Case(
            lambda y: pm.TruncatedNormal(
                "y", linear(), positive(), lower=-5.0, upper=5.0 + positive("u"), observed=y
            ),
            REAL,
        ),
        Case(lambda y: pm.TruncatedNormal("y", linear(), positive(), observed=y), REAL),
        of_latent(lambda: pm.TruncatedNormal("z", real(), positive(), lower=0.0, shape=2)),
        of_latent(lambda: pm.TruncatedNormal("z", real(), positive(), upper=1.5, shape=2)),
        of_latent(lambda: pm.TruncatedNormal("z", 0.1, 1.0, lower=-1.0, upper=2.0, shape=2)),
    ],
    "VonMises": [
        Case(lambda y: pm.VonMises("y", linear(), positive(), observed=y), ANGLE),
    ],
    "Wald": [
        Case(lambda y: pm.Wald("y", mu=positive("m"), lam=positive(), observed=y), POSITIVE),
        Case(lambda y: pm.Wald("y", mu=positive("m"), lam=2.0, alpha=0.04 * unit(), observed=y), POSITIVE),
        of_latent(lambda: pm.Wald("z", mu=positive("m"), lam=positive(), shape=2)),
    ],
    "Weibull": [
        Case(lambda y: pm.Weibull("y", positive("alpha"), pt.exp(linear()), observed=y), POSITIVE),
        of_latent(lambda: pm.Weibull("z", positive("alpha"), positive(), shape=2)),
    ],
}
"""Continuous distributions."""

DISCRETE: Mapping[str, list[Case]] = {
    "Bernoulli": [
        Case(lambda y: pm.Bernoulli("y", p=unit(), observed=y), BINARY),
        Case(lambda y: pm.Bernoulli("y", logit_p=linear(), observed=y), BINARY),
    ],
    "BetaBinomial": [
        Case(lambda y: pm.BetaBinomial("y", positive("alpha"), positive(), n=COUNTS + 9, observed=y), COUNTS)
    ],
    "Binomial": [
        Case(lambda y: pm.Binomial("y", n=COUNTS + 9, p=unit(), observed=y), COUNTS),
        Case(lambda y: pm.Binomial("y", n=12, logit_p=linear(), observed=y), COUNTS),
    ],
    "Categorical": [
        Case(lambda y: (real(), pm.Categorical("y", p=[0.1, 0.2, 0.3, 0.4], observed=y)), CATEGORIES),
        Case(
            lambda y: pm.Categorical("y", p=pt.concatenate([weights() * 0.8, [0.2]]), observed=y), CATEGORIES
        ),
        Case(
            lambda y: pm.Categorical(
                "y", logit_p=X[:, None] * real(shape=4) + real("c", shape=4), observed=y
            ),
            CATEGORIES,
        ),
    ],
    "DiscreteUniform": [
        Case(
            lambda y: (real(), pm.DiscreteUniform("y", lower=0, upper=COUNTS.max() + GROUP, observed=y)),
            COUNTS,
        )
    ],
    "HyperGeometric": [
        Case(lambda y: (real(), pm.HyperGeometric("y", N=40, k=15 + GROUP, n=12, observed=y)), COUNTS)
    ],
    "NegativeBinomial": [
        Case(lambda y: pm.NegativeBinomial("y", mu=pt.exp(linear()), alpha=positive(), observed=y), COUNTS),
        Case(lambda y: pm.NegativeBinomial("y", n=positive(), p=unit(), observed=y), COUNTS),
    ],
    "OrderedLogistic": [
        Case(
            lambda y: pm.OrderedLogistic("y", eta=linear(), cutpoints=[-1.0, 0.1, 1.2], observed=y),
            CATEGORIES,
        ),
        Case(
            lambda y: pm.OrderedLogistic(
                "y",
                eta=linear(),
                cutpoints=pt.cumsum(positive("cut", shape=3)) - 2.0,
                compute_p=False,
                observed=y,
            ),
            CATEGORIES,
        ),
    ],
    "OrderedProbit": [
        Case(
            lambda y: pm.OrderedProbit(
                "y", eta=linear(), cutpoints=np.array([-1.0, 0.1, 1.2]), sigma=1.0, observed=y
            ),
            CATEGORIES,
        )
    ],
    "Poisson": [
        Case(lambda y: pm.Poisson("y", pt.exp(linear()), observed=y), COUNTS),
        Case(lambda y: pm.Poisson("y", positive(), observed=y), COUNTS),
    ],
    "ZeroInflatedBinomial": [
        Case(lambda y: pm.ZeroInflatedBinomial("y", psi=unit(), n=12, p=unit("q"), observed=y), ZERO_COUNTS)
    ],
    "ZeroInflatedNegativeBinomial": [
        Case(
            lambda y: pm.ZeroInflatedNegativeBinomial(
                "y", psi=unit(), mu=pt.exp(linear()), alpha=positive(), observed=y
            ),
            ZERO_COUNTS,
        )
    ],
    "ZeroInflatedPoisson": [
        Case(lambda y: pm.ZeroInflatedPoisson("y", psi=unit(), mu=pt.exp(linear()), observed=y), ZERO_COUNTS),
        Case(
            lambda y: pm.ZeroInflatedPoisson("y", psi=pm.math.invlogit(linear()), mu=positive(), observed=y),
            ZERO_COUNTS,
        ),
    ],
    "HurdlePoisson": [
        Case(lambda y: pm.HurdlePoisson("y", psi=unit(), mu=pt.exp(linear()), observed=y), ZERO_COUNTS),
        Case(
            lambda y: pm.HurdlePoisson("y", psi=pm.math.invlogit(linear()), mu=positive(), observed=y),
            ZERO_COUNTS,
        ),
    ],
    "HurdleNegativeBinomial": [
        Case(
            lambda y: pm.HurdleNegativeBinomial(
                "y", psi=unit(), mu=pt.exp(linear()), alpha=positive(), observed=y
            ),
            ZERO_COUNTS,
        )
    ],
}
"""Discrete distributions."""

BY_NAME: Mapping[str, list[Case]] = {
    name: by_name(entry)
    for name, entry in DISTRIBUTIONS.items()
    if not (name in CONTINUOUS or name in DISCRETE or entry.event_rank or any(entry.ranks))
}
"""Every other univariate distribution of the table."""

CASES: Mapping[str, list[Case]] = {**CONTINUOUS, **DISCRETE, **BY_NAME}
"""Distribution name as PyMC documents it to its models."""
