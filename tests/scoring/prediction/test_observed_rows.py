"""Rows that a task holds out, against closed forms of the conjugate line of `test_engine`."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.prediction.posterior_draws import draw_posterior
from synthstats_lightning.scoring.settings import EngineSettings
from tests.scoring.test_engine import COVARIATES, ROWS, SIGMA, X, Y, line, log_marginal


def exact_predictions(observed: int) -> np.ndarray:
    """Log density of each later row given the first ones."""
    first = np.arange(observed)
    return np.array(
        [log_marginal(np.append(first, row)) - log_marginal(first) for row in range(observed, ROWS)]
    )


@pytest.mark.parametrize(("held_out", "shown"), [(4, 0), (4, 3), (1, 0), (ROWS - 1, 0)])
def test_scores_of_a_task_that_holds_rows_out(held_out, shown):
    observed = ROWS - held_out
    score = score_graph(line(), COVARIATES, Y, shown_rows=shown, held_out=held_out)
    assert score.scored, score.message
    rows = np.arange(observed)
    evidence = log_marginal(rows) - log_marginal(rows[:shown])
    assert score.evidence == pytest.approx(evidence, abs=0.04)
    loo = [log_marginal(rows) - log_marginal(np.delete(rows, row)) for row in rows[shown:]]
    assert score.elpd == pytest.approx(sum(loo), abs=0.1)
    assert len(score.diagnostics["elpd"].pointwise) == observed - shown
    predicted, exact = score.diagnostics["heldout_lpd"], exact_predictions(observed)
    assert 0 < predicted.mcse < 0.1
    np.testing.assert_allclose(predicted.pointwise, exact, atol=0.01 + 3 * predicted.mcse)
    assert score.heldout_lpd == pytest.approx(exact.sum(), abs=0.01 + 3 * predicted.mcse)


def test_the_prior_predicts_where_no_row_is_observed():
    score = score_graph(line(), COVARIATES, Y, held_out=ROWS)
    assert score.scored, score.message
    assert score.evidence == score.elpd == 0.0
    np.testing.assert_allclose(score.diagnostics["heldout_lpd"].pointwise, exact_predictions(0), atol=0.06)


def test_shown_rows_alone_leave_nothing_but_predictions():
    score = score_graph(line(), COVARIATES, Y, shown_rows=8, held_out=4)
    assert score.evidence == score.elpd == 0.0
    assert score.heldout_lpd == pytest.approx(exact_predictions(8).sum(), abs=0.1)


def test_held_out_responses_change_their_own_score_only():
    other = Y.copy()
    other[-4:] += 1.0
    settings = EngineSettings()
    first, second = (score_graph(line(), COVARIATES, y, held_out=4, settings=settings) for y in (Y, other))
    assert first.evidence == pytest.approx(second.evidence, abs=0.05)
    assert first.elpd == pytest.approx(second.elpd, abs=0.1)
    assert abs(first.heldout_lpd - second.heldout_lpd) > 0.5


def test_draws_do_not_know_held_out_responses():
    """The posterior of the line given the first eight rows, in closed form."""
    observed = 8
    design = np.column_stack([np.ones(ROWS), X])[:observed]
    precision = design.T @ design / SIGMA**2 + np.eye(2) / 4.0
    mean = np.linalg.solve(precision, design.T @ Y[:observed] / SIGMA**2)
    found = draw_posterior(line(), COVARIATES, Y, chains=1, draws=4000, seed=0, held_out=ROWS - observed)
    for name, value, variance in zip(("a", "b"), mean, np.diag(np.linalg.inv(precision)), strict=True):
        values = found.parameters[name][0]
        assert values.mean() == pytest.approx(value, abs=4 * np.sqrt(variance / 2000))
        assert values.std() == pytest.approx(np.sqrt(variance), rel=0.08)
    assert found.predictive.shape == found.log_likelihood.shape == (1, 4000, ROWS)
    assert found.predictive[0, :, -1].mean() == pytest.approx(mean[0] + mean[1] * X[-1], abs=0.08)


def test_the_split_is_part_of_what_a_score_depends_on():
    plain = data_fingerprint(COVARIATES, Y)
    assert data_fingerprint(COVARIATES, Y, held_out=0) == plain
    assert len({plain, *(data_fingerprint(COVARIATES, Y, held_out=n) for n in (1, 2))}) == 3
    for wrong in ({"held_out": ROWS + 1}, {"held_out": -1}, {"held_out": 4, "shown_rows": 9}):
        with pytest.raises(ValueError, match=r"held_out|shown_rows"):
            score_graph(line(), COVARIATES, Y, **wrong)
