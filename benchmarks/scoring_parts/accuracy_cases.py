"""Programs of known evidence: conjugate ones, hierarchies, a mixture and four real data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scoring_parts import accuracy_quadrature as quadrature
from scoring_parts.accuracy_quadrature import Evidence

DATA = Path(__file__).parents[1] / "real_programs" / "data"

# fmt: off
SCHOOLS = {
    "school": np.arange(8),
    "error": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
    "effect": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
}
SURGICAL = {
    "hospital": np.arange(12),
    "operations": np.array([47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360]),
    "deaths": np.array([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24]),
}
# fmt: on


@dataclass(frozen=True)
class Case:
    """A program with its data and exact answers.

    Attributes:
        source: The program.
        data: Column name to values.
        response: Name of the response column.
        exact: Log evidence of all rows and of all but each one, computed on demand.
        real: Whether the data are one of the four real sets: elpd is then that of a long NUTS run.
    """

    source: str
    data: Mapping[str, NDArray[np.generic]]
    response: str
    exact: Callable[[], Evidence]
    real: bool = False


def _cases() -> dict[str, Case]:
    random = np.random.default_rng(20)
    x = random.normal(size=25)
    line = 1.0 + 0.8 * x + 0.6 * random.normal(size=25)
    trials = random.integers(5, 20, size=12)
    successes = random.binomial(trials, 0.35)
    counts = random.poisson(4.2, size=20)
    group = np.repeat(np.arange(10), 4)
    oneway = 2.0 + 0.9 * random.normal(size=10)[group] + 1.2 * random.normal(size=40)
    flat = 2.0 + 0.05 * random.normal(size=10)[group] + 1.2 * random.normal(size=40)
    county = np.repeat(np.arange(12), [1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 14, 2])
    floor = random.integers(0, 2, size=len(county))
    radon = 1.5 - 0.7 * floor + 0.4 * random.normal(size=12)[county] + 0.7 * random.normal(size=len(county))
    two = np.where(np.arange(30) % 2 == 0, -2.0, 2.5) + random.normal(size=30)
    dugongs = np.loadtxt(DATA / "dugongs.csv", delimiter=",", skiprows=1)
    peregrines = np.loadtxt(DATA / "peregrines.csv", delimiter=",", skiprows=1)
    time = (peregrines[:, 0] - 1984.0) / 20.0
    age, length = dugongs[:, 0], dugongs[:, 1]
    fledglings = peregrines[:, -1].astype(np.int64)
    deaths, operations = SURGICAL["deaths"].astype(float), SURGICAL["operations"].astype(float)
    ones = np.ones_like(x)
    return {
        "linear_regression": Case(
            LINEAR_REGRESSION,
            {"x": x, "y": line},
            "y",
            lambda: quadrature.conjugate_regression(line, np.column_stack([ones, x]), 2.0, 3.0, 2.0),
        ),
        "beta_binomial": Case(
            BETA_BINOMIAL,
            {"trials": trials, "y": successes},
            "y",
            lambda: quadrature.beta_binomial(successes, trials, 2.0, 3.0),
        ),
        "gamma_poisson": Case(
            GAMMA_POISSON,
            {"i": np.arange(20), "y": counts},
            "y",
            lambda: quadrature.gamma_poisson(counts, 3, 0.5),
        ),
        "one_way": Case(ONE_WAY, {"group": group, "y": oneway}, "y", lambda: _one_way(oneway, group)),
        "one_way_no_effect": Case(ONE_WAY, {"group": group, "y": flat}, "y", lambda: _one_way(flat, group)),
        "hierarchical_regression": Case(
            HIERARCHICAL_REGRESSION,
            {"county": county, "floor": floor, "y": radon},
            "y",
            lambda: quadrature.varying_intercepts(
                radon, county, np.column_stack([np.ones(len(county)), floor]), np.array([5.0, 2.0]), 1.0, 2.0
            ),
        ),
        "bimodal_mixture": Case(
            BIMODAL_MIXTURE, {"i": np.arange(30), "y": two}, "y", lambda: quadrature.two_means(two, 4.0)
        ),
        "dugongs": Case(
            DUGONGS,
            {"age": age, "length": length},
            "length",
            lambda: quadrature.saturating_growth(length, age),
            real=True,
        ),
        "peregrines": Case(
            PEREGRINES,
            {"time": time, "fledglings": fledglings},
            "fledglings",
            lambda: quadrature.poisson_parabola(fledglings, time),
            real=True,
        ),
        "schools_centred": Case(SCHOOLS_CENTRED, SCHOOLS, "effect", _schools, real=True),
        "schools_non_centred": Case(SCHOOLS_NON_CENTRED, SCHOOLS, "effect", _schools, real=True),
        "surgical_logit_normal": Case(
            SURGICAL_LOGIT_NORMAL,
            SURGICAL,
            "deaths",
            lambda: quadrature.logit_normal_binomial(deaths, operations),
            real=True,
        ),
        "surgical_beta": Case(
            SURGICAL_BETA,
            SURGICAL,
            "deaths",
            lambda: quadrature.beta_hierarchy(deaths, operations),
            real=True,
        ),
    }


def _one_way(y: NDArray[np.float64], group: NDArray[np.int64]) -> Evidence:
    return quadrature.varying_intercepts(y, group, np.ones((len(y), 1)), np.array([5.0]), 2.0, 2.0)


def _schools() -> Evidence:
    return quadrature.eight_schools(SCHOOLS["effect"], SCHOOLS["error"])


LINEAR_REGRESSION = """
with pm.Model() as model:
    variance = pm.InverseGamma("variance", 3.0, 2.0)
    sigma = pm.math.sqrt(variance)
    a = pm.Normal("a", 0.0, 2.0 * sigma)
    b = pm.Normal("b", 0.0, 2.0 * sigma)
    pm.Normal("obs", a + b * x, sigma, observed=y)
"""
BETA_BINOMIAL = """
with pm.Model() as model:
    p = pm.Beta("p", 2.0, 3.0)
    pm.Binomial("obs", n=trials, p=p, observed=y)
"""
GAMMA_POISSON = """
with pm.Model() as model:
    rate = pm.Gamma("rate", 3.0, 0.5)
    pm.Poisson("obs", rate, observed=y)
"""
ONE_WAY = """
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfNormal("tau", 2.0)
    sigma = pm.HalfNormal("sigma", 2.0)
    level = pm.Normal("level", mu, tau, shape=10)
    pm.Normal("obs", level[group], sigma, observed=y)
"""
HIERARCHICAL_REGRESSION = """
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfNormal("tau", 1.0)
    sigma = pm.HalfNormal("sigma", 2.0)
    slope = pm.Normal("slope", 0.0, 2.0)
    level = pm.Normal("level", mu, tau, shape=12)
    pm.Normal("obs", level[county] + slope * floor, sigma, observed=y)
"""
BIMODAL_MIXTURE = """
with pm.Model() as model:
    m = pm.Normal("m", 0.0, 4.0, shape=2)
    pm.NormalMixture("obs", w=[0.5, 0.5], mu=m, sigma=1.0, observed=y)
"""
DUGONGS = """
with pm.Model() as model:
    a = pm.Normal("a", 2.5, 1.0)
    b = pm.Normal("b", 1.0, 1.0)
    c = pm.HalfNormal("c", 0.5)
    s = pm.HalfNormal("s", 0.5)
    pm.Normal("obs", a - b * pm.math.exp(-c * age), s, observed=length)
"""
PEREGRINES = """
with pm.Model() as model:
    a = pm.Normal("a", 4.0, 1.0)
    b = pm.Normal("b", 0.0, 1.0)
    c = pm.Normal("c", 0.0, 1.0)
    pm.Poisson("obs", pm.math.exp(a + b * time + c * time ** 2), observed=fledglings)
"""
SCHOOLS_CENTRED = """
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfCauchy("tau", 5.0)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("obs", theta[school], error, observed=effect)
"""
SCHOOLS_NON_CENTRED = """
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfCauchy("tau", 5.0)
    offset = pm.Normal("offset", 0.0, 1.0, shape=8)
    theta = pm.Deterministic("theta", mu + tau * offset)
    pm.Normal("obs", theta[school], error, observed=effect)
"""
SURGICAL_LOGIT_NORMAL = """
with pm.Model() as model:
    mu = pm.Normal("mu", -2.0, 1.5)
    tau = pm.HalfNormal("tau", 1.0)
    logit = pm.Normal("logit", mu, tau, shape=12)
    pm.Binomial("obs", n=operations, logit_p=logit[hospital], observed=deaths)
"""
SURGICAL_BETA = """
with pm.Model() as model:
    mean = pm.Beta("mean", 1.0, 9.0)
    size = pm.Gamma("size", 2.0, 0.05)
    p = pm.Beta("p", mean * size, (1 - mean) * size, shape=12)
    pm.Binomial("obs", n=operations, p=p[hospital], observed=deaths)
"""

CASES = _cases()
"""Name to case."""
