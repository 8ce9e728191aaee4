"""Waves of unknown frequency, whose posterior has a peak for each number of periods in the data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density.target import evaluate_totals
from synthstats_lightning.scoring.estimators.ladder import climb
from synthstats_lightning.scoring.estimators.pilot import draw_pilot, find_modes
from synthstats_lightning.scoring.estimators.scan import (
    MOST_PEAKS,
    MOST_SCANNED,
    _separate,
    with_scanned,
)
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock
from synthstats_lightning.scoring.marginals.integration import integrate
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.sandbox.in_process import model_and_graph
from tests.scoring.targets import HandTarget, normal_log_prob, normal_prior, tensor

ROWS = 150
T = np.arange(float(ROWS))
RNG = np.random.default_rng(5)
Y = np.sin(0.57 * T) + 0.4 * np.cos(0.57 * T) + RNG.normal(size=ROWS)
WAVE = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 1)
    c = pm.Normal("c", 0, 1)
    k = pm.Gamma("k", 2, 50)
    pm.Normal("y", mu=a + b * pt.sin(k * t) + c * pt.cos(k * t), sigma=1, observed=y)
"""
SETTINGS = EngineSettings()


def wave() -> GaussianBlock:
    schema = DataSchema({"t": "float64"}, "y", "float64", ROWS)
    _, document = model_and_graph(WAVE, schema, {"t": T})
    found = integrate(build_density(parse_graph(json.dumps(document), schema), {"t": T}, Y))
    assert isinstance(found, GaussianBlock)
    return found


def log_evidence_by_grid() -> float:
    """The prior leaves a probability of 1e-11 to where nearly all of the posterior is."""
    grid = np.linspace(1e-5, 3.0, 60_001)
    design = np.stack([np.ones((len(grid), ROWS)), np.sin(grid[:, None] * T), np.cos(grid[:, None] * T)], 2)
    inner = np.eye(3) + design.swapaxes(1, 2) @ design
    moved = design.swapaxes(1, 2) @ Y
    quadratic = Y @ Y - (moved[:, None, :] @ np.linalg.solve(inner, moved[:, :, None]))[:, 0, 0]
    rows = -0.5 * (ROWS * np.log(2 * np.pi) + np.linalg.slogdet(inner)[1] + quadratic)
    return float(logsumexp(rows + stats.gamma.logpdf(grid, 2, scale=1 / 50)) + np.log(grid[1] - grid[0]))


@pytest.mark.parametrize("seed", range(3))
def test_a_wave_of_unknown_frequency_against_a_grid(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    particles = climb(wave(), SETTINGS, generator, Deadline(60.0)).particles
    assert particles.log_evidence == pytest.approx(log_evidence_by_grid(), abs=0.05)


def test_searches_from_the_prior_alone_miss_it() -> None:
    """Otherwise the test above shows nothing."""
    target, generator = wave(), torch.Generator().manual_seed(0)
    pilot = draw_pilot(target, SETTINGS, generator)
    alone = find_modes(target, pilot, SETTINGS, generator, Deadline(60.0))
    scanned = with_scanned(target, alone, pilot, SETTINGS, Deadline(60.0))
    assert float(scanned.value.max()) > float(alone.value.max()) + 5.0
    assert float(scanned.theta[scanned.value.argmax(), 0].exp()) == pytest.approx(0.57, abs=0.01)


@pytest.mark.parametrize("dimension", [2, MOST_SCANNED + 1])
def test_a_posterior_of_one_mode_keeps_its_search(dimension: int) -> None:
    y = tensor(np.linspace(-1.0, 1.0, 5))
    prior = normal_prior(0, 2)

    def rows(theta: torch.Tensor) -> torch.Tensor:
        return normal_log_prob(y, theta[:, :1] + 0.1 * theta[:, 1:].sum(1, keepdim=True), tensor(1.0))

    target = HandTarget([prior[0]] * dimension, [prior[1]] * dimension, rows, len(y))
    generator = torch.Generator().manual_seed(0)
    pilot = draw_pilot(target, SETTINGS, generator)
    optimum = find_modes(target, pilot, SETTINGS, generator, Deadline(60.0))
    scanned = with_scanned(target, optimum, pilot, SETTINGS, Deadline(60.0))
    assert torch.equal(scanned.theta, optimum.theta)
    value = evaluate_totals(target, optimum.theta).log_joint
    assert torch.allclose(value[optimum.converged], optimum.value[optimum.converged])


def test_ripples_are_one_peak_and_peaks_with_valleys_between_are_each() -> None:
    """Of the ripple the highest is searched from; and of more peaks than are searched from, the highest."""
    x = torch.linspace(-20.0, 20.0, 1025, dtype=torch.float64)
    middle = -0.5 * x.square()
    plateau = torch.where(x > 8.0, -12.0 + 0.3 * torch.cos(9.0 * x) - 0.02 * x, -30.0)
    (rippled,) = _separate(torch.maximum(middle, plateau)).tolist()
    on_ripple = torch.where(x > 8.0, plateau, -torch.inf)
    assert float(on_ripple.max() - on_ripple[rippled]) < 0.31
    waves = torch.where(x.abs() > 8.0, -12.0 + 3.0 * torch.cos(2.0 * np.pi * x / 3.0) - 0.02 * x, middle)
    found = x[_separate(waves)]
    assert len(found) == MOST_PEAKS
    wanted = torch.tensor([-18.0, -15.0, -12.0, -9.0, 9.0, 12.0, 15.0, 18.0], dtype=torch.float64)
    torch.testing.assert_close(found.sort().values, wanted, atol=0.1, rtol=0.0)
