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

from synthstats_lightning.programs.distribution import Distribution, Support

_ENTRIES = (
    Distribution("Normal", ("mu", "sigma"), Support.REAL),
    Distribution("HalfNormal", ("loc", "sigma"), Support.POSITIVE, fixed={"loc": 0.0}),
    Distribution("LogNormal", ("mu", "sigma"), Support.POSITIVE),
    Distribution("Exponential", ("scale",), Support.POSITIVE, named=frozenset({"scale"})),
    Distribution("Gamma", ("alpha", "scale"), Support.POSITIVE, named=frozenset({"scale"})),
    Distribution("InverseGamma", ("alpha", "beta"), Support.POSITIVE),
    Distribution("Beta", ("alpha", "beta"), Support.UNIT),
    Distribution("Uniform", ("lower", "upper"), Support.INTERVAL, bounds=("lower", "upper")),
    Distribution("StudentT", ("nu", "mu", "sigma"), Support.REAL),
    Distribution("HalfStudentT", ("nu", "sigma"), Support.POSITIVE),
    Distribution("Cauchy", ("alpha", "beta"), Support.REAL),
    Distribution("HalfCauchy", ("beta",), Support.POSITIVE),
    Distribution("Laplace", ("mu", "b"), Support.REAL),
    Distribution("Logistic", ("mu", "s"), Support.REAL),
    Distribution("AsymmetricLaplace", ("b", "kappa", "mu"), Support.REAL, named=frozenset({"b", "kappa"})),
    Distribution("ExGaussian", ("mu", "sigma", "nu"), Support.REAL),
    Distribution("Gumbel", ("mu", "beta"), Support.REAL),
    Distribution("Kumaraswamy", ("a", "b"), Support.UNIT),
    Distribution("LogitNormal", ("mu", "sigma"), Support.UNIT),
    Distribution(
        "Interpolated",
        ("x_points", "pdf_points", "cdf_points"),
        Support.INTERVAL,
        parameter_ranks=(1, 1, 1),
    ),
    Distribution("Moyal", ("mu", "sigma"), Support.REAL),
    Distribution("Pareto", ("alpha", "m"), Support.ABOVE, bounds=("m", None)),
    Distribution("Rice", ("b", "sigma"), Support.POSITIVE, named=frozenset({"b"})),
    Distribution("SkewNormal", ("mu", "sigma", "alpha"), Support.REAL),
    Distribution("SkewStudentT", ("a", "b", "mu", "sigma"), Support.REAL),
    Distribution("Triangular", ("lower", "c", "upper"), Support.INTERVAL, bounds=("lower", "upper")),
    Distribution("VonMises", ("mu", "kappa"), Support.CIRCLE),
    Distribution("Wald", ("mu", "lam", "alpha"), Support.ABOVE, bounds=("alpha", None)),
    Distribution("Weibull", ("alpha", "beta"), Support.POSITIVE),
    Distribution("Poisson", ("mu",), Support.NATURAL),
    Distribution("NegativeBinomial", ("n", "p"), Support.NATURAL, named=frozenset({"n", "p"})),
    Distribution(
        "Binomial", ("n", "p"), Support.COUNT_TO, bounds=(None, "n"), integer_parameters=frozenset({"n"})
    ),
    Distribution("Bernoulli", ("p",), Support.BINARY),
    Distribution(
        "BetaBinomial",
        ("n", "alpha", "beta"),
        Support.COUNT_TO,
        bounds=(None, "n"),
        integer_parameters=frozenset({"n"}),
        named=frozenset({"n"}),
    ),
    Distribution("Categorical", ("p",), Support.CATEGORIES, parameter_ranks=(1,)),
    Distribution("DiscreteUniform", ("lower", "upper"), Support.INTEGER_RANGE, bounds=("lower", "upper")),
    Distribution("DiscreteWeibull", ("q", "beta"), Support.NATURAL),
    Distribution("Geometric", ("p",), Support.POSITIVE_COUNT),
    Distribution(
        "HyperGeometric",
        ("good", "bad", "n"),
        Support.COUNT_TO,
        bounds=(None, "n"),
        integer_parameters=frozenset({"good", "bad", "n"}),
        named=frozenset({"good", "bad", "n"}),
    ),
    Distribution(
        "MvNormal",
        ("mu", "cov"),
        Support.REAL,
        event_rank=1,
        parameter_ranks=(1, 2),
        event_from=("mu", "cov"),
    ),
    Distribution(
        "MvStudentT",
        ("nu", "mu", "scale"),
        Support.REAL,
        event_rank=1,
        parameter_ranks=(0, 1, 2),
        event_from=("mu", "scale"),
        named=frozenset({"scale"}),
    ),
    Distribution("Dirichlet", ("a",), Support.SIMPLEX, event_rank=1, parameter_ranks=(1,), event_from=("a",)),
    Distribution("ZeroSumNormal", ("sigma",), Support.ZERO_SUM, event_rank=1),
    Distribution("ZeroSumMatrix", ("sigma",), Support.ZERO_SUM, event_rank=2),
    Distribution("StickBreakingWeights", ("alpha",), Support.SIMPLEX, event_rank=1),
    Distribution(
        "Multinomial",
        ("n", "p"),
        Support.COUNT_VECTOR,
        integer_parameters=frozenset({"n"}),
        event_rank=1,
        parameter_ranks=(0, 1),
        event_from=("p",),
    ),
    Distribution(
        "DirichletMultinomial",
        ("n", "a"),
        Support.COUNT_VECTOR,
        integer_parameters=frozenset({"n"}),
        event_rank=1,
        parameter_ranks=(0, 1),
        event_from=("a",),
    ),
    Distribution("GARCH11", ("omega", "alpha_1", "beta_1", "initial_vol"), Support.REAL, event_rank=1),
    Distribution("LKJCorr", ("eta",), Support.CORRELATION, event_rank=1),
    Distribution("LKJCorrCholesky", ("eta",), Support.CORRELATION_FACTOR, event_rank=2),
    Distribution(
        "CAR",
        ("mu", "W", "alpha", "tau"),
        Support.REAL,
        event_rank=1,
        parameter_ranks=(1, 2, 0, 0),
        event_from=("mu", "W"),
    ),
    Distribution(
        "ICAR",
        ("W", "sigma", "zero_sum_stdev"),
        Support.REAL,
        event_rank=1,
        parameter_ranks=(2, 0, 0),
        event_from=("W",),
    ),
    Distribution(
        "MatrixNormal",
        ("mu", "rowchol", "colchol"),
        Support.REAL,
        event_rank=2,
        parameter_ranks=(2, 2, 2),
        named=frozenset({"rowchol", "colchol"}),
    ),
    Distribution(
        "Wishart",
        ("nu", "scale_chol"),
        Support.COVARIANCE,
        event_rank=2,
        parameter_ranks=(0, 2),
        named=frozenset({"scale_chol"}),
    ),
)

DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every distribution of the graph language by name."""

__all__ = ["DISTRIBUTIONS", "Distribution", "Support"]
