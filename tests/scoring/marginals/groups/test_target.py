"""A model without its latent, in all that estimators and predictions ask of a target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.groups import integrator
from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from synthstats_lightning.scoring.marginals.groups.modes import Modes
from synthstats_lightning.scoring.marginals.groups.quadrature import Quadrature
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.integration import completed
from synthstats_lightning.scoring.settings import EngineSettings
from tests.scoring.marginals.groups.models import (
    COVARIATES,
    REAL,
    ROWS,
    SUCCESSES,
    TRIALS,
    G,
    density_of,
    frogs,
    graph_of,
    integrated,
    log_integral,
    one_way,
    squares,
)

SQUARES = np.round(np.array([1.2, 0.8, 3.5, 0.1, 2.0, 0.5])[G] + 0.1 * np.cos(np.arange(ROWS)), 2)
QUICK = EngineSettings(importance_draws=1000, heldout_fraction=0.0)


def exact_squares(rows: Any) -> float:
    total = 0.0
    for g in range(6):
        y = SQUARES[rows & (g == G)][:, None]

        def log_density(a: Any, y: Any = y) -> Any:
            return stats.norm.logpdf(a, 0, 2) + stats.norm.logpdf(y, a * a, 0.3).sum(0)

        total += log_integral(log_density, -14, 14)
    return total


def test_every_sign_mode_counts_and_nothing_is_sampled():
    score = score_graph(graph_of(squares, SQUARES), COVARIATES, SQUARES)
    whole = exact_squares(np.ones(ROWS, dtype=bool))
    loo = [whole - exact_squares(np.arange(ROWS) != row) for row in range(ROWS)]
    assert score.evidence == pytest.approx(whole, abs=3e-4)
    assert score.evidence_se == score.integrated.check
    assert score.diagnostics["elpd"].mcse == score.integrated.check
    assert score.elpd == pytest.approx(sum(loo), abs=3e-4)
    assert score.num_parameters == 6
    assert (score.integrated.method, score.integrated.size) == ("quadrature", 6)
    assert 0 < score.integrated.check < 1e-3


def test_kinks_cost_accuracy_that_the_standard_error_covers():
    def model(y: Any) -> None:
        a = pm.Normal("a", 0, 1, shape=6)
        pm.Normal("y", pm.math.abs(a[G]), 0.7, observed=y)

    def log_density(a: Any, y: Any) -> Any:
        return stats.norm.logpdf(a) + stats.norm.logpdf(y[:, None], np.abs(a), 0.7).sum(0)

    score = score_graph(graph_of(model, REAL), COVARIATES, REAL, settings=QUICK)
    exact = sum(log_integral(lambda a, y=REAL[g == G]: log_density(a, y), -9, 9) for g in range(6))
    assert score.evidence_se < 0.1
    assert score.evidence == pytest.approx(exact, abs=4 * score.evidence_se)


def test_modes_beside_other_parameters():
    def model(y: Any) -> None:
        a = pm.Normal("a", 0, 2, shape=6)
        s = pm.Gamma("s", 3, 6)
        pm.Normal("y", a[G] ** 2, s, observed=y)

    def given(s: float) -> float:
        total = stats.gamma.logpdf(s, 3, scale=1 / 6)
        for g in range(6):
            y = SQUARES[g == G][:, None]

            def log_density(a: Any, y: Any = y) -> Any:
                return stats.norm.logpdf(a, 0, 2) + stats.norm.logpdf(y, a * a, s).sum(0)

            total += log_integral(log_density, -6, 6, points=3001)
        return total

    score = score_graph(graph_of(model, SQUARES), COVARIATES, SQUARES, settings=QUICK)
    grid = np.linspace(0.03, 0.7, 50)
    values = np.array([given(s) for s in grid])
    exact = values.max() + np.log(np.trapezoid(np.exp(values - values.max()), grid))
    assert score.integrated.method == "quadrature"
    assert score.evidence == pytest.approx(exact, abs=4 * score.evidence_se)


def test_held_out_and_shown_rows_of_a_model_without_other_parameters():
    graph = graph_of(squares, SQUARES)
    kept = np.arange(ROWS) < ROWS - 2
    score = score_graph(graph, COVARIATES, SQUARES, held_out=2, shown_rows=3)
    shown = exact_squares(np.arange(ROWS) < 3)
    assert score.evidence == pytest.approx(exact_squares(kept) - shown, abs=3e-4)
    rows = []
    for row in (ROWS - 2, ROWS - 1):
        with_row = kept.copy()
        with_row[row] = True
        rows.append(exact_squares(with_row) - exact_squares(kept))
    assert score.heldout_lpd == pytest.approx(sum(rows), abs=3e-4)
    chosen = score_graph(graph, COVARIATES, SQUARES)
    assert math.isfinite(chosen.heldout_lpd)


def one_mode_known(target: GroupIntegrated) -> GroupIntegrated:
    rule = target.quadrature
    first = Modes(*(part[:, :1] for part in rule.reference))
    return GroupIntegrated(target.density, target.others, Quadrature(rule.integrand, rule.groups, first))


def test_the_check_refuses_a_rule_that_misses_modes():
    target = integrated(squares, SQUARES)
    nothing = torch.zeros(1, 0, dtype=torch.float64)
    assert target.quadrature.reference.centre.shape[1] == 2
    assert target.checked_at(nothing) is not None
    assert one_mode_known(target).checked_at(nothing) is None


def test_a_rule_that_is_refused_leaves_the_whole_model_to_the_estimators(monkeypatch):
    monkeypatch.setattr(GroupIntegrated, "checked_at", lambda self, theta: None)
    score = score_graph(graph_of(frogs, SUCCESSES), COVARIATES, SUCCESSES, settings=QUICK)
    assert score.scored, score.message
    assert score.integrated is None
    assert score.num_parameters == 8


def test_gradients_are_those_of_the_integral():
    target = integrated(frogs, SUCCESSES)
    theta = torch.tensor([[0.4, -0.3], [-1.0, 0.8]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(target.marginal_likelihood(theta).sum(), theta)
    for axis in range(2):
        step = 1e-4 * torch.eye(2, dtype=torch.float64)[axis]
        with torch.no_grad():
            ahead, back = (target.marginal_likelihood(theta + sign * step) for sign in (1, -1))
        assert torch.allclose(gradient[:, axis], (ahead - back) / 2e-4, atol=1e-6)


def test_rows_are_the_same_alone_and_among_many_particles():
    target = integrated(frogs, SUCCESSES)
    theta = target.sample_prior(700, torch.Generator().manual_seed(1))
    many = target.marginals(theta)
    few = target.marginals(theta[:3])
    assert torch.allclose(many.given[:3], few.given, atol=1e-9)
    assert torch.allclose(many.changed[:3], few.changed, atol=1e-8)


@pytest.mark.parametrize("given", [np.ones(ROWS, dtype=bool), np.arange(ROWS) < 6])
def test_draws_of_the_latent_are_those_of_its_posterior(given):
    target = integrated(one_way, REAL)
    theta = torch.tensor([[0.3, -0.5]], dtype=torch.float64).expand(1500, 2)
    generator = torch.Generator().manual_seed(0)
    density, whole = completed(target, theta, generator, torch.from_numpy(given))
    natural = density.constrain(whole)
    outer = target.others.constrain(theta[:1])
    mu, tau = float(outer["mu"]), float(outer["tau"])
    assert torch.allclose(natural["mu"], torch.tensor(mu, dtype=torch.float64))
    for g in range(6):
        y = REAL[given & (g == G)]
        precision = 1 / tau**2 + len(y) / 0.7**2
        mean = (mu / tau**2 + y.sum() / 0.7**2) / precision
        assert stats.kstest(natural["a"][:, g].numpy(), stats.norm(mean, precision**-0.5).cdf).pvalue > 1e-3


def test_the_score_of_a_hierarchy_is_that_of_the_whole_model():
    graph = graph_of(frogs, SUCCESSES)
    score = score_graph(graph, COVARIATES, SUCCESSES, settings=QUICK)
    assert score.integrated.check < 0.01
    assert score.num_parameters == 8
    assert score.evidence == pytest.approx(exact_frogs(), abs=5 * score.evidence_se + 1e-3)


def exact_frogs() -> float:
    """Evidence by SciPy's binomial on a product grid: mean by scale by effect."""
    u = np.linspace(-12, 12, 601)
    rows = stats.binom.logpmf(SUCCESSES[:, None], TRIALS[:, None], 1 / (1 + np.exp(-u)))
    groups = np.stack([rows[g == G].sum(0) for g in range(6)])
    mus = np.linspace(-7, 7, 71)
    scales = np.exp(np.linspace(-7, 3, 81))
    total = np.zeros((len(mus), len(scales)))
    shift = groups.max(1)
    for j, tau in enumerate(scales):
        # the prior at its own resolution, where that is finer than the grid
        z = np.linspace(-8, 8, 161)
        at = mus[:, None] + tau * z
        weight = stats.norm.pdf(z) * (z[1] - z[0])
        for g in range(6):
            likelihood = np.exp(np.interp(at, u, groups[g]) - shift[g])
            total[:, j] += np.log((likelihood * weight).sum(1)) + shift[g]
    log_prior = stats.norm.logpdf(mus, 0, 1.5)[:, None] + stats.expon.logpdf(scales) + np.log(scales)
    cell = (mus[1] - mus[0]) * (np.log(scales[1]) - np.log(scales[0]))
    joint = total + log_prior
    highest = joint.max()
    return float(highest + math.log(np.exp(joint - highest).sum() * cell))


def test_many_rows_of_a_model_that_is_easy_as_a_whole_are_left_to_the_estimators(monkeypatch):
    monkeypatch.setattr(integrator, "MOST_ROWS", ROWS - 1)
    assert integrate_groups(density_of(frogs, SUCCESSES)) is None
    assert integrate_groups(density_of(squares, SQUARES)) is not None


def test_latents_that_pay_for_themselves_only():
    def few(y: Any) -> None:
        a = pm.Normal("a", 0, 1, shape=2)
        pm.Normal("y", a[(G > 2).astype(int)], 0.5, observed=y)

    assert integrate_groups(density_of(few, REAL)) is None
