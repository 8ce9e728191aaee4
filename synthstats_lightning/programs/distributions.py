"""The distributions a model graph may name: one table entry each, torch-free.

This table is the single source of truth for three readers: the sandbox (which names and parameters
extraction may emit), validation (what a response may follow, which parameters are restricted) and the
density (which support a latent has, hence which transform makes it unconstrained). Parameters follow the
native order of PyMC's random-variable ops (checked against PyMC 5.28), not the order of `pm.X(...)`: PyMC
has turned `tau`, `beta` (rate), `lam`, `logit_p` and the like into these before a model graph exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from synthstats_lightning.programs.distribution import (
    LOGS,
    SHAPE,
    SPREAD_OF_LOGS,
    SUCCESSES,
    Distribution,
    Domain,
    Range,
    Support,
    entry,
)

REAL, POSITIVE, NON_NEGATIVE = Domain.REAL, Domain.POSITIVE, Domain.NON_NEGATIVE
UNIT, OPEN_UNIT, WITHIN_ONE = Domain.UNIT, Domain.OPEN_UNIT, Domain.WITHIN_ONE
COUNT, INTEGER, SIMPLEX = Domain.COUNT, Domain.INTEGER, Domain.SIMPLEX

_ENTRIES = (
    entry(
        "Normal",
        {"mu": REAL, "sigma": POSITIVE},
        Support.REAL,
        has_cdf=True,
        location_and_scale=("mu", "sigma"),
        of_exponentials="LogNormal",
    ),
    entry("HalfNormal", {"loc": REAL, "sigma": POSITIVE}, Support.POSITIVE, fixed={"loc": 0.0}, has_cdf=True),
    entry(
        "LogNormal",
        {"mu": REAL, "sigma": POSITIVE},
        Support.POSITIVE,
        has_cdf=True,
        ranges={"mu": LOGS, "sigma": SPREAD_OF_LOGS},
    ),
    entry("Exponential", {"scale": POSITIVE}, Support.POSITIVE, named=frozenset({"scale"}), has_cdf=True),
    entry(
        "Gamma",
        {"alpha": POSITIVE, "scale": POSITIVE},
        Support.POSITIVE,
        named=frozenset({"scale"}),
        has_cdf=True,
        ranges={"alpha": SHAPE},
    ),
    entry(
        "InverseGamma",
        {"alpha": POSITIVE, "beta": POSITIVE},
        Support.POSITIVE,
        has_cdf=True,
        ranges={"alpha": SHAPE},
    ),
    entry(
        "Beta",
        {"alpha": POSITIVE, "beta": POSITIVE},
        Support.UNIT,
        has_cdf=True,
        ranges={"alpha": SHAPE, "beta": SHAPE},
    ),
    entry(
        "Uniform", {"lower": REAL, "upper": REAL}, Support.INTERVAL, bounds=("lower", "upper"), has_cdf=True
    ),
    entry(
        "StudentT",
        {"nu": POSITIVE, "mu": REAL, "sigma": POSITIVE},
        Support.REAL,
        has_cdf=True,
        location_and_scale=("mu", "sigma"),
        ranges={"nu": SHAPE},
    ),
    entry(
        "HalfStudentT",
        {"nu": POSITIVE, "sigma": POSITIVE},
        Support.POSITIVE,
        has_cdf=True,
        ranges={"nu": SHAPE},
    ),
    entry(
        "Cauchy",
        {"alpha": REAL, "beta": POSITIVE},
        Support.REAL,
        has_cdf=True,
        location_and_scale=("alpha", "beta"),
    ),
    entry("HalfCauchy", {"beta": POSITIVE}, Support.POSITIVE, has_cdf=True),
    entry("Laplace", {"mu": REAL, "b": POSITIVE}, Support.REAL, has_cdf=True, location_and_scale=("mu", "b")),
    entry(
        "Logistic", {"mu": REAL, "s": POSITIVE}, Support.REAL, has_cdf=True, location_and_scale=("mu", "s")
    ),
    entry(
        "AsymmetricLaplace",
        {"b": POSITIVE, "kappa": POSITIVE, "mu": REAL},
        Support.REAL,
        named=frozenset({"b", "kappa"}),
        has_cdf=True,
        ranges={"kappa": Range(1e-30, 1e30)},
    ),
    entry("ExGaussian", {"mu": REAL, "sigma": POSITIVE, "nu": POSITIVE}, Support.REAL, has_cdf=True),
    entry(
        "Gumbel",
        {"mu": REAL, "beta": POSITIVE},
        Support.REAL,
        has_cdf=True,
        location_and_scale=("mu", "beta"),
    ),
    entry(
        "Kumaraswamy",
        {"a": POSITIVE, "b": POSITIVE},
        Support.UNIT,
        has_cdf=True,
        ranges={"a": Range(1e-6, 1e6), "b": Range(1e-6, 1e6)},
    ),
    entry(
        "LogitNormal",
        {"mu": REAL, "sigma": POSITIVE},
        Support.UNIT,
        has_cdf=True,
        ranges={"mu": LOGS, "sigma": SPREAD_OF_LOGS},
    ),
    entry(
        "Interpolated",
        {"x_points": REAL, "pdf_points": REAL, "cdf_points": REAL},
        Support.INTERVAL,
        parameter_ranks=(1, 1, 1),
    ),
    entry(
        "Moyal",
        {"mu": REAL, "sigma": POSITIVE},
        Support.REAL,
        has_cdf=True,
        location_and_scale=("mu", "sigma"),
    ),
    entry(
        "Pareto",
        {"alpha": POSITIVE, "m": POSITIVE},
        Support.ABOVE,
        bounds=("m", None),
        has_cdf=True,
        ranges={"alpha": Range(0.02, 1e6)},
    ),
    entry(
        "Rice",
        {"b": NON_NEGATIVE, "sigma": POSITIVE},
        Support.POSITIVE,
        named=frozenset({"b"}),
        ranges={"b": Range(0.0, 1e6)},
    ),
    entry(
        "SkewNormal",
        {"mu": REAL, "sigma": POSITIVE, "alpha": REAL},
        Support.REAL,
        location_and_scale=("mu", "sigma"),
    ),
    entry(
        "SkewStudentT",
        {"a": POSITIVE, "b": POSITIVE, "mu": REAL, "sigma": POSITIVE},
        Support.REAL,
        ranges={"a": SHAPE, "b": SHAPE},
    ),
    entry(
        "Triangular",
        {"lower": REAL, "c": REAL, "upper": REAL},
        Support.INTERVAL,
        bounds=("lower", "upper"),
        has_cdf=True,
    ),
    entry(
        "VonMises",
        {"mu": REAL, "kappa": POSITIVE},
        Support.CIRCLE,
        ranges={"mu": Range(-1e6, 1e6), "kappa": Range(1e-100, 1e10)},
    ),
    entry(
        "Wald",
        {"mu": POSITIVE, "lam": POSITIVE, "alpha": NON_NEGATIVE},
        Support.ABOVE,
        bounds=("alpha", None),
        has_cdf=True,
        ranges={"alpha": Range(0.0, 1e9)},
    ),
    entry(
        "Weibull",
        {"alpha": POSITIVE, "beta": POSITIVE},
        Support.POSITIVE,
        has_cdf=True,
        ranges={"alpha": Range(1e-4, 1e4)},
    ),
    entry("Poisson", {"mu": NON_NEGATIVE}, Support.NATURAL, has_cdf=True),
    entry(
        "NegativeBinomial",
        {"n": POSITIVE, "p": OPEN_UNIT},
        Support.NATURAL,
        named=frozenset({"n", "p"}),
        has_cdf=True,
        ranges={"n": SUCCESSES},
    ),
    entry(
        "Binomial",
        {"n": COUNT, "p": UNIT},
        Support.COUNT_TO,
        bounds=(None, "n"),
        integer_parameters=frozenset({"n"}),
        has_cdf=True,
    ),
    entry("Bernoulli", {"p": UNIT}, Support.BINARY, has_cdf=True),
    entry(
        "BetaBinomial",
        {"n": COUNT, "alpha": POSITIVE, "beta": POSITIVE},
        Support.COUNT_TO,
        bounds=(None, "n"),
        integer_parameters=frozenset({"n"}),
        named=frozenset({"n"}),
        ranges={"alpha": Range(1e-100, SHAPE.high), "beta": Range(1e-100, SHAPE.high)},
    ),
    entry("Categorical", {"p": SIMPLEX}, Support.CATEGORIES, parameter_ranks=(1,)),
    entry(
        "DiscreteUniform",
        {"lower": INTEGER, "upper": INTEGER},
        Support.INTEGER_RANGE,
        bounds=("lower", "upper"),
        has_cdf=True,
    ),
    entry(
        "DiscreteWeibull",
        {"q": OPEN_UNIT, "beta": POSITIVE},
        Support.NATURAL,
        has_cdf=True,
        ranges={"beta": Range(1e-2, 1e3)},
    ),
    entry("Geometric", {"p": UNIT}, Support.POSITIVE_COUNT, has_cdf=True),
    entry(
        "HyperGeometric",
        {"good": COUNT, "bad": COUNT, "n": COUNT},
        Support.COUNT_TO,
        bounds=(None, "n"),
        integer_parameters=frozenset({"good", "bad", "n"}),
        named=frozenset({"good", "bad", "n"}),
    ),
    entry(
        "MvNormal",
        {"mu": REAL, "cov": REAL},
        Support.REAL,
        event_rank=1,
        parameter_ranks=(1, 2),
        event_from=("mu", "cov"),
    ),
    entry(
        "MvStudentT",
        {"nu": POSITIVE, "mu": REAL, "scale": REAL},
        Support.REAL,
        event_rank=1,
        parameter_ranks=(0, 1, 2),
        event_from=("mu", "scale"),
        named=frozenset({"scale"}),
        ranges={"nu": SHAPE},
    ),
    entry(
        "Dirichlet",
        {"a": POSITIVE},
        Support.SIMPLEX,
        event_rank=1,
        parameter_ranks=(1,),
        event_from=("a",),
        ranges={"a": Range(0.02, 1e6)},
    ),
    entry("ZeroSumNormal", {"sigma": POSITIVE}, Support.ZERO_SUM, event_rank=1),
    entry("ZeroSumMatrix", {"sigma": POSITIVE}, Support.ZERO_SUM, event_rank=2),
    entry(
        "StickBreakingWeights",
        {"alpha": POSITIVE},
        Support.SIMPLEX,
        event_rank=1,
        ranges={"alpha": Range(0.02, 1e6)},
    ),
    entry(
        "Multinomial",
        {"n": COUNT, "p": SIMPLEX},
        Support.COUNT_VECTOR,
        integer_parameters=frozenset({"n"}),
        event_rank=1,
        parameter_ranks=(0, 1),
        event_from=("p",),
    ),
    entry(
        "DirichletMultinomial",
        {"n": COUNT, "a": POSITIVE},
        Support.COUNT_VECTOR,
        integer_parameters=frozenset({"n"}),
        event_rank=1,
        parameter_ranks=(0, 1),
        event_from=("a",),
        ranges={"a": Range(1e-6, 1e5)},
    ),
    entry(
        "GARCH11",
        {"omega": POSITIVE, "alpha_1": NON_NEGATIVE, "beta_1": NON_NEGATIVE, "initial_vol": POSITIVE},
        Support.REAL,
        event_rank=1,
    ),
    entry("LKJCorr", {"eta": POSITIVE}, Support.CORRELATION, event_rank=1, ranges={"eta": Range(0.5, 1e6)}),
    entry(
        "LKJCorrCholesky",
        {"eta": POSITIVE},
        Support.CORRELATION_FACTOR,
        event_rank=2,
        ranges={"eta": Range(0.05, 1e6)},
    ),
    entry(
        "CAR",
        {"mu": REAL, "W": REAL, "alpha": WITHIN_ONE, "tau": POSITIVE},
        Support.REAL,
        event_rank=1,
        parameter_ranks=(1, 2, 0, 0),
        event_from=("mu", "W"),
    ),
    entry(
        "ICAR",
        {"W": REAL, "sigma": POSITIVE, "zero_sum_stdev": POSITIVE},
        Support.REAL,
        event_rank=1,
        parameter_ranks=(2, 0, 0),
        event_from=("W",),
    ),
    entry(
        "MatrixNormal",
        {"mu": REAL, "rowchol": REAL, "colchol": REAL},
        Support.REAL,
        event_rank=2,
        parameter_ranks=(2, 2, 2),
        named=frozenset({"rowchol", "colchol"}),
    ),
    entry(
        "Wishart",
        {"nu": POSITIVE, "scale_chol": REAL},
        Support.COVARIANCE,
        event_rank=2,
        parameter_ranks=(0, 2),
        named=frozenset({"scale_chol"}),
        ranges={"nu": Range(1e-6, 1e5)},
    ),
)

DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType({found.name: found for found in _ENTRIES})
"""Every distribution of the graph language by name."""

__all__ = ["DISTRIBUTIONS", "Distribution", "Support"]
