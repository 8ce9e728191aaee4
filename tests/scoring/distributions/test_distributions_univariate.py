"""The less usual univariate distributions, each alone: against scipy, in every argument and at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats

from synthstats_lightning.scoring.distributions import DISTRIBUTIONS


class _Kumaraswamy(stats.rv_continuous):
    def _cdf(self, x: Any, a: Any, b: Any) -> Any:
        return 1.0 - (1.0 - x**a) ** b

    def _pdf(self, x: Any, a: Any, b: Any) -> Any:
        return a * b * x ** (a - 1.0) * (1.0 - x**a) ** (b - 1.0)

    def _ppf(self, q: Any, a: Any, b: Any) -> Any:
        return (1.0 - (1.0 - q) ** (1.0 / b)) ** (1.0 / a)


class _LogitNormal(stats.rv_continuous):
    def _argcheck(self, mu: Any, sigma: Any) -> Any:
        return sigma > 0

    def _cdf(self, x: Any, mu: Any, sigma: Any) -> Any:
        return stats.norm.cdf(special.logit(x), mu, sigma)

    def _pdf(self, x: Any, mu: Any, sigma: Any) -> Any:
        return stats.norm.pdf(special.logit(x), mu, sigma) / (x * (1.0 - x))

    def _ppf(self, q: Any, mu: Any, sigma: Any) -> Any:
        return special.expit(stats.norm.ppf(q, mu, sigma))


class _DiscreteWeibull(stats.rv_discrete):
    def _cdf(self, x: Any, q: Any, beta: Any) -> Any:
        return 1.0 - q ** ((np.floor(x) + 1.0) ** beta)

    def _pmf(self, x: Any, q: Any, beta: Any) -> Any:
        return q ** (x**beta) - q ** ((x + 1.0) ** beta)


KUMARASWAMY = _Kumaraswamy(a=0.0, b=1.0, name="kumaraswamy")
LOGIT_NORMAL = _LogitNormal(a=0.0, b=1.0, name="logit_normal")
DISCRETE_WEIBULL = _DiscreteWeibull(a=0, name="discrete_weibull")

FROZEN: dict[str, Callable[..., Any]] = {
    "AsymmetricLaplace": lambda b, kappa, mu: stats.laplace_asymmetric(kappa, mu, 1.0 / b),
    "BetaBinomial": lambda n, a, b: stats.betabinom(int(n), a, b),
    "DiscreteUniform": lambda lower, upper: stats.randint(int(lower), int(upper) + 1),
    "DiscreteWeibull": lambda q, beta: DISCRETE_WEIBULL(q, beta),
    "ExGaussian": lambda mu, sigma, nu: stats.exponnorm(nu / sigma, mu, sigma),
    "Geometric": lambda p: stats.geom(p),
    "Gumbel": lambda mu, beta: stats.gumbel_r(mu, beta),
    "HyperGeometric": lambda good, bad, n: stats.hypergeom(int(good + bad), int(good), int(n)),
    "Kumaraswamy": lambda a, b: KUMARASWAMY(a, b),
    "LogitNormal": lambda mu, sigma: LOGIT_NORMAL(mu, sigma),
    "Moyal": lambda mu, sigma: stats.moyal(mu, sigma),
    "Pareto": lambda alpha, m: stats.pareto(alpha, scale=m),
    "Rice": lambda b, sigma: stats.rice(b, scale=sigma),
    "SkewNormal": lambda mu, sigma, alpha: stats.skewnorm(alpha, mu, sigma),
    "SkewStudentT": lambda a, b, mu, sigma: stats.jf_skew_t(a, b, mu, sigma),
    "Triangular": lambda lower, c, upper: stats.triang((c - lower) / (upper - lower), lower, upper - lower),
    "VonMises": lambda mu, kappa: stats.vonmises(kappa, mu),
    "Wald": lambda mu, lam, alpha: stats.invgauss(mu / lam, alpha, lam),
    "Weibull": lambda alpha, beta: stats.weibull_min(alpha, scale=beta),
}

PARAMETERS: dict[str, list[tuple[float, ...]]] = {
    "AsymmetricLaplace": [(1.0, 1.3, 0.0), (0.3, 2.5, -1.0), (4.0, 0.2, 3.0)],
    "BetaBinomial": [(12.0, 2.0, 3.0), (1.0, 0.4, 0.6), (400.0, 1e5, 3e5)],
    "DiscreteUniform": [(0.0, 5.0), (-3.0, -3.0), (-4.0, 9.0)],
    "DiscreteWeibull": [(0.7, 1.0), (0.95, 0.6), (0.3, 2.0)],
    "ExGaussian": [(0.0, 1.0, 1.0), (2.0, 0.3, 4.0), (-1.0, 2.0, 0.3)],
    "Geometric": [(0.3,), (0.99,), (0.01,)],
    "Gumbel": [(0.0, 1.0), (-2.0, 5.0)],
    "HyperGeometric": [(8.0, 12.0, 5.0), (3.0, 2.0, 4.0), (30.0, 50.0, 60.0)],
    "Kumaraswamy": [(2.0, 3.0), (0.5, 0.5), (1.0, 1.0)],
    "LogitNormal": [(0.0, 1.0), (-2.0, 0.4)],
    "Moyal": [(0.0, 1.0), (3.0, 0.2)],
    "Pareto": [(2.0, 1.0), (0.4, 7.0)],
    "Rice": [(1.0, 1.0), (0.0, 2.0), (30.0, 0.5)],
    "SkewNormal": [(0.0, 1.0, 2.0), (1.0, 3.0, 0.0), (-1.0, 0.5, -4.0)],
    "SkewStudentT": [(2.0, 3.0, 0.0, 1.0), (0.6, 4.0, 1.0, 2.0)],
    "Triangular": [(0.0, 0.5, 2.0), (-3.0, -1.0, 1.0)],
    "VonMises": [(0.0, 1.0), (0.0, 300.0), (0.0, 0.05)],
    "Wald": [(1.0, 1.0, 0.0), (3.0, 0.5, 0.2), (0.5, 8.0, 0.0)],
    "Weibull": [(1.0, 1.0), (0.6, 3.0), (4.0, 0.2)],
}
CASES = [(name, parameters) for name, several in PARAMETERS.items() for parameters in several]

INVALID: dict[str, list[tuple[float, ...]]] = {
    "AsymmetricLaplace": [(0.0, 1.0, 0.0), (1.0, -1.0, 0.0)],
    "BetaBinomial": [(-1.0, 1.0, 1.0), (2.5, 1.0, 1.0), (3.0, 0.0, 1.0), (3.0, 1.0, -1.0)],
    "DiscreteUniform": [(3.0, 2.0), (0.5, 2.0)],
    "DiscreteWeibull": [(0.0, 1.0), (1.0, 1.0), (0.5, 0.0)],
    "ExGaussian": [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0)],
    "Geometric": [(-0.1,), (1.1,)],
    "Gumbel": [(0.0, 0.0)],
    "HyperGeometric": [(-1.0, 3.0, 2.0), (1.0, 1.0, 3.0), (2.5, 2.0, 1.0)],
    "Kumaraswamy": [(0.0, 1.0), (1.0, 0.0)],
    "LogitNormal": [(0.0, 0.0)],
    "Moyal": [(0.0, -1.0)],
    "Pareto": [(0.0, 0.1), (1.0, 0.0)],
    "Rice": [(-1.0, 1.0), (1.0, 0.0)],
    "SkewNormal": [(0.0, 0.0, 1.0)],
    "SkewStudentT": [(0.0, 1.0, 0.0, 1.0), (1.0, 1.0, 0.0, -1.0)],
    "Triangular": [(0.0, 3.0, 2.0), (2.0, 1.0, 0.0), (1.0, 1.0, 1.0)],
    "VonMises": [(0.0, 0.0)],
    "Wald": [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, -1.0)],
    "Weibull": [(0.0, 1.0), (1.0, 0.0)],
}


def tensors(values: tuple[float, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(value, dtype=torch.float64) for value in values)


def values_of(name: str, parameters: tuple[float, ...]) -> np.ndarray:
    """Values across the bulk and both tails."""
    frozen = FROZEN[name](*parameters)
    if DISTRIBUTIONS[name].discrete:
        low, high = frozen.ppf(1e-6), frozen.ppf(1 - 1e-6)
        return np.unique(np.linspace(low, high, 30).astype(int)).astype(float)
    return np.asarray(frozen.ppf([1e-6, 1e-3, 0.1, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6]))


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_matches_scipy(name: str, parameters: tuple[float, ...]) -> None:
    distribution, frozen = DISTRIBUTIONS[name], FROZEN[name](*parameters)
    values = values_of(name, parameters)
    with np.errstate(divide="ignore"):
        expected = frozen.logpmf(values) if distribution.discrete else frozen.logpdf(values)
    got = distribution.log_prob(torch.from_numpy(values), *tensors(parameters)).numpy()
    # where scipy subtracts log-gammas of large shapes, powers of q, or 1 from x / r, it loses digits
    rough = max(map(abs, parameters)) > 1e4 or name in ("DiscreteWeibull", "SkewStudentT")
    rtol = 1e-6 if rough else 1e-8
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_masses_sum_to_one(name: str, parameters: tuple[float, ...]) -> None:
    """Sums over integers, or a trapezoid over quantiles spaced evenly in probability."""
    distribution, frozen = DISTRIBUTIONS[name], FROZEN[name](*parameters)
    if distribution.discrete:
        values = torch.arange(-20, min(int(frozen.ppf(1 - 1e-12)) + 20, 100_000), dtype=torch.float64)
        total = float(distribution.log_prob(values, *tensors(parameters)).exp().sum())
        assert total == pytest.approx(1.0, abs=1e-7)
        return
    # the density in the coordinate of its own probability is one everywhere
    u = np.linspace(0.001, 0.999, 400)
    density = distribution.log_prob(torch.from_numpy(frozen.ppf(u)), *tensors(parameters)).exp().numpy()
    np.testing.assert_allclose(density / frozen.pdf(frozen.ppf(u)), 1.0, rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("BetaBinomial", [-1.0, 13.0, 0.5]),
        ("DiscreteUniform", [-1.0, 6.0, 2.5]),
        ("DiscreteWeibull", [-1.0, 0.5]),
        ("Geometric", [0.0, -1.0, 1.5]),
        ("HyperGeometric", [-1.0, 6.0, 1.5]),
        ("Kumaraswamy", [0.0, 1.0, -0.2, 1.2]),
        ("LogitNormal", [0.0, 1.0, -0.2, 1.2]),
        ("Pareto", [0.9, 0.0, -1.0, math.inf]),
        ("Rice", [0.0, -1.0]),
        ("SkewNormal", [math.nan, math.inf]),
        ("Triangular", [-0.1, 2.1]),
        ("VonMises", [-3.2, 3.2]),
        ("Wald", [0.0, -1.0]),
        ("Weibull", [-0.1, math.inf]),
    ],
)
def test_outside_the_support(name: str, outside: list[float]) -> None:
    result = DISTRIBUTIONS[name].log_prob(
        torch.tensor(outside, dtype=torch.float64), *tensors(PARAMETERS[name][0])
    )
    assert result.tolist() == [-math.inf] * len(outside)


@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, ps in INVALID.items() for p in ps])
def test_forbidden_parameters(name: str, parameters: tuple[float, ...]) -> None:
    """-inf with finite gradients of the neighbours that are allowed."""
    good = torch.tensor(PARAMETERS[name][0], dtype=torch.float64)
    both = torch.stack([good, torch.tensor(parameters, dtype=torch.float64)]).requires_grad_(True)
    inner = float(values_of(name, PARAMETERS[name][0])[3])
    result = DISTRIBUTIONS[name].log_prob(torch.full((2,), inner, dtype=torch.float64), *both.unbind(1))
    assert math.isfinite(float(result[0].detach()))
    assert float(result[1].detach()) == -math.inf
    (gradient,) = torch.autograd.grad(result[0], both)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_gradients(name: str) -> None:
    """In value (where continuous) and parameters, against central differences."""
    distribution = DISTRIBUTIONS[name]
    whole = {"BetaBinomial": {0}, "HyperGeometric": {0, 1, 2}, "DiscreteUniform": {0, 1}}.get(name, set())
    whole |= {2} if name == "Wald" else set()  # a shift of 0 is on its own edge
    parameters = [p.requires_grad_(i not in whole) for i, p in enumerate(tensors(PARAMETERS[name][0]))]
    inner = torch.from_numpy(values_of(name, PARAMETERS[name][0])[2:6].copy())
    leaves = [inner.requires_grad_(not distribution.discrete), *parameters]
    if not any(leaf.requires_grad for leaf in leaves):
        assert not distribution.log_prob(*leaves).requires_grad
        return
    assert torch.autograd.gradcheck(distribution.log_prob, leaves)


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_draws(name: str) -> None:
    """Kolmogorov-Smirnov or chi-squared at a fixed seed; the generator is the only source of randomness."""
    distribution = DISTRIBUTIONS[name]
    parameters = PARAMETERS[name][0]
    draws = [
        distribution.sample(torch.Generator().manual_seed(7), (10_000,), *tensors(parameters))
        for _ in range(2)
    ]
    assert torch.equal(*draws)
    assert draws[0].dtype == torch.float64
    assert bool(distribution.inside(draws[0], *tensors(parameters)).all())
    frozen, x = FROZEN[name](*parameters), draws[0].numpy()
    if not distribution.discrete:
        assert stats.kstest(x, frozen.cdf).pvalue > 1e-3
        return
    values, observed = np.unique(np.minimum(x, frozen.ppf(0.995)), return_counts=True)
    mass = frozen.pmf(values)
    mass[-1] = 1 - frozen.cdf(values[-1] - 1)
    assert stats.chisquare(observed, len(x) * mass / mass.sum()).pvalue > 1e-3


def test_von_mises_draws_wrap_around() -> None:
    for mu, kappa in ((3.0, 0.8), (-2.0, 40.0)):
        draws = DISTRIBUTIONS["VonMises"].sample(
            torch.Generator().manual_seed(1), (4_000,), *tensors((mu, kappa))
        )
        assert bool((draws.abs() <= math.pi).all())
        resultant = torch.exp(1j * draws).mean()
        assert float(resultant.angle()) == pytest.approx(mu, abs=0.06)
        ratio = special.i1e(kappa) / special.i0e(kappa)
        assert float(resultant.abs()) == pytest.approx(ratio, abs=0.03)


def test_skew_student_t_keeps_its_digits_in_the_lower_tail() -> None:
    """Equal weights are Student's t with twice the degrees of freedom, also where 1 + x / r cancels."""
    x = torch.tensor([-1e9, -1e4, -3.0, 0.0, 2.0, 1e7], dtype=torch.float64)
    got = DISTRIBUTIONS["SkewStudentT"].log_prob(x, *tensors((2.5, 2.5, 0.0, 1.0)))
    expected = DISTRIBUTIONS["StudentT"].log_prob(x, *tensors((5.0, 0.0, 1.0)))
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def test_interpolated() -> None:
    """A trapezoid by hand; draws against its distribution function."""
    law = DISTRIBUTIONS["Interpolated"]
    x, height = torch.tensor([0.0, 1.0, 3.0]).double(), torch.tensor([0.0, 2.0, 1.0]).double()
    values = torch.tensor([0.5, 1.0, 2.0, 3.0, -0.1, 3.1], dtype=torch.float64)
    got = law.log_prob(values, x, height, height).exp()
    assert got.tolist() == pytest.approx([0.25, 0.5, 0.375, 0.25, 0.0, 0.0])
    draws = law.sample(torch.Generator().manual_seed(2), (5_000,), x, height, height).numpy()

    def cdf(v: np.ndarray) -> np.ndarray:
        return np.where(v < 1, v**2 / 4, 0.25 + (v - 1) / 2 - (v - 1) ** 2 / 16)

    assert stats.kstest(draws, cdf).pvalue > 1e-3


@pytest.mark.parametrize("probabilities", [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
def test_categorical(probabilities: list[float]) -> None:
    p = torch.tensor(probabilities, dtype=torch.float64)
    values = torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0, 0.5], dtype=torch.float64)
    got = DISTRIBUTIONS["Categorical"].log_prob(values, p).exp()
    assert got.tolist() == pytest.approx([*probabilities, 0.0, 0.0, 0.0])
    draws = DISTRIBUTIONS["Categorical"].sample(torch.Generator().manual_seed(0), (20_000,), p)
    share = torch.bincount(draws.long(), minlength=3) / len(draws)
    torch.testing.assert_close(share, p.float(), atol=0.012, rtol=0.0)


def test_categorical_probabilities_must_sum_to_one() -> None:
    """Nearly one is divided by the sum, so that masses sum to one; anything else is forbidden."""
    nearly = torch.tensor([0.5, 0.500004], dtype=torch.float64)
    total = DISTRIBUTIONS["Categorical"].log_prob(torch.arange(2).double(), nearly).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-14)
    for p in ([0.5, 0.7], [1.2, -0.2], [0.5, math.nan]):
        result = DISTRIBUTIONS["Categorical"].log_prob(torch.zeros(()).double(), torch.tensor(p).double())
        assert float(result) == -math.inf
