"""Effects of single rows under a scale so wide that draws' counts overflow what is summed with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.marginals.laplace.check import LARGEST_CORRECTION
from synthstats_lightning.scoring.marginals.laplace.integrator import integrate_laplace
from synthstats_lightning.scoring.marginals.laplace.leave_out import log_mean
from synthstats_lightning.scoring.marginals.laplace.movers import all_with, own_alone
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.test_density import Builder

pytestmark = pytest.mark.long

COUNTS = np.array([0.0, 38.0, 5.0, 120.0, 0.0, 12.0, 700.0, 3.0])
ROWS = len(COUNTS)
PREDICTOR = np.arange(-150.0, 150.0, 0.01)
LEVEL = np.linspace(-12.0, 12.0, 241)


def target() -> LaplaceIntegrated:
    """Counts of a common level, each with an effect of its own."""
    b = Builder()
    level = b.random("Normal", "level", 0.0, 2.0)
    scale = b.random("HalfCauchy", "scale", 1.0)
    effect = b.random("Normal", "effect", 0.0, scale, shape=(ROWS,))
    b.random("Poisson", "y", b.op("exp", b.op("add", level, effect)), shape=(ROWS,))
    density = b.density({}, COUNTS)
    predictor = find_predictor(density.distinct.compiled)
    assert predictor is not None
    return LaplaceIntegrated(density, predictor)


def by_quadrature(scale: float) -> np.ndarray:
    """Log density of each count given the others, by rules over its predictor and over the level."""
    poisson = (
        COUNTS[:, None] * PREDICTOR - np.exp(np.minimum(PREDICTOR, 700.0)) - gammaln(COUNTS + 1)[:, None]
    )
    rows = np.stack(
        [logsumexp(poisson + norm.logpdf(PREDICTOR, level, scale), axis=1) for level in LEVEL], 1
    ) + np.log(PREDICTOR[1] - PREDICTOR[0])
    level = norm.logpdf(LEVEL, 0.0, 2.0)
    whole = logsumexp(level + rows.sum(0))
    return np.array([whole - logsumexp(level + rows.sum(0) - row) for row in rows])


@pytest.mark.parametrize("followed", ["all", "own"])
def test_each_count_given_the_others(followed: str) -> None:
    integrated = target()
    groups = integrated.likelihood.groups
    every = torch.ones(ROWS, dtype=torch.bool)
    movers = all_with(every, groups) if followed == "all" else own_alone(groups)
    for log_scale in (0.0, 2.0, 3.0):
        theta = torch.full((200, 1), log_scale, dtype=torch.float64)
        theta = theta + 1e-9 * torch.arange(200)[:, None]  # each with draws of its own
        found = integrated.marginals_by(theta, every, 64, movers)
        own = (found.given[:, None] - found.changed).numpy()
        exact = by_quadrature(float(np.exp(log_scale)))
        # draws err by some nats for a count of 0, whose rate may be anything below
        assert np.abs(own - exact).max() < 30.0
        np.testing.assert_allclose(np.median(own, 0), exact, atol=0.5)


def test_a_large_correction_is_taken_where_weights_are_even() -> None:
    """Many small counts, each with an effect: what the approximation lacks adds up over them."""
    rate = np.random.default_rng(4).lognormal(1.2, 0.6, 150)
    counts = np.random.default_rng(3).poisson(rate).astype(float)
    b = Builder()
    level = b.random("Normal", "level", 0.0, 2.0)
    scale = b.random("HalfCauchy", "scale", 1.0)
    effect = b.random("Normal", "effect", 0.0, scale, shape=(150,))
    b.random("Poisson", "y", b.op("exp", b.op("add", level, effect)), shape=(150,))
    density = b.density({}, counts)
    integrated = integrate_laplace(density)
    assert integrated is not None
    near = torch.full((1, 1), -0.5, dtype=torch.float64)
    assert float(log_mean(integrated.log_weights(near, 512), 1)) > LARGEST_CORRECTION
    settings = EngineSettings(last_score="evidence")
    score = score_target(integrated, 5, settings=settings, deadline=Deadline(20.0))
    assert score.scored
    assert abs(score.evidence - evidence_by_quadrature(counts)) < 4 * score.evidence_se


def evidence_by_quadrature(counts: np.ndarray) -> float:
    """Log evidence by rules over each effect, the common level and the scale."""
    kinds, times = np.unique(counts, return_counts=True)
    predictor, log_scale = np.arange(-25.0, 15.0, 0.02), np.linspace(-4.0, 2.5, 131)
    level = np.linspace(-3.0, 3.0, 121)
    poisson = kinds[:, None] * predictor - np.exp(predictor) - gammaln(kinds + 1)[:, None]
    found = []
    for each in log_scale:
        scale = np.exp(each)
        if scale < 0.1:  # too narrow for a rule over the predictor: one over the effect
            nodes, weights = np.polynomial.hermite_e.hermegauss(30)
            at = level[:, None] + scale * nodes
            rows = kinds[:, None, None] * at - np.exp(at) - gammaln(kinds + 1)[:, None, None]
            rows = logsumexp(rows + np.log(weights / weights.sum()), axis=2)
        else:
            prior = norm.logpdf(predictor, level[:, None], scale)
            rows = np.stack([logsumexp(row + prior, axis=1) for row in poisson]) + np.log(0.02)
        cauchy = np.log(2.0 / np.pi) - np.log1p(scale**2) + each
        found.append(logsumexp(times @ rows + norm.logpdf(level, 0.0, 2.0)) + cauchy)
    return float(logsumexp(found) + np.log(level[1] - level[0]) + np.log(log_scale[1] - log_scale[0]))
