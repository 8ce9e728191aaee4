"""The density's own promises: shapes, edges, gradients, draws, errors and determinism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.marginals.density import Density, build_density

AGE = np.linspace(1.0, 20.0, 27)
LENGTH = 1.8 + 0.28 * np.log(AGE)


class Builder:
    """Nodes by short calls; plain numbers become constants."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.named: dict[str, int] = {}

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def constant(self, value: Any, dtype: str = "float64") -> int:
        return self.add(Node("constant", (), {"value": value, "dtype": dtype}))

    def covariate(self, name: str) -> int:
        return self.add(Node("covariate", (), {"name": name}))

    def lift(self, x: Any) -> int:
        return self.constant(x) if isinstance(x, float | list) else x

    def op(self, name: str, *inputs: Any, **attributes: Any) -> int:
        return self.add(Node(name, tuple(self.lift(x) for x in inputs), attributes))

    def random(self, distribution: str, name: str, *inputs: Any, shape: tuple[int, ...] = ()) -> int:
        fields = {"distribution": distribution, "name": name, "shape": list(shape)}
        return self.add(Node("random", tuple(self.lift(x) for x in inputs), fields))

    def density(self, covariates: dict[str, Any], response: Any) -> Density:
        graph = ModelGraph(tuple(self.nodes), len(self.nodes) - 1, self.named)
        return build_density(graph, covariates, np.asarray(response))


def log_linear() -> Density:
    b = Builder()
    alpha, beta = b.random("Normal", "alpha", 0.0, 5.0), b.random("Normal", "beta", 0.0, 2.0)
    sigma = b.random("HalfNormal", "sigma", 0.0, 1.0)
    mu = b.op("add", alpha, b.op("mul", beta, b.op("log", b.covariate("age"))))
    b.named["mu"] = mu
    b.random("Normal", "length", mu, sigma, shape=(27,))
    return b.density({"age": AGE}, LENGTH)


def test_log_linear_against_scipy() -> None:
    density = log_linear()
    assert (density.dimension, density.num_observations) == (3, 27)
    theta = torch.tensor([[1.5, 0.3, -1.0], [0.0, 0.0, 0.5]], dtype=torch.float64)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    for i in range(2):
        values = {name: float(x[i]) for name, x in density.constrain(theta).items()}
        assert values["sigma"] == pytest.approx(math.exp(theta[i, 2]))
        prior = stats.norm(0, 5).logpdf(values["alpha"]) + stats.norm(0, 2).logpdf(values["beta"])
        prior += stats.halfnorm(0, 1).logpdf(values["sigma"]) + float(theta[i, 2])
        assert float(log_prior[i]) == pytest.approx(prior, rel=1e-12)
        mu = values["alpha"] + values["beta"] * np.log(AGE)
        rows = stats.norm(mu, values["sigma"]).logpdf(LENGTH)
        np.testing.assert_allclose(log_likelihood[i].numpy(), rows, rtol=1e-11)
        np.testing.assert_allclose(density.deterministics(theta)["mu"][i].numpy(), mu, rtol=1e-13)


def test_same_bits_every_time() -> None:
    first, second = log_linear(), log_linear()
    theta = first.sample_prior(64, torch.Generator().manual_seed(1))
    assert torch.equal(theta, second.sample_prior(64, torch.Generator().manual_seed(1)))
    for a, b in zip(
        first.log_prior_and_likelihood(theta), second.log_prior_and_likelihood(theta), strict=True
    ):
        assert torch.equal(a, b)


def test_wrong_shapes_are_named() -> None:
    density = log_linear()
    with pytest.raises(ValueError, match=r"theta must have shape \[particles, 3\], got \[2, 4\]"):
        density.log_prior(torch.zeros(2, 4, dtype=torch.float64))
    b = Builder()
    b.random("Normal", "y", 0.0, 1.0, shape=(3,))
    with pytest.raises(ValueError, match=r"response must have the shape \(3,\)"):
        b.density({}, np.zeros(4))


def test_single_precision_is_widened() -> None:
    density = log_linear()
    theta = torch.zeros(2, 3)
    assert density.log_prior(theta).dtype == torch.float64


def test_model_without_parameters() -> None:
    b = Builder()
    b.random("Normal", "y", 0.5, 2.0, shape=(3,))
    density = b.density({}, [0.0, 1.0, 2.0])
    log_prior, log_likelihood = density.log_prior_and_likelihood(torch.zeros(4, 0, dtype=torch.float64))
    assert log_prior.tolist() == [0.0] * 4
    np.testing.assert_allclose(log_likelihood[3].numpy(), stats.norm(0.5, 2).logpdf([0, 1, 2]))
    assert density.sample_prior(5, torch.Generator()).shape == (5, 0)


def test_shared_scalar_parameters_broadcast_to_rows() -> None:
    """A likelihood without covariates, whose parameters have no row axis."""
    b = Builder()
    rate = b.random("Uniform", "p", 0.0, 1.0)
    b.random("Bernoulli", "y", rate, shape=(3,))
    density = b.density({}, [0, 1, 1])
    log_likelihood = density.log_likelihood(torch.zeros(2, 1, dtype=torch.float64))
    np.testing.assert_allclose(log_likelihood.numpy(), np.full((2, 3), math.log(0.5)))


def test_discrete_parameters_are_refused() -> None:
    b = Builder()
    count = b.random("DiscreteUniform", "changes", 0.0, 5000.0)
    b.random("Normal", "y", count, 1.0, shape=(2,))
    refusal = r"changes: a discrete latent \(DiscreteUniform\) .* it has 5001 values"
    with pytest.raises(ProgramFailure, match=refusal) as failure:
        b.density({}, np.zeros(2))
    assert failure.value.category == FailureCategory.UNSUPPORTED


def test_forbidden_hyperparameters_from_an_expression() -> None:
    """sigma = a + x is negative for some rows and particles only; nothing raises, gradients stay finite."""
    b = Builder()
    a = b.random("Normal", "a", 0.0, 1.0)
    sigma = b.op("add", a, b.covariate("x"))
    scale = b.random("Normal", "scale", 0.0, b.op("sub", a, 0.5))
    b.random("Normal", "y", scale, sigma, shape=(3,))
    density = b.density({"x": np.array([0.0, 1.0, 2.0])}, [0.1, 0.2, 0.3])
    theta = torch.tensor([[-1.5, 0.1], [0.2, 0.1], [0.9, 0.1]], dtype=torch.float64, requires_grad=True)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    assert torch.isfinite(log_prior).tolist() == [False, False, True]
    assert torch.isfinite(log_likelihood).tolist() == [[False, False, True], [True] * 3, [True] * 3]
    assert bool((log_likelihood[0, :2] == -math.inf).all())
    total = log_prior[2] + log_likelihood[torch.isfinite(log_likelihood)].sum()
    assert bool(torch.isfinite(torch.autograd.grad(total, theta)[0]).all())


@pytest.mark.parametrize(
    ("distribution", "parameters"),
    [("Normal", (0.0, -1.0)), ("Uniform", (2.0, 1.0)), ("Gamma", (1.0, 0.0)), ("Beta", (-1.0, 1.0))],
)
def test_forbidden_constants(distribution: str, parameters: tuple[float, float]) -> None:
    b = Builder()
    x = b.random(distribution, "x", *parameters)
    b.random("Normal", "y", x, 1.0, shape=(2,))
    density = b.density({}, np.zeros(2))
    theta = torch.zeros(3, 1, dtype=torch.float64)
    assert density.log_prior(theta).tolist() == [-math.inf] * 3
    assert bool(torch.isfinite(density.log_likelihood(theta)).all())
    assert bool(torch.isfinite(density.sample_prior(3, torch.Generator())).all())


def test_not_a_number_becomes_minus_infinity() -> None:
    b = Builder()
    a = b.random("Normal", "a", 0.0, 1.0)
    b.random("Normal", "y", b.op("log", a), 1.0, shape=(2,))
    density = b.density({}, np.zeros(2))
    log_likelihood = density.log_likelihood(torch.tensor([[-1.0], [1.0]], dtype=torch.float64))
    assert (log_likelihood == -math.inf).tolist() == [[True, True], [False, False]]


def test_impossible_response_rows() -> None:
    """Rows outside the support are -inf, the others keep their density."""
    b = Builder()
    rate = b.random("HalfNormal", "rate", 0.0, 1.0)
    b.random("Exponential", "y", rate, shape=(3,))
    density = b.density({}, [0.5, -0.1, 0.0])
    theta = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    log_likelihood = density.log_likelihood(theta)
    assert log_likelihood[0].tolist() == [-0.5, -math.inf, 0.0]
    (gradient,) = torch.autograd.grad(log_likelihood[0, [0, 2]].sum(), theta)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (0.0, 5.0), (0.5, 1.0), (-1.0, 1.0), (2.0, 2.5)])
@pytest.mark.parametrize("u", [-800.0, -3.0, 0.4, 36.0, 800.0])
def test_interval_parameters_as_scales_and_probabilities(lower: float, upper: float, u: float) -> None:
    """What is assumed of an interval parameter must hold however extreme it is."""
    b = Builder()
    x = b.random("Uniform", "x", lower, upper)
    b.named["power"] = b.op("pow", x, 2.5)
    b.random("NegativeBinomial", "y", x, x, shape=(2,))
    density = b.density({}, [0, 3])
    theta = torch.tensor([[u]], dtype=torch.float64, requires_grad=True)
    value = float(density.constrain(theta)["x"].detach())
    rows = density.log_likelihood(theta)
    if 0 < value < 1e-6:
        # fewer successes than the range of n has: no mass
        assert rows[0].tolist() == [-math.inf] * 2
    elif 0 < value < 1:
        expected = stats.nbinom(value, value).logpmf([0, 3])
        np.testing.assert_allclose(rows[0].detach().numpy(), expected, rtol=1e-7)
    else:
        assert rows[0].tolist() == [-math.inf] * 2
    power = float(density.deterministics(theta)["power"].detach())
    assert power == pytest.approx(value**2.5) if value >= 0 else math.isnan(power)


def test_integer_parameters_that_depend_on_others() -> None:
    """Trials that are a cast of a parameter: large counts keep their digits, too few trials give -inf."""
    b = Builder()
    a = b.random("Normal", "a", 0.0, 1.0)
    trials = b.op("cast", b.op("exp", a), dtype="int64")
    b.random("Binomial", "y", trials, 0.25, shape=(2,))
    density = b.density({}, [3, 5])
    theta = torch.tensor([[math.log(33_554_433.5)], [math.log(4.5)], [-1.0]], dtype=torch.float64)
    rows = density.log_likelihood(theta)
    np.testing.assert_allclose(rows[0].numpy(), stats.binom(33_554_433, 0.25).logpmf([3, 5]), rtol=1e-9)
    np.testing.assert_allclose(rows[1].numpy(), stats.binom(4, 0.25).logpmf([3, 5]), rtol=1e-9)
    assert rows[2].tolist() == [-math.inf] * 2


@pytest.mark.parametrize("extreme", [-1e5, -750.0, -40.0, 40.0, 750.0, 1e5])
def test_far_out_parameters_never_give_nan(extreme: float) -> None:
    b = Builder()
    scale = b.random("Gamma", "scale", 1.0, 1.0)
    p = b.random("Beta", "p", 1.0, 1.0)
    u = b.random("Uniform", "u", 0.0, scale)
    b.random("StudentT", "y", 4.0, b.op("mul", p, u), scale, shape=(2,))
    density = b.density({}, [0.3, 0.6])
    theta = torch.full((1, 3), extreme, dtype=torch.float64, requires_grad=True)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    total = log_prior + log_likelihood.sum(1)
    assert not bool(torch.isnan(total).any())
    if math.isfinite(float(total.detach())):
        assert bool(torch.isfinite(torch.autograd.grad(total.sum(), theta)[0]).all())


def test_prior_draws_follow_the_prior() -> None:
    """Hierarchical draws: each margin against scipy, and the density against the draws."""
    b = Builder()
    mu = b.random("Normal", "mu", 1.0, 2.0)
    tau = b.random("Exponential", "tau", 0.5)
    b.random("Laplace", "offset", mu, tau, shape=(2,))
    low = b.random("Uniform", "low", -1.0, 1.0)
    high = b.random("Uniform", "high", low, b.op("add", low, tau))
    p = b.random("Beta", "p", 2.0, 3.0)
    b.random("Normal", "y", b.op("add", high, p), 1.0, shape=(2,))
    density = b.density({}, np.zeros(2))
    theta = density.sample_prior(20_000, torch.Generator().manual_seed(3))
    values = {name: x.numpy() for name, x in density.constrain(theta).items()}
    assert stats.kstest(values["mu"], stats.norm(1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(values["tau"], stats.expon(0, 0.5).cdf).pvalue > 1e-3
    assert stats.kstest(values["p"], stats.beta(2, 3).cdf).pvalue > 1e-3
    standard = (values["offset"] - values["mu"][:, None]) / values["tau"][:, None]
    assert stats.kstest(standard.ravel(), stats.laplace.cdf).pvalue > 1e-3
    fraction = (values["high"] - values["low"]) / values["tau"]
    assert stats.kstest(fraction, stats.uniform.cdf).pvalue > 1e-3
    # density and sampler agree: the mean of prior(theta + shift) / prior(theta) is the mass, 1, for any shift
    for shift in (0.1, -0.15):
        ratio = (density.log_prior(theta + shift) - density.log_prior(theta)).exp()
        error = float(ratio.std()) / math.sqrt(len(theta))
        assert error < 0.02
        assert abs(float(ratio.mean()) - 1.0) < 4 * error


def test_responses_follow_the_likelihood() -> None:
    density = log_linear()
    theta = torch.tensor([[1.5, 0.3, -1.0]], dtype=torch.float64).expand(20_000, 3)
    draws = density.sample_response(theta, torch.Generator().manual_seed(4))
    assert draws.shape == (20_000, 27)
    standard = (draws[:, ::13].numpy() - (1.5 + 0.3 * np.log(AGE[::13]))) / math.exp(-1.0)
    for column in standard.T:
        assert stats.kstest(column, stats.norm.cdf).pvalue > 1e-3


def test_responses_with_forbidden_parameters_are_nan() -> None:
    b = Builder()
    a = b.random("Normal", "a", 0.0, 1.0)
    b.random("Poisson", "y", a, shape=(2,))
    density = b.density({}, [1, 2])
    draws = density.sample_response(torch.tensor([[-1.0], [2.0]], dtype=torch.float64), torch.Generator())
    assert torch.isnan(draws).tolist() == [[True, True], [False, False]]


def test_second_derivatives() -> None:
    """Hessians by double backward, as estimators may ask for."""
    density = log_linear()
    theta = torch.tensor([[1.5, 0.3, -1.0]], dtype=torch.float64, requires_grad=True)

    def joint(x: torch.Tensor) -> torch.Tensor:
        log_prior, log_likelihood = density.log_prior_and_likelihood(x)
        return log_prior + log_likelihood.sum(1)

    assert torch.autograd.gradgradcheck(joint, (theta,))


@pytest.mark.parametrize("swapped", [False, True])
def test_negative_binomial_spelled_by_its_mean(swapped: bool) -> None:
    """`p = n / (mu + n)` with a tiny mean: `1 - p` would have no digits left."""
    b = Builder()
    n = b.random("Gamma", "n", 2.0, 1.0)
    mu = b.op("exp", b.random("Normal", "eta", 0.0, 5.0))
    p = b.op("div", n, b.op("add", *((n, mu) if swapped else (mu, n))))
    b.random("NegativeBinomial", "y", n, p, shape=(2,))
    density = b.density({}, [0, 3])
    theta = torch.zeros(2, 2, dtype=torch.float64)
    eta = next(q for q in density.parameters if q.name == "eta").start
    theta[1, eta] = -60.0
    theta.requires_grad_(True)
    rows = density.log_likelihood(theta)
    # n = 1: geometric with odds mu
    for i, x in enumerate((0.0, -60.0)):
        expected = [-math.log1p(math.exp(x)), 3 * x - 4 * math.log1p(math.exp(x))]
        np.testing.assert_allclose(rows[i].detach().numpy(), expected, rtol=1e-12)
    (gradient,) = torch.autograd.grad(rows[1, 1], theta)
    assert float(gradient[1, eta]) == pytest.approx(3.0)
