"""Group quadrature against integrals in closed form and by brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import torch
from scipy import stats
from scipy.special import betaln, gammaln

from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.settings import EngineSettings
from tests.scoring.marginals.groups.models import (
    COUNTS,
    COVARIATES,
    EXPOSURE,
    REAL,
    ROWS,
    SUCCESSES,
    TRIALS,
    G,
    frogs,
    graph_of,
    integrated,
    log_integral,
    one_way,
)

QUICK = EngineSettings(importance_draws=1000, heldout_fraction=0.0)
SUBSETS = [
    np.ones(ROWS, dtype=bool),
    np.arange(ROWS) < 9,  # the last groups have no given row
    np.arange(ROWS) % 3 > 0,
    np.zeros(ROWS, dtype=bool),
]


def subsets(log_marginal: Any, given: Any) -> tuple[float, list[float]]:
    """The given rows together, and these with each row less or more."""
    changed = []
    for row in range(ROWS):
        other = given.copy()
        other[row] = not given[row]
        changed.append(log_marginal(other))
    return log_marginal(given), changed


def draws(target: Any) -> torch.Tensor:
    return target.sample_prior(4, torch.Generator().manual_seed(3))


def compare(target: Any, theta: torch.Tensor, log_marginal: Any, tolerance: float = 2e-5) -> None:
    """Every subset at every particle; `log_marginal(parameters, rows)` is the independent answer."""
    natural = target.others.constrain(theta)
    for given in SUBSETS:
        found = target.marginals(theta, torch.from_numpy(given))
        for particle in range(len(theta)):
            parameters = {name: float(value[particle]) for name, value in natural.items()}
            whole, changed = subsets(lambda rows, p=parameters: log_marginal(p, rows), given)
            np.testing.assert_allclose(float(found.given[particle]), whole, atol=tolerance, rtol=0)
            np.testing.assert_allclose(found.changed[particle].numpy(), changed, atol=tolerance, rtol=0)


def test_normal_means_are_a_multivariate_normal():
    def log_marginal(p: dict[str, float], rows: Any) -> float:
        if not rows.any():
            return 0.0
        same = G[rows][:, None] == G[rows][None]
        covariance = p["tau"] ** 2 * same + 0.7**2 * np.eye(rows.sum())
        return float(stats.multivariate_normal(np.full(rows.sum(), p["mu"]), covariance).logpdf(REAL[rows]))

    target = integrated(one_way, REAL)
    assert (target.dimension, target.coupled, target.density.dimension) == (2, True, 8)
    compare(target, draws(target), log_marginal)


def test_a_prior_narrower_than_floats_is_a_point():
    target = integrated(one_way, REAL)
    theta = torch.tensor([[1.3, log_tau] for log_tau in (-18.0, -24.0, -27.0, -40.0, -300.0, -690.0)])
    theta = theta.to(torch.float64)
    found = target.marginals(theta)
    rows = stats.norm.logpdf(REAL, 1.3, 0.7)
    np.testing.assert_allclose(found.given.numpy(), np.full(6, rows.sum()), atol=1e-3)
    expected = np.broadcast_to(rows.sum() - rows, (6, ROWS))
    np.testing.assert_allclose(found.changed.numpy(), expected, atol=1e-3)


def test_bounds_that_depend_on_another_parameter():
    def model(y: Any) -> None:
        width = pm.HalfNormal("width", 3)
        a = pm.Uniform("a", -1, width, shape=6)
        pm.Normal("y", a[G], 0.7, observed=y)

    def log_marginal(p: dict[str, float], rows: Any) -> float:
        low, high, total = -1.0, p["width"], 0.0
        for g in range(6):
            y = REAL[rows & (g == G)][:, None]
            total += log_integral(lambda a, y=y: stats.norm.logpdf(y, a, 0.7).sum(0), low, high)
        return total - 6 * math.log(high - low)

    target = integrated(model, REAL)
    assert target.dimension == 1
    compare(target, torch.tensor([[-1.0], [0.4], [1.5]], dtype=torch.float64), log_marginal)
    score = score_graph(graph_of(model, REAL), COVARIATES, REAL, settings=QUICK)
    assert (score.scored, score.integrated.method) == (True, "quadrature"), score.message


def test_gamma_rates_are_negative_binomials():
    def model(y: Any) -> None:
        alpha = pm.Exponential("alpha", 1)
        rate = pm.Gamma("rate", alpha, 1.3, shape=6)
        pm.Poisson("y", rate[G] * EXPOSURE, observed=y)

    def log_marginal(p: dict[str, float], rows: Any) -> float:
        total = 0.0
        for g in range(6):
            mine = rows & (g == G)
            y, t, a = COUNTS[mine], EXPOSURE[mine], p["alpha"]
            total += float((y * np.log(t) - gammaln(y + 1)).sum()) + a * math.log(1.3) - gammaln(a)
            total += gammaln(a + y.sum()) - (a + y.sum()) * math.log(1.3 + t.sum())
        return total

    target = integrated(model, COUNTS)
    compare(target, torch.tensor([[-1.0], [0.5], [1.5]], dtype=torch.float64), log_marginal)


def test_beta_probabilities_are_beta_binomials():
    def model(y: Any) -> None:
        a = pm.HalfNormal("a", 3)
        p = pm.Beta("p", a, 2.5, shape=6)
        pm.Binomial("y", n=TRIALS, p=p[G], observed=y)

    def log_marginal(p: dict[str, float], rows: Any) -> float:
        total = 0.0
        for g in range(6):
            mine = rows & (g == G)
            y, n, a = SUCCESSES[mine], TRIALS[mine], p["a"]
            choose = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
            total += float(choose.sum()) + betaln(a + y.sum(), 2.5 + (n - y).sum()) - betaln(a, 2.5)
        return total

    target = integrated(model, SUCCESSES)
    compare(target, draws(target), log_marginal)


def test_logistic_normal_against_brute_force():
    target = integrated(frogs, SUCCESSES)
    theta = torch.tensor([[0.4, -0.3], [-1.0, 0.8]], dtype=torch.float64)
    natural = target.others.constrain(theta)
    found = target.marginal_likelihood(theta)
    for particle in range(2):
        mu, tau = float(natural["mu"][particle]), float(natural["tau"][particle])
        total = 0.0
        for g in range(6):
            n, y = TRIALS[g == G][:, None], SUCCESSES[g == G][:, None]

            def log_joint(u: Any, n: Any = n, y: Any = y, mu: float = mu, tau: float = tau) -> Any:
                rows = stats.binom.logpmf(y, n, 1 / (1 + np.exp(-u)))
                return stats.norm.logpdf(u, mu, tau) + rows.sum(0)

            total += log_integral(log_joint, mu - 10 * tau, mu + 10 * tau)
        assert abs(float(found[particle]) - total) < 1e-6


def test_rounded_responses_have_interval_probabilities():
    def model(y: Any) -> None:
        mu = pm.Normal("mu", 0, 1)
        a = pm.StudentT("a", nu=4, mu=mu, sigma=0.8, shape=6)
        pm.Normal("y", a[G], 0.4, observed=y)

    response = np.round(2 * REAL) / 2
    target = integrated(model, response, rounding=0.5)
    total = 0.0
    for g in range(6):
        y = response[g == G][:, None]

        def log_joint(u: Any, y: Any = y) -> Any:
            mass = stats.norm.cdf(y + 0.25, u, 0.4) - stats.norm.cdf(y - 0.25, u, 0.4)
            return stats.t.logpdf(u, 4, 0.3, 0.8) + np.log(np.maximum(mass, 1e-300)).sum(0)

        total += log_integral(log_joint, -30.0, 30.0)
    found = target.marginal_likelihood(torch.tensor([[0.3]], dtype=torch.float64))
    # a density over the interval, as if it were flat within
    assert abs(float(found[0]) - (total - ROWS * math.log(0.5))) < 1e-5


def test_rates_whose_mass_underflows_are_gamma_poisson():
    def model(y: Any) -> None:
        rate = pm.Gamma("rate", 0.001, 0.001, shape=6)
        pm.Poisson("y", rate[G], observed=y)

    response = np.where(G % 2 == 0, 0, COUNTS)
    response[0] = 1

    def log_marginal(parameters: dict[str, float], rows: Any) -> float:
        total = -float(gammaln(response[rows] + 1).sum())
        for g in range(6):
            mine = rows & (g == G)
            shape, rate = 0.001 + response[mine].sum(), 0.001 + mine.sum()
            total += 0.001 * math.log(0.001) - gammaln(0.001) + gammaln(shape) - shape * math.log(rate)
        return total

    target = integrated(model, response)
    assert target.checked_at(torch.zeros(1, 0, dtype=torch.float64)) is not None
    given = SUBSETS[0]
    found = target.marginals(torch.zeros(1, 0, dtype=torch.float64))
    whole, changed = subsets(lambda rows: log_marginal({}, rows), given)
    np.testing.assert_allclose(float(found.given[0]), whole, atol=0.02)
    np.testing.assert_allclose(found.changed[0].numpy(), changed, atol=0.02)
