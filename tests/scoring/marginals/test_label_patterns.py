"""Change points summed out by patterns of rows: against closed forms, and against every state on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.labels import patterns
from synthstats_lightning.scoring.marginals.labels.patterns import PatternSums, patterns_of
from synthstats_lightning.scoring.marginals.labels.sums import LabelSums
from tests.scoring.marginals.test_labels import graph_of

ROWS = 40
YEAR = np.arange(ROWS)
RATES = np.where(YEAR < 12, 6.0, np.where(YEAR < 27, 1.5, 9.0))
COUNTS = np.random.default_rng(3).poisson(RATES)
REAL = np.round(np.log1p(COUNTS) + np.random.default_rng(4).normal(0, 0.3, ROWS), 2)
COLUMNS: dict[str, Any] = {"year": YEAR}


def one(y: Any) -> None:
    tau = pm.DiscreteUniform("tau", 0, ROWS - 1)
    early, late = pm.Exponential("early", 0.2), pm.Exponential("late", 0.2)
    pm.Poisson("y", pm.math.switch(tau > YEAR, early, late), observed=y)


def two(y: Any) -> None:
    first = pm.DiscreteUniform("first", 0, ROWS - 1)
    second = pm.DiscreteUniform("second", first, ROWS - 1)
    rate = pm.Exponential("rate", 0.2, shape=3)
    later = pm.math.switch(first > YEAR, rate[0], pm.math.switch(second > YEAR, rate[1], rate[2]))
    pm.Poisson("y", later, observed=y)


def picked(y: Any) -> None:
    tau = pm.Categorical("tau", pm.Dirichlet("p", np.ones(ROWS)))
    level, width = pm.Normal("level", 0, 2, shape=2), pm.HalfNormal("width", 1, shape=2)
    after = pt.cast(tau <= YEAR, "int64")
    mu = level[after] + 0.1 * pm.Normal("slope", 0, 1) * YEAR
    pm.StudentT("y", nu=4, mu=mu, sigma=width[after], observed=y)


def marginal(counts: NDArray[np.int64], rate: float = 0.2) -> float:
    """Log evidence of Poisson counts whose rate is exponential."""
    total, rows = counts.sum(), len(counts)
    terms = np.log(rate) + gammaln(total + 1) - (total + 1) * np.log(rate + rows)
    return float(terms - gammaln(counts + 1).sum())


def evidence_of_one(keep: NDArray[np.bool_]) -> float:
    parts = [
        marginal(COUNTS[keep & (tau > YEAR)]) + marginal(COUNTS[keep & (tau <= YEAR)]) for tau in range(ROWS)
    ]
    return float(logsumexp(parts)) - np.log(ROWS)


def evidence_of_two(keep: NDArray[np.bool_]) -> float:
    parts = []
    for first in range(ROWS):
        for second in range(first, ROWS):
            kind = np.where(first > YEAR, 0, np.where(second > YEAR, 1, 2))
            each = sum(marginal(COUNTS[keep & (kind == k)]) for k in range(3))
            parts.append(each - np.log(ROWS) - np.log(ROWS - first))
    return float(logsumexp(parts))


@pytest.mark.parametrize(("build", "evidence"), [(one, evidence_of_one), (two, evidence_of_two)])
def test_change_points_of_counts_have_their_conjugate_scores(
    build: Callable[[Any], None], evidence: Callable[[NDArray[np.bool_]], float]
) -> None:
    score = score_graph(graph_of(build, "int64", covariates=COLUMNS, rows=ROWS), COLUMNS, COUNTS)
    total = evidence(np.ones(ROWS, dtype=bool))
    elpd = sum(total - evidence(np.arange(ROWS) != i) for i in range(ROWS))
    assert score.evidence == pytest.approx(total, abs=4 * score.evidence_se + 0.01)
    assert score.elpd == pytest.approx(elpd, abs=0.1)


def both(
    build: Callable[[Any], None], response: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[Density, Density]:
    """The density by patterns and the one state by state."""
    graph = graph_of(build, str(response.dtype), covariates=COLUMNS, rows=ROWS)
    quick = build_density(graph, COLUMNS, response)
    assert isinstance(quick._compiled.labels, PatternSums)
    monkeypatch.setattr(patterns, "_patterns", lambda *_: None)
    monkeypatch.setattr(patterns, "check_size", lambda *_: None)
    slow = build_density(graph, COLUMNS, response)
    assert type(slow._compiled.labels) is LabelSums
    return quick, slow


def values_and_gradient(density: Density, theta: torch.Tensor) -> tuple[torch.Tensor, ...]:
    theta = theta.clone().requires_grad_(True)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    (gradient,) = torch.autograd.grad((log_prior + log_likelihood.sum(-1)).sum(), theta)
    return log_prior.detach(), log_likelihood.detach(), gradient


@pytest.mark.parametrize(
    ("build", "response"), [(one, COUNTS), (two, COUNTS), (picked, REAL)], ids=["one", "two", "picked"]
)
def test_patterns_agree_with_every_state_on_its_own(
    build: Callable[[Any], None], response: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow = both(build, response, monkeypatch)
    theta = torch.randn(5, quick.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for found, wanted in zip(
        values_and_gradient(quick, theta), values_and_gradient(slow, theta), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    given = torch.from_numpy(YEAR % 3 != 1)
    for found, wanted in zip(quick.marginals(theta, given), slow.marginals(theta, given), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    draws = [
        each._compiled.labels.draw(
            each.node_values(theta), len(theta), True, torch.Generator().manual_seed(0)
        )
        for each in (quick, slow)
        if each._compiled.labels is not None
    ]
    assert draws[0].keys() == draws[1].keys()
    for node, states in draws[0].items():
        assert torch.equal(states, draws[1][node])


def test_particles_in_parts_have_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = torch.randn(9, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    graph = graph_of(two, "int64", covariates=COLUMNS, rows=ROWS)
    whole = values_and_gradient(build_density(graph, COLUMNS, COUNTS), theta)
    monkeypatch.setattr(patterns, "AT_ONCE", 4_000)
    for found, wanted in zip(
        values_and_gradient(build_density(graph, COLUMNS, COUNTS), theta), whole, strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("far", [1e4, 1.7e3], ids=["hopeless", "just too far"])
def test_a_row_far_out_has_its_density_without_it(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of states underflow with such a row: those without it must not be made from them."""

    def jump(y: Any) -> None:
        tau = pm.DiscreteUniform("tau", 0, ROWS - 1)
        pm.Normal("y", pm.math.switch(tau > YEAR, pm.Normal("a", 0, 50), 40.0), 1.0, observed=y)

    response = np.where(YEAR < 20, 0.0, 40.0)
    response[3] = 40.0 + np.sqrt(far)
    quick, slow = both(jump, response, monkeypatch)
    theta = torch.zeros(1, 1, dtype=torch.float64)
    given = torch.ones(ROWS, dtype=torch.bool)
    for found, wanted in zip(quick.marginals(theta, given), slow.marginals(theta, given), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_impossible_rows_rule_their_states_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def window(y: Any) -> None:
        tau = pm.DiscreteUniform("tau", 0, ROWS - 1)
        shift = pm.Normal("shift", 0, 0.1)
        pm.Uniform("y", shift - 1.0, shift + pm.math.switch(tau > YEAR, 1.0, 9.0), observed=y)

    response = np.where(YEAR < 20, 0.5, 5.0)
    quick, slow = both(window, response, monkeypatch)
    theta = torch.tensor([[0.0], [0.3], [-2.0]], dtype=torch.float64)
    for found, wanted in zip(
        values_and_gradient(quick, theta), values_and_gradient(slow, theta), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    given = torch.ones(ROWS, dtype=torch.bool)
    for found, wanted in zip(quick.marginals(theta, given), slow.marginals(theta, given), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_patterns_are_what_a_row_reads_of_each_state() -> None:
    states, rows = np.meshgrid(np.arange(5), np.arange(4), indexing="ij")
    read = [
        states > rows,
        (states % 2 == 0) & (rows == 3),
        np.where(rows == 0, -0.0, 1.5) * np.ones(states.shape),
    ]
    found = patterns_of(read)
    for row in range(4):
        for state in range(5):
            example = int(found.example[found.shown[state, row], row])
            assert all(each[example, row] == each[state, row] for each in read)
        distinct = {tuple(each[state, row] for each in read) for state in range(5)}
        assert len(found.shown[:, row].unique()) == len(distinct)


def test_a_level_of_every_state_is_no_pattern() -> None:
    def ramp(y: Any) -> None:
        tau = pm.DiscreteUniform("tau", 0, ROWS - 1)
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * (YEAR - tau), 1.0, observed=y)

    density = build_density(graph_of(ramp, covariates=COLUMNS, rows=ROWS), COLUMNS, REAL)
    assert type(density._compiled.labels) is LabelSums


def test_states_are_too_many_only_where_each_has_its_own_densities() -> None:
    def slopes(y: Any) -> None:
        first = pm.DiscreteUniform("first", 0, ROWS - 1)
        second = pm.DiscreteUniform("second", first, ROWS - 1)
        slope = pm.Normal("slope", 0, 1, shape=2)
        pm.Normal("y", slope[0] * (YEAR - first) + slope[1] * (YEAR - second), 1.0, observed=y)

    with pytest.raises(ProgramFailure, match="have 1600 joint states, more than 1024") as caught:
        build_density(graph_of(slopes, covariates=COLUMNS, rows=ROWS), COLUMNS, REAL)
    assert caught.value.category is FailureCategory.UNSUPPORTED


def test_bounds_may_be_made_of_other_change_points() -> None:
    """Ends one year apart, by an expression: each pair's prior is that of its own support."""

    def apart(y: Any) -> None:
        first = pm.DiscreteUniform("first", 0, ROWS - 2)
        second = pm.DiscreteUniform("second", first + 1, ROWS - 1)
        level = pm.Normal("level", 0, 1)
        inside = (first <= YEAR) & (second > YEAR)
        pm.Normal("y", pm.math.switch(inside, level, 0.0), 1.0, observed=y)

    density = build_density(graph_of(apart, covariates=COLUMNS, rows=ROWS), COLUMNS, REAL)
    log_prior, log_likelihood = density.log_prior_and_likelihood(torch.full((1, 1), 0.7, dtype=torch.float64))
    parts = []
    for first in range(ROWS - 1):
        for second in range(first + 1, ROWS):
            inside = (first <= YEAR) & (second > YEAR)
            rows = -0.5 * (REAL - np.where(inside, 0.7, 0.0)) ** 2 - 0.5 * np.log(2 * np.pi)
            parts.append(rows.sum() - np.log(ROWS - 1) - np.log(ROWS - 1 - first))
    assert float(log_likelihood.sum()) == pytest.approx(float(logsumexp(parts)), abs=1e-9)
    assert float(log_prior) == pytest.approx(-0.5 * 0.49 - 0.5 * np.log(2 * np.pi), abs=1e-9)


def test_two_unordered_change_points_of_one_vector() -> None:
    """Which comes first is a matter of `minimum`: elements of one parameter in joint states."""

    def unordered(y: Any) -> None:
        tau = pm.DiscreteUniform("tau", 0, ROWS - 1, shape=2)
        rate = pm.Exponential("rate", 0.2, shape=3)
        kind = pt.cast(pt.minimum(tau[0], tau[1]) <= YEAR, "int64") + pt.cast(
            pt.maximum(tau[0], tau[1]) <= YEAR, "int64"
        )
        pm.Poisson("y", rate[kind], observed=y)

    density = build_density(graph_of(unordered, "int64", covariates=COLUMNS, rows=ROWS), COLUMNS, COUNTS)
    assert isinstance(density._compiled.labels, PatternSums)
    score = score_graph(graph_of(unordered, "int64", covariates=COLUMNS, rows=ROWS), COLUMNS, COUNTS)
    parts = []
    for first in range(ROWS):
        for second in range(ROWS):
            kind = (min(first, second) <= YEAR) * 1 + (max(first, second) <= YEAR)
            parts.append(sum(marginal(COUNTS[kind == k]) for k in range(3)) - 2 * np.log(ROWS))
    assert score.evidence == pytest.approx(float(logsumexp(parts)), abs=4 * score.evidence_se + 0.01)


def test_a_scalar_label_picks_beside_a_change_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position that all rows share has no row of its own to be read by."""

    def mixed(y: Any) -> None:
        tau, which = pm.DiscreteUniform("tau", 0, ROWS - 1), pm.Categorical("which", [0.2, 0.5, 0.3])
        level, step = pm.Normal("level", 0, 2, shape=3), pm.Normal("step", 0, 1)
        pm.Normal("y", level[which] + pm.math.switch(tau > YEAR, 0.0, step), 1.0, observed=y)

    graph = graph_of(mixed, covariates=COLUMNS, rows=ROWS)
    quick = build_density(graph, COLUMNS, REAL)
    monkeypatch.setattr(patterns, "_patterns", lambda *_: None)
    slow = build_density(graph, COLUMNS, REAL)
    theta = torch.randn(3, quick.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for found, wanted in zip(
        values_and_gradient(quick, theta), values_and_gradient(slow, theta), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_axes_of_a_distribution_are_no_rows() -> None:
    """As many components as rows: a component's label is not that of the row of the same number."""

    def components(y: Any) -> None:
        tau, scale = pm.DiscreteUniform("tau", 0, ROWS - 1), pm.Normal("scale", 0, 1)
        means = pm.math.switch(tau > YEAR, 0.0, scale)
        pm.NormalMixture("y", w=np.full(ROWS, 1 / ROWS), mu=means, sigma=1.0, observed=y)

    graph = graph_of(components, covariates=COLUMNS, rows=ROWS)
    density = build_density(graph, COLUMNS, REAL)
    _, found = density.log_prior_and_likelihood(torch.full((1, 1), 0.8, dtype=torch.float64))
    parts = []
    for tau in range(ROWS):
        share = (tau > YEAR).mean()
        each = np.logaddexp(np.log(share + 1e-300) - REAL**2 / 2, np.log1p(-share) - (REAL - 0.8) ** 2 / 2)
        parts.append(each.sum() - ROWS * np.log(2 * np.pi) / 2 - np.log(ROWS))
    assert float(found.sum()) == pytest.approx(float(logsumexp(parts)), abs=1e-8)


def test_a_change_point_that_nothing_reads_changes_nothing() -> None:
    def idle(y: Any) -> None:
        pm.DiscreteUniform("tau", 0, ROWS - 1)
        pm.Normal("y", pm.Normal("level", 0, 2), 1.0, observed=y)

    def without(y: Any) -> None:
        pm.Normal("y", pm.Normal("level", 0, 2), 1.0, observed=y)

    theta = torch.full((1, 1), 0.4, dtype=torch.float64)
    totals = []
    for build in (idle, without):
        density = build_density(graph_of(build, covariates=COLUMNS, rows=ROWS), COLUMNS, REAL)
        totals.append(density.log_prior_and_likelihood(theta)[1].sum())
    torch.testing.assert_close(totals[0], totals[1])
