"""Per-observation values and Monte-Carlo errors of every score, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.engine import score_graph, score_target
from synthstats_lightning.scoring.estimators.ratio import bridge_ratio
from synthstats_lightning.scoring.prediction.heldout import held_out_rows
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets
from tests.scoring.test_engine import COVARIATES, ROWS, Y, exact_loo, line, log_marginal


def exact_heldout(rows: np.ndarray) -> np.ndarray:
    train = np.setdiff1d(np.arange(ROWS), rows)
    return np.array([log_marginal(np.append(train, row)) - log_marginal(train) for row in rows])


@pytest.mark.parametrize("shown", [0, 3])
def test_every_score_has_its_observations(shown):
    # with the default of 4,000 draws one row's standard deviation over seeds is 0.03
    settings = EngineSettings(importance_draws=32_000)
    score = score_graph(line(), COVARIATES, Y, shown_rows=shown, settings=settings)
    assert set(score.diagnostics) == {"evidence", "elpd", "heldout_lpd"}
    steps = [log_marginal(np.arange(row + 1)) for row in range(ROWS)]
    chain = np.diff([0.0, *steps])[shown:]
    np.testing.assert_allclose(score.diagnostics["evidence"].pointwise, chain, atol=0.1)
    np.testing.assert_allclose(score.diagnostics["elpd"].pointwise, exact_loo()[shown:], atol=0.05)
    rows = held_out_rows(ROWS, shown, 0.2, 0).numpy()
    assert rows.min() >= shown
    np.testing.assert_allclose(score.diagnostics["heldout_lpd"].pointwise, exact_heldout(rows), atol=0.06)
    assert score.heldout_lpd == pytest.approx(exact_heldout(rows).sum(), abs=0.1)
    assert score.elpd == pytest.approx(sum(score.diagnostics["elpd"].pointwise))
    for diagnostics in score.diagnostics.values():
        assert 0 < diagnostics.mcse < 0.1
        assert diagnostics.effective_sample_size > 100
        assert diagnostics.pareto_k is not None
        assert diagnostics.pareto_k < 0.7
        assert diagnostics.seconds > 0
    assert score.diagnostics["elpd"].estimator == "psis+importance"
    assert Score.from_dict(score.to_dict()) == score


def test_no_rows_are_held_out_where_none_are_asked_for():
    score = score_graph(line(), COVARIATES, Y, settings=EngineSettings(heldout_fraction=0.0))
    assert score.heldout_lpd is None
    assert "heldout_lpd" not in score.diagnostics


def test_the_split_is_the_same_for_every_program_and_moves_with_its_seed():
    first = held_out_rows(40, 0, 0.25, 0)
    assert first.tolist() == held_out_rows(40, 0, 0.25, 0).tolist()
    assert len(first) == 10
    assert first.tolist() == sorted(set(first.tolist()))
    assert first.tolist() != held_out_rows(40, 0, 0.25, 1).tolist()
    assert len(held_out_rows(3, 2, 0.2, 0)) == 1


def test_a_bridge_of_two_normals_equals_the_ratio_of_their_constants():
    """With the row y ~ N(theta, s): prior theta ~ N(0, 1), so that p(y) is N(0, 1 + s^2)."""
    generator = torch.Generator().manual_seed(0)
    s, y = 0.05, 1.3
    shrunk = 1 / (1 + s**2)
    inside = shrunk * y + math.sqrt(1 - shrunk) * torch.randn(2000, generator=generator, dtype=torch.float64)
    outside = torch.randn(2000, generator=generator, dtype=torch.float64)

    def log_density(theta: torch.Tensor) -> torch.Tensor:
        return -0.5 * math.log(2 * math.pi) - math.log(s) - 0.5 * ((y - theta) / s) ** 2

    zeros = torch.zeros(2000, dtype=torch.float64)
    ratio = bridge_ratio(zeros, log_density(inside), zeros, log_density(outside))
    exact = -0.5 * math.log(2 * math.pi * (1 + s**2)) - 0.5 * y**2 / (1 + s**2)
    error = math.sqrt(ratio.variance + float(ratio.influence.square().sum()))
    assert error < 0.12
    assert abs(ratio.log_ratio - exact) < 3 * error


@pytest.mark.slow
def test_reported_errors_of_elpd_are_those_over_seeds():
    """Eight schools, where rows are refitted: the spread over seeds is about what is reported."""
    target, _ = targets.eight_schools()
    settings = EngineSettings(heldout_fraction=0.0)
    scores = [score_target(target, seed, settings=settings, deadline=Deadline(60.0)) for seed in range(8)]
    spread = float(np.std([score.elpd for score in scores], ddof=1))
    reported = float(np.median([score.diagnostics["elpd"].mcse for score in scores]))
    assert 0.3 < spread / reported < 2.5
