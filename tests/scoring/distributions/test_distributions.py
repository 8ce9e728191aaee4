"""Each distribution alone: against scipy, at edges, with forbidden parameters, gradients and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.counts import NegativeBinomialMean
from synthstats_lightning.scoring.numerics.gamma import log_gamma_ratio

SCIPY: dict[str, Callable[..., Any]] = {
    "Normal": lambda mu, sigma: stats.norm(mu, sigma),
    "HalfNormal": lambda loc, sigma: stats.halfnorm(loc, sigma),
    "LogNormal": lambda mu, sigma: stats.lognorm(sigma, scale=np.exp(mu)),
    "Exponential": lambda scale: stats.expon(scale=scale),
    "Gamma": lambda alpha, scale: stats.gamma(alpha, scale=scale),
    "InverseGamma": lambda alpha, beta: stats.invgamma(alpha, scale=beta),
    "Beta": lambda alpha, beta: stats.beta(alpha, beta),
    "Uniform": lambda lower, upper: stats.uniform(lower, upper - lower),
    "StudentT": lambda nu, mu, sigma: stats.t(nu, mu, sigma),
    "HalfStudentT": lambda nu, sigma: stats.t(nu, 0, sigma),
    "Cauchy": lambda alpha, beta: stats.cauchy(alpha, beta),
    "HalfCauchy": lambda beta: stats.halfcauchy(0, beta),
    "Laplace": lambda mu, b: stats.laplace(mu, b),
    "Logistic": lambda mu, s: stats.logistic(mu, s),
    "Poisson": lambda mu: stats.poisson(mu),
    "NegativeBinomial": lambda n, p: stats.nbinom(n, p),
    "Binomial": lambda n, p: stats.binom(n, p),
    "Bernoulli": lambda p: stats.bernoulli(p),
}

PARAMETERS: dict[str, list[tuple[float, ...]]] = {
    "Normal": [(0.0, 1.0), (3.0, 1e-3), (-1.0, 1e4)],
    "HalfNormal": [(0.0, 1.0), (0.0, 30.0)],
    "LogNormal": [(0.0, 1.0), (-2.0, 0.1)],
    "Exponential": [(1.0,), (50.0,)],
    "Gamma": [(1.0, 1.0), (0.3, 2.0), (500.0, 0.01)],
    "InverseGamma": [(1.0, 1.0), (3.0, 20.0)],
    "Beta": [(1.0, 1.0), (0.5, 0.5), (40.0, 2.0), (1.0, 3.0)],
    "Uniform": [(0.0, 1.0), (-3.0, 1e3)],
    "StudentT": [(1.0, 0.0, 1.0), (4.0, 1.0, 2.0), (1e7, 0.0, 1.0)],
    "HalfStudentT": [(3.0, 1.0), (1e8, 2.0)],
    "Cauchy": [(0.0, 1.0), (2.0, 0.01)],
    "HalfCauchy": [(1.0,), (25.0,)],
    "Laplace": [(0.0, 1.0), (-2.0, 0.2)],
    "Logistic": [(0.0, 1.0), (1.0, 0.05)],
    "Poisson": [(0.5,), (30.0,), (1e4,), (0.0,)],
    "NegativeBinomial": [(1.0, 0.5), (0.2, 0.01), (50.0, 0.9), (1e6, 0.999999)],
    "Binomial": [(1.0, 0.3), (30.0, 0.999), (30.0, 0.0), (30.0, 1.0), (1e6, 1e-5)],
    "Bernoulli": [(0.3,), (1e-12,), (0.0,), (1.0,)],
}

CASES = [(name, parameters) for name, several in PARAMETERS.items() for parameters in several]
INVALID: dict[str, list[tuple[float, ...]]] = {
    "Normal": [(0.0, 0.0), (0.0, -1.0), (0.0, math.nan)],
    "HalfNormal": [(0.0, -2.0)],
    "LogNormal": [(0.0, 0.0)],
    "Exponential": [(0.0,), (-1.0,)],
    "Gamma": [(0.0, 1.0), (1.0, -1.0)],
    "InverseGamma": [(-1.0, 1.0), (1.0, 0.0)],
    "Beta": [(0.0, 1.0), (1.0, -1.0)],
    "Uniform": [(1.0, 1.0), (2.0, -1.0)],
    "StudentT": [(0.0, 0.0, 1.0), (1.0, 0.0, -1.0)],
    "HalfStudentT": [(-1.0, 1.0), (1.0, 0.0)],
    "Cauchy": [(0.0, 0.0)],
    "HalfCauchy": [(-1.0,)],
    "Laplace": [(0.0, -0.1)],
    "Logistic": [(0.0, 0.0)],
    "Poisson": [(-0.1,)],
    "NegativeBinomial": [(0.0, 0.5), (1.0, 0.0), (1.0, 1.0), (1.0, 1.5), (1.0, -0.2)],
    "Binomial": [(-1.0, 0.5), (3.5, 0.5), (3.0, 1.01), (3.0, -0.01)],
    "Bernoulli": [(-0.1,), (1.1,), (49.5,)],
}


def tensors(values: tuple[float, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(value, dtype=torch.float64) for value in values)


def inner_values(name: str, parameters: tuple[float, ...]) -> np.ndarray:
    """Values across the bulk and both tails."""
    frozen = SCIPY[name](*parameters)
    if DISTRIBUTIONS[name].discrete:
        largest = int(frozen.mean() + 6 * frozen.std()) + 2
        return np.unique(np.linspace(0, largest, 60).astype(int)).astype(float)
    values = frozen.ppf([1e-9, 1e-3, 0.1, 0.3, 0.5, 0.8, 0.99, 1 - 1e-7])
    return values[values > 0] if name == "HalfStudentT" else values


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_matches_scipy(name: str, parameters: tuple[float, ...]) -> None:
    distribution, frozen = DISTRIBUTIONS[name], SCIPY[name](*parameters)
    values = inner_values(name, parameters)
    expected = frozen.logpmf(values) if distribution.discrete else frozen.logpdf(values)
    expected = expected + math.log(2.0) if name == "HalfStudentT" else expected
    got = distribution.log_prob(torch.from_numpy(values), *tensors(parameters)).numpy()
    # scipy subtracts log-gammas; where these are large it loses digits that we keep
    large = max(abs(p) for p in parameters) > 1e5
    np.testing.assert_allclose(got, expected, rtol=1e-6 if large else 1e-9, atol=1e-7 if large else 1e-10)


@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, p in CASES if DISTRIBUTIONS[n].discrete])
def test_discrete_masses_sum_to_one(name: str, parameters: tuple[float, ...]) -> None:
    frozen = SCIPY[name](*parameters)
    largest = int(frozen.mean() + 60 * frozen.std()) + 60
    values = torch.arange(-3, min(largest, 2_000_000), dtype=torch.float64)
    total = DISTRIBUTIONS[name].log_prob(values, *tensors(parameters)).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("HalfNormal", [-1e-9, -3.0, math.inf]),
        ("LogNormal", [0.0, -1.0]),
        ("Exponential", [-0.1]),
        ("Gamma", [-0.1]),
        ("InverseGamma", [0.0, -2.0]),
        ("Beta", [-0.1, 1.1]),
        ("Uniform", [-3.1, 1000.5]),
        ("HalfStudentT", [-1.0]),
        ("HalfCauchy", [-1.0]),
        ("Normal", [math.nan, math.inf]),
        ("Poisson", [-1.0, 2.5]),
        ("NegativeBinomial", [-1.0, 0.5]),
        ("Binomial", [-1.0, 2.0, 0.5]),
        ("Bernoulli", [-1.0, 2.0, 0.5]),
    ],
)
def test_outside_the_support(name: str, outside: list[float]) -> None:
    """-inf, never NaN and never an exception; a discrete density has no mass between integers."""
    parameters = PARAMETERS[name][-1] if name == "Uniform" else PARAMETERS[name][0]
    result = DISTRIBUTIONS[name].log_prob(torch.tensor(outside, dtype=torch.float64), *tensors(parameters))
    assert result.tolist() == [-math.inf] * len(outside)


@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, ps in INVALID.items() for p in ps])
def test_forbidden_parameters(name: str, parameters: tuple[float, ...]) -> None:
    """-inf with finite gradients of the neighbours that are allowed."""
    good = torch.tensor(PARAMETERS[name][0], dtype=torch.float64)
    both = torch.stack([good, torch.tensor(parameters, dtype=torch.float64)]).requires_grad_(True)
    value = torch.full((2,), 1.0 if DISTRIBUTIONS[name].discrete else 0.4, dtype=torch.float64)
    result = DISTRIBUTIONS[name].log_prob(value, *both.unbind(1))
    assert math.isfinite(float(result[0].detach()))
    assert float(result[1].detach()) == -math.inf
    (gradient,) = torch.autograd.grad(result[0], both)
    assert bool(torch.isfinite(gradient).all())


EDGES: list[tuple[str, tuple[float, ...], float, float]] = [
    ("Gamma", (1.0, 2.0), 0.0, -math.log(2.0)),
    ("Gamma", (1.5, 2.0), 0.0, -math.inf),
    ("Gamma", (0.5, 2.0), 0.0, math.inf),
    ("Exponential", (2.0,), 0.0, -math.log(2.0)),
    ("HalfNormal", (0.0, 1.0), 0.0, 0.5 * math.log(2.0 / math.pi)),
    ("Beta", (1.0, 1.0), 0.0, 0.0),
    ("Beta", (1.0, 2.0), 0.0, math.log(2.0)),
    ("Beta", (2.0, 1.0), 1.0, math.log(2.0)),
    ("Beta", (2.0, 2.0), 1.0, -math.inf),
    ("Uniform", (0.0, 2.0), 0.0, -math.log(2.0)),
    ("Uniform", (0.0, 2.0), 2.0, -math.log(2.0)),
    ("Poisson", (0.0,), 0.0, 0.0),
    ("Poisson", (0.0,), 1.0, -math.inf),
    ("Binomial", (5.0, 0.0), 0.0, 0.0),
    ("Binomial", (5.0, 1.0), 5.0, 0.0),
    ("Binomial", (0.0, 0.3), 0.0, 0.0),
    ("Bernoulli", (0.0,), 0.0, 0.0),
    ("Bernoulli", (1.0,), 0.0, -math.inf),
]


@pytest.mark.parametrize(("name", "parameters", "value", "expected"), EDGES)
def test_edges(name: str, parameters: tuple[float, ...], value: float, expected: float) -> None:
    """Values on the edge of the support and probabilities of 0 and 1, with finite gradients if finite."""
    leaves = [p.requires_grad_(True) for p in tensors(parameters)]
    result = DISTRIBUTIONS[name].log_prob(torch.tensor([value], dtype=torch.float64), *leaves)
    assert float(result.detach()) == pytest.approx(expected)
    if math.isfinite(expected) and result.requires_grad:
        gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
        assert all(g is None or bool(torch.isfinite(g)) for g in gradients)


@pytest.mark.parametrize("name", sorted(SCIPY))
def test_gradients(name: str) -> None:
    """In value (where continuous) and parameters, against central differences."""
    distribution = DISTRIBUTIONS[name]
    fixed = {"HalfNormal": {0}, "Binomial": {0}}.get(name, set())
    point = {"Binomial": (30.0, 0.4), "NegativeBinomial": (1.7, 0.4)}.get(name, PARAMETERS[name][0])
    parameters = [p.requires_grad_(i not in fixed) for i, p in enumerate(tensors(point))]
    value = torch.tensor([1.0, 0.0] if distribution.discrete else [0.2, 0.7], dtype=torch.float64)
    leaves = [value.requires_grad_(not distribution.discrete), *parameters]
    assert torch.autograd.gradcheck(distribution.log_prob, leaves)


def linked() -> list[tuple[Distribution, int, Distribution, str]]:
    return [
        (distribution, index, other, operation)
        for distribution in DISTRIBUTIONS.values()
        for index, (operation, other) in distribution.links.items()
    ]


@pytest.mark.parametrize(
    ("distribution", "index", "other", "operation"), linked(), ids=lambda x: getattr(x, "name", "")
)
def test_links(distribution: Distribution, index: int, other: Distribution, operation: str) -> None:
    """The linked form agrees where both are accurate and stays finite where the plain one is not."""
    x = torch.linspace(-8, 4, 25, dtype=torch.float64)
    function = {"exp": torch.exp, "sigmoid": torch.sigmoid}[operation]
    first = (torch.tensor(4.0, dtype=torch.float64),) if distribution.name == "Binomial" else ()
    for count in (0.0, 1.0):
        value = torch.tensor(count, dtype=torch.float64)
        plain = distribution.log_prob(value, *first, function(x))
        torch.testing.assert_close(other.log_prob(value, *first, x), plain, rtol=1e-11, atol=1e-11)
    extreme = torch.tensor([-800.0, 300.0 if operation == "exp" else 800.0], dtype=torch.float64)
    extreme.requires_grad_(True)
    result = other.log_prob(torch.tensor(1.0, dtype=torch.float64), *first, extreme)
    assert bool(torch.isfinite(result).all())
    assert bool(torch.isfinite(torch.autograd.grad(result.sum(), extreme)[0]).all())
    silent = other.log_prob(torch.tensor(0.0, dtype=torch.float64), *first, torch.tensor(-math.inf).double())
    assert float(silent) == 0.0


@pytest.mark.parametrize("name", sorted(SCIPY))
def test_draws(name: str) -> None:
    """Kolmogorov-Smirnov or chi-squared at a fixed seed; the generator is the only source of randomness."""
    distribution = DISTRIBUTIONS[name]
    special = {"Poisson": (3.5,), "NegativeBinomial": (2.5, 0.3), "Binomial": (12.0, 0.35)}
    parameters = special.get(name, PARAMETERS[name][-1] if name == "Uniform" else PARAMETERS[name][0])
    draws = [
        distribution.sample(torch.Generator().manual_seed(5), (20_000,), *tensors(parameters))
        for _ in range(2)
    ]
    assert torch.equal(*draws)
    assert draws[0].dtype == torch.float64
    frozen = SCIPY[name](*parameters)
    x = draws[0].numpy()
    if distribution.discrete:
        values, observed = np.unique(np.minimum(x, frozen.ppf(0.995)), return_counts=True)
        mass = frozen.pmf(values)
        mass[-1] = 1 - frozen.cdf(values[-1] - 1)
        assert stats.chisquare(observed, len(x) * mass / mass.sum()).pvalue > 1e-3
    else:
        cdf = (lambda v: 2 * frozen.cdf(v) - 1) if name == "HalfStudentT" else frozen.cdf
        assert stats.kstest(x, cdf).pvalue > 1e-3
        assert bool(distribution.inside(draws[0], *tensors(parameters)).all())


def test_log_gamma_ratio_keeps_its_digits() -> None:
    """Against exact products: Gamma(x + k) / Gamma(x) = x (x + 1) ... (x + k - 1)."""
    for x in (0.3, 7.0, 9.9e3, 1.1e4, 1e9, 1e15):
        for k in (0, 1, 5, 40):
            exact = math.fsum(math.log(x + i) for i in range(k))
            got = log_gamma_ratio(*tensors((x, float(k))))
            assert float(got) == pytest.approx(exact, rel=1e-11, abs=1e-10)
    x = torch.tensor([5.0, 9_990.0, 2e4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_gamma_ratio, (x, torch.tensor(3.0, dtype=torch.float64)))


def test_negative_binomial_by_its_mean() -> None:
    """Equal to the other form where `p` keeps its digits; right where `p` rounds to 1; proper draws."""
    values = torch.arange(0, 40, dtype=torch.float64)
    for n, mu in ((0.3, 4.0), (20.0, 7.0), (5.0, 1e-3)):
        plain = DISTRIBUTIONS["NegativeBinomial"].log_prob(values, *tensors((n, n / (n + mu))))
        got = NegativeBinomialMean.distribution.log_prob(values, *tensors((n, mu)))
        torch.testing.assert_close(got, plain, rtol=1e-10, atol=1e-10)
    for n, mu in ((2.0, 1e-25), (1e14, 3.0)):
        got = NegativeBinomialMean.distribution.log_prob(values, *tensors((n, mu)))
        rising = [math.fsum(math.log((n + i) / (n + mu)) for i in range(int(k))) for k in values]
        exact = np.array(rising) + stats.poisson(mu).logpmf(values) + mu - n * math.log1p(mu / n)
        np.testing.assert_allclose(got.numpy(), exact, rtol=1e-9, atol=1e-9)
    by_mean = NegativeBinomialMean.distribution
    draws = by_mean.sample(torch.Generator().manual_seed(0), (50_000,), *tensors((3.0, 6.0)))
    assert float(draws.mean()) == pytest.approx(6.0, abs=0.1)
    assert float(draws.var()) == pytest.approx(6.0 + 36.0 / 3.0, rel=0.05)
    leaves = [p.requires_grad_(True) for p in tensors((3.0, 6.0))]
    assert torch.autograd.gradcheck(
        lambda n, mu: NegativeBinomialMean.distribution.log_prob(values[:6], n, mu), leaves
    )
