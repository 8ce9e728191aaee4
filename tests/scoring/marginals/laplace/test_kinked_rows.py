"""Normal approximations of blocks under Laplace rows, whose second derivative is 0 wherever there is one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from tests.sandbox.in_process import model_and_graph

LINE = """
with pm.Model() as model:
    b = pm.Normal("b", 0, 1, shape=2)
    s = pm.HalfNormal("s", 1)
    mu = b[0] + b[1] * x
    pm.RESPONSE, observed=y)
"""
ROWS = 60
RNG = np.random.default_rng(3)
X = np.linspace(-2.0, 2.0, ROWS)
Y = 0.5 + 0.8 * X + RNG.laplace(0.0, 0.4, ROWS)
GRID = np.linspace(-1.5, 2.5, 801)
RESPONSES = {
    'Laplace("y", mu, s': lambda d, s: stats.laplace.logpdf(d, scale=s),
    # PyMC's by quantile: its kappa is sqrt(q / (1 - q))
    'AsymmetricLaplace("y", q=0.3, mu=mu, b=1 / s': lambda d, s: stats.laplace_asymmetric.logpdf(
        d, np.sqrt(0.3 / 0.7), scale=s
    ),
}


def density_of(response: str) -> Density:
    schema = DataSchema({"x": "float64"}, "y", "float64", ROWS)
    _, document = model_and_graph(LINE.replace("RESPONSE", response), schema, {"x": X})
    return build_density(parse_graph(json.dumps(document), schema), {"x": X}, Y)


def without_line(response: str) -> LaplaceIntegrated:
    density = density_of(response)
    predictor = find_predictor(density.distinct.compiled)
    assert predictor is not None
    return LaplaceIntegrated(density, predictor).started_at(torch.full((1, 1), -0.9, dtype=torch.float64))


def by_grid(response: str, scale: float) -> tuple[float, NDArray[np.float64]]:
    """Log density of all rows given the scale, and of each given all others."""
    a, b = np.meshgrid(GRID, GRID, indexing="ij")
    rows = np.stack([RESPONSES[response](y - a - b * x, scale) for x, y in zip(X, Y, strict=True)])
    joint = rows.sum(0) + stats.norm.logpdf(a) + stats.norm.logpdf(b)
    whole = float(logsumexp(joint)) + 2 * np.log(GRID[1] - GRID[0])
    posterior = joint - logsumexp(joint)
    return whole, np.array([-logsumexp(posterior - each) for each in rows])


@pytest.mark.parametrize("response", RESPONSES)
def test_a_block_under_kinked_rows_against_a_grid(response: str) -> None:
    target = without_line(response)
    assert target.likelihood.kinked
    scale = 0.4
    whole, own = by_grid(response, scale)
    theta = torch.full((1, 1), float(np.log(scale)), dtype=torch.float64)
    with torch.no_grad():
        weight = target.log_weights(theta, 4_096)
        effective = float(1.0 / weight.softmax(1).square().sum()) / 4_096
        found = target.marginals_by(theta, torch.ones(ROWS, dtype=torch.bool), 4_096, target.movers)
    assert effective > 0.2
    assert float(found.given) == pytest.approx(whole, abs=0.05)
    errors = (found.given[:, None] - found.changed)[0].numpy() - own
    assert np.abs(errors).max() < 0.05
    assert abs(errors.sum()) < 0.15


def test_a_posterior_over_the_scale_passes_its_check() -> None:
    target = without_line('Laplace("y", mu, s')
    generator = torch.Generator().manual_seed(0)
    theta = np.log(0.4) + 0.13 * torch.randn(60, 1, generator=generator, dtype=torch.float64)
    assert isinstance(target.checked_at(theta), LaplaceIntegrated)
