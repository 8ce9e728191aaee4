"""Gaussian processes from program to score: evidence and leave-one-out against quadrature."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph, score_target
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.sandbox.in_process import model_and_graph

ROWS = 14
X = np.linspace(0.0, 3.0, ROWS)
Y = np.sin(2.0 * X) + 0.3 * np.random.default_rng(4).normal(size=ROWS)
SCHEMA = DataSchema({"x": "float64"}, "y", "float64", ROWS)
PROGRAM = """
with pm.Model() as model:
    width = pm.LogNormal("width", 0.0, 0.5)
    noise = pm.LogNormal("noise", -1.0, 0.5)
    process = pm.gp.Marginal(
        mean_func=pm.gp.mean.Constant(0.2),
        cov_func=1.3**2 * pm.gp.cov.Matern52(1, ls=width) + pm.gp.cov.Linear(1, c=1.0) * 0.5,
    )
    process.marginal_likelihood("obs", X=x[:, None], y=y, sigma=noise)
"""


def covariance(width: float, noise: float) -> np.ndarray:
    scaled = np.sqrt(5.0) * np.abs(X[:, None] - X) / width
    smooth = 1.69 * (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    return smooth + 0.5 * np.outer(X - 1.0, X - 1.0) + noise**2 * np.eye(ROWS)


def test_evidence_and_leave_one_out_against_quadrature() -> None:
    _, document = model_and_graph(PROGRAM, SCHEMA, {"x": X})
    density = build_density(parse_graph(json.dumps(document), SCHEMA), {"x": X}, Y)
    score = score_target(density, seed=1, settings=EngineSettings(), deadline=Deadline(60.0))
    grid = np.linspace(-4.0, 4.0, 41)
    log_weights = stats.norm.logpdf(grid) + np.log(grid[1] - grid[0])
    joint, others = [], []
    for u, log_u in zip(grid, log_weights, strict=True):
        for v, log_v in zip(grid, log_weights, strict=True):
            inverse = np.linalg.inv(covariance(np.exp(0.5 * u), np.exp(-1.0 + 0.5 * v)))
            residual = Y - 0.2
            _, log_determinant = np.linalg.slogdet(inverse)
            total = 0.5 * (log_determinant - residual @ inverse @ residual - ROWS * np.log(2.0 * np.pi))
            # Rasmussen and Williams (2006), equations 5.10 to 5.12
            spread = np.diag(inverse)
            each = 0.5 * (np.log(spread / (2.0 * np.pi)) - (inverse @ residual) ** 2 / spread)
            joint.append(log_u + log_v + total)
            others.append(log_u + log_v + total - each)
    evidence = float(logsumexp(joint))
    elpd = float((evidence - logsumexp(others, axis=0)).sum())
    assert score.evidence == pytest.approx(evidence, abs=0.03)
    assert score.elpd == pytest.approx(elpd, abs=0.05)


LATENT = """
with pm.Model() as model:
    width = pm.LogNormal("width", 0.0, 0.5)
    noise = pm.LogNormal("noise", -1.0, 0.5)
    process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=width))
    f = process.prior("f", X=x[:, None], reparameterize=False)
    pm.Normal("obs", f, noise, observed=y)
"""


def test_a_smooth_latent_process_against_quadrature() -> None:
    """Its values hardly vary in most directions, which is no claim of mass that there is not."""
    _, document = model_and_graph(LATENT, SCHEMA, {"x": X})
    score = score_graph(parse_graph(json.dumps(document), SCHEMA), {"x": X}, Y)
    assert score.scored, score.message
    grid = np.linspace(-4.0, 4.0, 41)
    log_weights = stats.norm.logpdf(grid) + np.log(grid[1] - grid[0])
    joint = []
    for u, log_u in zip(grid, log_weights, strict=True):
        smooth = np.exp(-0.5 * (np.subtract.outer(X, X) / np.exp(0.5 * u)) ** 2) + 1e-6 * np.eye(ROWS)
        for v, log_v in zip(grid, log_weights, strict=True):
            marginal = smooth + np.exp(-1.0 + 0.5 * v) ** 2 * np.eye(ROWS)
            joint.append(log_u + log_v + stats.multivariate_normal(np.zeros(ROWS), marginal).logpdf(Y))
    assert score.evidence is not None
    assert score.evidence == pytest.approx(
        float(logsumexp(joint)), abs=max(0.03, 4 * (score.evidence_se or 0.0))
    )
