"""Discrete parameters summed out, against enumeration of every joint state with PyMC's own logp."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.density.target import RowSubset, evaluate, pointwise
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.labels import sums

ROWS = 6
RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=ROWS), 2)
G = np.array([0, 1, 0, 2, 1, 0])
ITEM = np.array([0, 0, 1, 1, 0, 1])
T = np.arange(ROWS)
COVARIATES: dict[str, Any] = {"x": X, "g": G, "item": ITEM, "t": T}
REAL = np.round(RNG.normal(0.5, 1.5, ROWS), 2)
COUNTS = np.array([0, 3, 0, 1, 5, 2])


def schema(dtype: str, covariates: dict[str, Any] = COVARIATES, rows: int = ROWS) -> DataSchema:
    return DataSchema({name: str(v.dtype) for name, v in covariates.items()}, "y", dtype, rows)


def graph_of(build: Callable[[Any], None], dtype: str = "float64", **kwargs: Any) -> ModelGraph:
    found = schema(dtype, **kwargs)
    with pm.Model() as model:
        build(sentinel(found.num_rows, dtype))
    covariates = kwargs.get("covariates", COVARIATES)
    return canonicalise(parse_graph(json.dumps(extract_graph(model, found, covariates)), found))


def mixture(y: Any) -> None:
    z = pm.Categorical("z", pt.stack([0.2, 0.5, 0.3]), shape=ROWS)
    mu = pm.Normal("mu", [-1, 0, 2], 1, shape=3)
    pm.Normal("y", mu[z], pm.HalfNormal("sigma", 1), observed=y)


def robust(y: Any) -> None:
    outlier = pm.Bernoulli("outlier", pm.Beta("share", 1, 5), shape=ROWS)
    a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
    pm.Normal("y", a + b * X, pm.math.switch(outlier, 5.0, 1.0), observed=y)


def change_point(y: Any) -> None:
    tau = pm.DiscreteUniform("tau", lower=1, upper=ROWS)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    pm.Poisson("y", pm.math.switch(tau >= T, early, late), observed=y)


def two_change_points(y: Any) -> None:
    first = pm.DiscreteUniform("first", 0, 3)
    second = pm.DiscreteUniform("second", 3, ROWS)
    level = pm.Normal("level", 0, 1, shape=3)
    mu = pt.where(first > T, level[0], pt.where(second > T, level[1], level[2]))
    pm.Normal("y", mu, 1, observed=y)


def selection(y: Any) -> None:
    keep = pm.Bernoulli("keep", 0.5, shape=3)
    beta = pm.Normal("beta", 0, 1, shape=3)
    mu = pm.math.dot(np.column_stack([X, X**2, T]), beta * keep)
    pm.StudentT("y", nu=4, mu=mu, sigma=1, observed=y)


def group_labels(y: Any) -> None:
    z = pm.Bernoulli("z", 0.4, shape=3)
    theta = pm.Normal("theta", mu=pt.where(pt.eq(z, 1), 1.5, -0.5), sigma=0.7, shape=3)
    pm.Normal("y", theta[G], 1, observed=y)


def regimes(y: Any) -> None:
    regime = pm.Bernoulli("regime", 0.3)
    z = pm.Bernoulli("z", pm.math.switch(regime, 0.8, pm.Beta("p", 2, 2)), shape=ROWS)
    pm.Normal("y", pm.Normal("mu", 0, 1, shape=2)[z] + regime * X, 1, observed=y)


def groups_of_rows(y: Any) -> None:
    kind = pm.Categorical("kind", [0.5, 0.3, 0.2], shape=3)
    z = pm.Bernoulli("z", pm.Beta("p", 1, 1, shape=3)[kind[G]], shape=ROWS)
    pm.Normal("y", pm.Normal("m", 0, 1, shape=2)[z] + 0.3 * kind[G], 1, observed=y)


def two_labels(y: Any) -> None:
    a = pm.Bernoulli("a", 0.5, shape=ROWS)
    b = pm.Bernoulli("b", 0.3, shape=ROWS)
    pm.Normal("y", a * pm.Normal("u", 0, 1) + pm.Normal("v", 0, 1, shape=2)[b], 1, observed=y)


def crossed(y: Any) -> None:
    person = pm.Bernoulli("person", 0.5, shape=3)
    item = pm.Bernoulli("item", 0.3, shape=2)
    pm.Normal("y", pm.Normal("u", 0, 1) * person[G] + pm.Normal("v", 0, 1) * item[ITEM], 1, observed=y)


def zero_inflated(y: Any) -> None:
    alive = pm.Bernoulli("alive", pm.Beta("psi", 2, 2), shape=ROWS)
    pm.Poisson("y", alive * pm.Gamma("rate", 2, 1), observed=y)


def latent_count(y: Any) -> None:
    n = pm.Binomial("n", n=np.array([3, 5, 2]), p=pm.Beta("p", 2, 2), shape=3)
    pm.Poisson("y", 0.5 + n[G], observed=y)


def beta_binomial(y: Any) -> None:
    n = pm.BetaBinomial("n", n=4, alpha=pm.Exponential("a", 1), beta=2.0)
    pm.Normal("y", 0.3 * n * X, 1, observed=y)


def markov(y: Any) -> None:
    p = pm.Beta("p", 2, 2, shape=2)
    states = [pm.Bernoulli("z0", 0.5)]
    for k in range(1, 4):
        states.append(pm.Bernoulli(f"z{k}", p[states[-1]]))
    level = pm.Normal("level", [0, 1], 1, shape=2)
    pm.Normal("y", level[pt.stack(states)[np.array([0, 0, 1, 2, 3, 3])]], 1, observed=y)


def raters(y: Any) -> None:
    """Two indices, of which one is a label; the label of the first kind is the last one."""
    z = pm.Bernoulli("z", 0.4, shape=2)
    theta = pm.Normal("theta", 0, 1, shape=(3, 2))
    pm.Normal("y", theta[G, z[ITEM] - 1], 1, observed=y)


def some_rows(y: Any) -> None:
    z = pm.Bernoulli("z", 0.4, shape=2)
    mu = pm.Normal("mu", 0, 1)
    pm.Normal("y", mu + pt.concatenate([z, pt.zeros(ROWS - 2)]), 1, observed=y)


CASES: dict[str, tuple[Callable[[Any], None], bool]] = {
    "mixture": (mixture, False),
    "robust": (robust, False),
    "change point": (change_point, True),
    "two change points": (two_change_points, True),
    "selection": (selection, True),
    "group labels with a continuous layer": (group_labels, False),
    "a shared regime over row labels": (regimes, True),
    "group labels over row labels": (groups_of_rows, True),
    "two labels": (two_labels, False),
    "crossed labels": (crossed, True),
    "zero inflation": (zero_inflated, False),
    "latent counts": (latent_count, True),
    "beta-binomial": (beta_binomial, True),
    "a short chain": (markov, True),
    "labels among two indices": (raters, True),
    "labels of some rows": (some_rows, False),
}
SINGLE = 2e-7
"""PyMC computes with literals such as 5.0, and the density of DiscreteUniform, in single precision."""
INTEGER = {"change point", "zero inflation", "latent counts"}


def response_of(name: str) -> np.ndarray:
    return COUNTS if name in INTEGER else REAL


def density_of(name: str) -> Density:
    response = response_of(name)
    graph = graph_of(CASES[name][0], str(response.dtype))
    return build_density(graph, COVARIATES, response)


class Enumeration:
    """PyMC's log density of one model in every joint state of its discrete variables."""

    def __init__(self, build: Callable[[Any], None], response: np.ndarray, names: list[str]) -> None:
        with pm.Model() as self.model:
            build(response)
        free = {rv.name: rv for rv in self.model.free_RVs}
        labels = [rv for rv in self.model.free_RVs if rv.dtype.startswith("int")]
        values = self.model.rvs_to_values
        prior = self.model.logp(vars=self.model.free_RVs, jacobian=True)
        (rows,) = self.model.logp(vars=self.model.observed_RVs, sum=False)
        self.function = pytensor.function(
            [values[rv] for rv in [*(free[n] for n in names), *labels]],
            [prior, rows],
            mode="FAST_COMPILE",
            on_unused_input="ignore",
        )
        self.states = [self._support(rv) for rv in labels]

    @staticmethod
    def _support(rv: Any) -> list[np.ndarray]:
        shape = tuple(rv.shape.eval())
        each = range(ROWS + 1)
        if "bernoulli" in str(rv.owner.op).lower():
            each = range(2)
        elif "categorical" in str(rv.owner.op).lower():
            each = range(3)
        return [np.array(s).reshape(shape) for s in itertools.product(each, repeat=math.prod(shape))]

    def __call__(self, point: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Log prior `[states]` and log-likelihood of every row `[states, rows]`."""
        found = [self.function(*point, *state) for state in itertools.product(*self.states)]
        prior = np.array([p for p, _ in found])
        keep = np.isfinite(prior)
        return prior[keep], np.array([rows for _, rows in found])[keep]


def compare(name: str) -> None:
    density = density_of(name)
    build, coupled = CASES[name]
    assert density.coupled is coupled
    generator = torch.Generator().manual_seed(1)
    theta = torch.randn(3, density.dimension, generator=generator, dtype=torch.float64)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    torch.testing.assert_close(log_prior, density.log_prior(theta), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(log_likelihood, density.log_likelihood(theta), rtol=1e-12, atol=1e-12)
    given = torch.tensor([True, False, True, True, False, True])
    marginals = density.marginals(theta, given)
    all_rows = pointwise(density, theta, log_likelihood)
    # canonical graphs rename parameters: their order of columns is matched by shape and value
    reference = Enumeration(build, response_of(name), parameter_names(build, response_of(name), density))
    for s in range(len(theta)):
        point = [theta[s, p.start : p.stop].reshape(p.shape).numpy() for p in density.parameters]
        prior, rows = reference(point)
        np.testing.assert_allclose(log_prior[s], logsumexp(prior), rtol=SINGLE)
        total = logsumexp(prior + rows.sum(1))
        np.testing.assert_allclose(log_prior[s] + log_likelihood[s].sum(), total, rtol=SINGLE)
        for i in range(ROWS):
            without = logsumexp(prior + np.delete(rows, i, 1).sum(1))
            np.testing.assert_allclose(all_rows.others[s, i], without - logsumexp(prior), rtol=SINGLE)
            np.testing.assert_allclose(all_rows.own[s, i], total - without, rtol=SINGLE, atol=1e-7)
            flipped = given.numpy().copy()
            flipped[i] = ~flipped[i]
            some = logsumexp(prior + rows[:, flipped].sum(1)) - logsumexp(prior)
            np.testing.assert_allclose(marginals.changed[s, i], some, rtol=SINGLE)
        some = logsumexp(prior + rows[:, given.numpy()].sum(1)) - logsumexp(prior)
        np.testing.assert_allclose(marginals.given[s], some, rtol=SINGLE)


def parameter_names(build: Callable[[Any], None], response: np.ndarray, density: Density) -> list[str]:
    """The author's names of a density's parameters: a graph that is not canonical keeps them."""
    found = schema(str(response.dtype))
    with pm.Model() as model:
        build(sentinel(ROWS, str(response.dtype)))
    graph = parse_graph(json.dumps(extract_graph(model, found, COVARIATES)), found)
    plain = build_density(graph, COVARIATES, response)
    names = [p.name for p in plain.parameters]
    theta = torch.linspace(-1, 1, density.dimension, dtype=torch.float64)[None]
    for order in itertools.permutations(range(len(names))):
        shapes = [plain.parameters[i].shape for i in order]
        if shapes != [p.shape for p in density.parameters]:
            continue
        moved = torch.zeros_like(theta)
        for i, p in zip(order, density.parameters, strict=True):
            moved[:, plain.parameters[i].start : plain.parameters[i].stop] = theta[:, p.start : p.stop]
        first, second = evaluate(density, theta), evaluate(plain, moved)
        if torch.allclose(first.log_joint, second.log_joint) and torch.allclose(
            first.log_prior, second.log_prior
        ):
            return [names[i] for i in order]
    raise AssertionError("no order of parameters agrees")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "two labels" else []) for name in CASES],
)
def test_density_is_the_sum_over_all_states(name: str) -> None:
    compare(name)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_finite_and_right(name: str) -> None:
    density = density_of(name)
    generator = torch.Generator().manual_seed(2)
    theta = torch.randn(2, density.dimension, generator=generator, dtype=torch.float64, requires_grad=True)

    def joint(theta: torch.Tensor) -> torch.Tensor:
        log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
        return log_prior + log_likelihood.sum(-1)

    (gradient,) = torch.autograd.grad(joint(theta).sum(), theta)
    step = 1e-6
    for k in range(density.dimension):
        shift = torch.zeros_like(theta)
        shift[:, k] = step
        with torch.no_grad():
            numeric = (joint(theta + shift) - joint(theta - shift)) / (2 * step)
        torch.testing.assert_close(gradient[:, k], numeric, rtol=1e-5, atol=1e-6)


def test_tables_in_parts_give_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = torch.randn(7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    theta.requires_grad_(True)
    results = []
    for chunk in (sums.CHUNK, 100):
        monkeypatch.setattr(sums, "CHUNK", chunk)
        density = density_of("mixture")
        log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
        (gradient,) = torch.autograd.grad((log_prior + log_likelihood.sum(-1)).sum(), theta)
        results.append((log_likelihood.detach(), gradient))
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


def test_equals_pymc_mixture() -> None:
    def composite(y: Any) -> None:
        mu = pm.Normal("mu", [-1, 0, 2], 1, shape=3)
        pm.NormalMixture("y", w=[0.2, 0.5, 0.3], mu=mu, sigma=pm.HalfNormal("sigma", 1), observed=y)

    summed = density_of("mixture")
    mixed = build_density(graph_of(composite), COVARIATES, REAL)
    theta = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for first, second in zip(
        summed.log_prior_and_likelihood(theta), mixed.log_prior_and_likelihood(theta), strict=True
    ):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


def test_leave_one_out_of_a_model_whose_only_parameter_is_discrete() -> None:
    """Evidence and leave-one-out in closed form: each row given the posterior of the label without it."""

    def coin(y: Any) -> None:
        which = pm.Categorical("which", [0.6, 0.4])
        pm.Bernoulli("y", pt.as_tensor([0.2, 0.9])[which], observed=y)

    y = np.array([1, 1, 0, 1, 1, 1])
    score = score_graph(graph_of(coin, "int64"), COVARIATES, y)
    rows = np.stack([stats.bernoulli.logpmf(y, p) for p in (0.2, 0.9)])
    prior = np.log([0.6, 0.4])
    total = logsumexp(prior + rows.sum(1))
    others = [logsumexp(prior + np.delete(rows, i, 1).sum(1)) for i in range(ROWS)]
    assert score.evidence == pytest.approx(total, abs=1e-12)
    assert score.elpd == pytest.approx(np.sum(total - np.array(others)), abs=1e-10)


def test_leave_one_out_with_a_shared_label_and_a_continuous_parameter() -> None:
    """A shift that all rows share: conjugate in each state, so that everything has a closed form."""

    def shifted(y: Any) -> None:
        z = pm.Bernoulli("z", 0.3)
        pm.Normal("y", pm.Normal("m", 0, 1) + 2.0 * z, 1, observed=y)

    score = score_graph(graph_of(shifted), COVARIATES, REAL)
    cover = np.eye(ROWS) + 1.0

    def log_marginal(keep: np.ndarray) -> float:
        parts = [
            math.log(w)
            + stats.multivariate_normal.logpdf(REAL[keep], np.full(keep.sum(), m), cover[keep][:, keep])
            for w, m in ((0.7, 0.0), (0.3, 2.0))
        ]
        return float(logsumexp(parts))

    everything = np.ones(ROWS, dtype=bool)
    total = log_marginal(everything)
    elpd = sum(total - log_marginal(np.arange(ROWS) != i) for i in range(ROWS))
    assert score.evidence == pytest.approx(total, abs=0.05)
    assert score.elpd == pytest.approx(elpd, abs=0.05)
    shown = score_graph(graph_of(shifted), COVARIATES, REAL, shown_rows=2)
    assert shown.evidence == pytest.approx(total - log_marginal(np.arange(ROWS) < 2), abs=0.07)


def test_leading_rows_alone_sum_over_the_label_once() -> None:
    density = density_of("change point")
    theta = torch.zeros(1, density.dimension, dtype=torch.float64)
    given = torch.arange(ROWS) < 2
    subset = RowSubset(density, 2)
    evaluation = evaluate(subset, theta)
    wanted = density.marginals(theta, given).given
    torch.testing.assert_close(evaluation.log_likelihood.sum(-1), wanted)
    assert evaluation.log_likelihood.shape == (1, 2)


def test_replicates_follow_the_labels_posterior() -> None:
    """Given the data a shared label is known, its replicates follow; from the prior both states appear."""

    def far(y: Any) -> None:
        z = pm.Bernoulli("z", 0.5)
        pm.Normal("y", 100.0 * z + 0.01 * pm.Normal("m", 0, 1), 1, observed=y)

    density = build_density(graph_of(far), COVARIATES, REAL)
    theta = torch.zeros(200, 1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    assert density.sample_response(theta, generator).abs().max() < 10
    prior = density.sample_response(theta, generator, given_response=False)
    high = (prior > 50).double()
    assert 0.3 < high.mean() < 0.7
    assert torch.equal(high.min(1).values, high.max(1).values)


@pytest.mark.parametrize(
    "name", ["group labels over row labels", "a shared regime over row labels", "crossed labels"]
)
def test_drawn_labels_have_their_posterior_probabilities(name: str) -> None:
    density = density_of(name)
    labels = density._compiled.labels
    assert labels is not None
    theta = torch.full((1, density.dimension), 0.3, dtype=torch.float64)
    build, _ = CASES[name]
    response = response_of(name)
    reference = Enumeration(build, response, parameter_names(build, response, density))
    prior, rows = reference([theta[0, p.start : p.stop].reshape(p.shape).numpy() for p in density.parameters])
    weight = np.exp(prior + rows.sum(1) - logsumexp(prior + rows.sum(1)))
    wide = theta.expand(20_000, -1)
    drawn = labels.draw(density.node_values(wide), len(wide), True, torch.Generator().manual_seed(0))
    states = [np.array([s.ravel() for s in each]) for each in reference.states]
    grid = [np.concatenate(parts) for parts in itertools.product(*states)]
    wanted = np.sort(weight @ np.array(grid))
    found = np.sort(
        np.concatenate([x.reshape(len(wide), -1).double().mean(0).numpy() for x in drawn.values()])
    )
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_prior_draws_follow_the_labels() -> None:
    density = density_of("group labels with a continuous layer")
    draws = density.sample_prior(20_000, torch.Generator().manual_seed(0))
    mean, sd = draws.mean(0), draws.std(0)
    wanted = 0.4 * 1.5 - 0.6 * 0.5
    torch.testing.assert_close(mean, torch.full_like(mean, wanted), rtol=0, atol=0.03)
    spread = math.sqrt(0.7**2 + 0.4 * 0.6 * 4.0)
    torch.testing.assert_close(sd, torch.full_like(sd, spread), rtol=0, atol=0.03)


def random_end(y: Any) -> None:
    n = pt.cast(pm.Gamma("n", 2, 1), "int64")
    pm.Normal("y", pm.Binomial("k", n, 0.5), 1, observed=y)


def endless(y: Any) -> None:
    first = pm.DiscreteUniform("first", 0, 3)
    pm.Normal("y", pm.DiscreteUniform("k", pt.log(first), 3), 1, observed=y)


def chain(y: Any) -> None:
    states = [pm.Bernoulli("z0", 0.5)]
    for k in range(1, 16):
        states.append(pm.Bernoulli(f"z{k}", 0.3 + 0.4 * states[-1]))
    pm.Normal("y", pt.stack(states).sum() * X, 1, observed=y)


def vector(y: Any) -> None:
    pm.Normal("y", pm.Bernoulli("z", 0.5, shape=20).sum() * X, 1, observed=y)


def moving_bound(y: Any) -> None:
    top = pm.Uniform("top", 0, 1.0 + pm.Bernoulli("z", 0.5))
    pm.Normal("y", top, 1, observed=y)


FAILURES = {
    "a bound that depends on another": (
        random_end,
        "it has values up to n, which depends on another",
    ),
    "a bound that is no number": (endless, "it has values up to lower, which depends on another parameter"),
    "a chain of labels": (chain, "discrete latents that cannot be summed out: .* have 65536 joint states"),
    "a vector that couples rows": (vector, "cannot be summed out: it couples rows: 2^20 joint states"),
    "bounds of another parameter": (moving_bound, "cannot be summed out: it moves the bounds of"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_summed_out_says_why(name: str) -> None:
    build, message = FAILURES[name]
    with pytest.raises(ProgramFailure) as caught:
        build_density(graph_of(build), COVARIATES, REAL)
    assert caught.value.category is FailureCategory.UNSUPPORTED
    pattern = message.replace("(", r"\(").replace(")", r"\)").replace("^", r"\^")
    assert re.search(pattern, caught.value.message), caught.value.message
    assert "\n" not in caught.value.message
