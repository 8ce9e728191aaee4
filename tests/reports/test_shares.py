import numpy as np
import pytest

from synthstats_lightning.metrics import importance_log_z
from synthstats_lightning.objectives import RLOO, FlowRL, RelativeTrajectoryBalance
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.reports.shares import evaluation_metrics
from synthstats_lightning.scoring.score import Score


def record(structure, evidence, log_reward, log_prob, source="a"):
    score = Score(evidence=evidence, evidence_se=0.1, elpd=evidence + 5, elpd_se=1.0, structure=structure)
    return ProgramRecord("t", source, score, log_reward, log_prob, -3.0)


def failed(source="bad"):
    return ProgramRecord("t", source, Score.failed(FailureCategory.SYNTAX, "no"), -25.0, -2.0, -3.0)


def test_importance_log_z_equals_enumeration():
    """A three-program language: log Z is known exactly, whatever the proposal."""
    reward = np.array([1.0, 2.0, 5.0])
    policy = np.array([0.5, 0.3, 0.2])
    drawn = np.random.default_rng(0).choice(3, size=200_000, p=policy)
    estimate = importance_log_z(np.log(reward / policy)[drawn])
    assert estimate.value == pytest.approx(np.log(8.0), abs=4 * estimate.standard_error)
    assert 0 < estimate.standard_error < 0.01


def test_at_the_optimum_the_estimate_has_no_error():
    reward = np.array([1.0, 2.0, 5.0])
    estimate = importance_log_z(np.log(reward) + 1000 - np.log(reward / 8.0))
    assert estimate.value == pytest.approx(np.log(8.0) + 1000)
    assert estimate.standard_error == pytest.approx(0, abs=1e-9)
    assert estimate.effective_sample_size == pytest.approx(3)


def test_log_z_is_of_the_objectives_own_target():
    """Of π_ref R where the reward leaves the reference to the objective, and so is log Z."""
    rows = [record("x", 1.0, 0.0, np.log(0.5)), record("y", 2.0, 0.0, np.log(0.5))]
    rows[0].reference_log_prob, rows[1].reference_log_prob = np.log(0.75), np.log(0.25)
    for objective in (RelativeTrajectoryBalance(), FlowRL(), RLOO(kl_weight=1.0)):
        metrics = evaluation_metrics(rows, 0.0, objective)
        assert metrics["log_z_importance"] == pytest.approx(0.0)
        assert metrics["residual_std"] == pytest.approx(np.log(3) / 2)
    assert evaluation_metrics(rows, 0.0)["log_z_importance"] == pytest.approx(np.log(2))


def test_evaluation_metrics_count_over_their_stated_denominators():
    rows = [record("x", 1.0, 0.5, -1.0), record("x", 3.0, 2.5, -1.0, "b"), record("y", 8.0, 7.5, -2.0, "c")]
    rows.append(failed())
    metrics = evaluation_metrics(rows, log_z=4.0)
    assert metrics["valid_rate"] == 0.75
    assert metrics["evidence"] == pytest.approx(4.0)
    assert metrics["best_elpd"] == 13.0
    assert metrics["structures"] == 2
    assert metrics["top_structure_share"] == 0.5
    assert metrics["unique_rate"] == 1.0
    share = np.array([2 / 3, 1 / 3])
    assert metrics["effective_structures"] == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    # what failed is no part of the target
    residual = 4.0 + np.array([-1.0, -1.0, -2.0]) - np.array([0.5, 2.5, 7.5])
    assert metrics["residual_std"] == pytest.approx(residual.std())
    # linear between the order statistics -5.5, 0.5 and 2.5
    assert metrics["residual_q05"] == pytest.approx(-5.5 + 0.1 * 6.0)
    assert metrics["residual_q95"] == pytest.approx(2.5 - 0.1 * 2.0)
    assert metrics["log_z_gap"] == pytest.approx(4.0 - metrics["log_z_importance"])
    assert evaluation_metrics([failed()], 0.0)["valid_rate"] == 0.0


def test_records_count_repeats_and_survive_a_round_trip(tmp_path):
    records = ProgramRecords()
    records.add(record("x", 1.0, 0.5, -1.0))
    records.add(record("x", 1.0, 0.5, -4.0))
    records.add(failed("with pm.Model():\n  \u2028 'quote\""))
    assert len(records) == 2
    first = next(iter(records))
    assert (first.count, first.log_prob) == (2, -4.0)
    records.write(tmp_path / "deep" / "programs.jsonl")
    text = (tmp_path / "deep" / "programs.jsonl").read_text()
    assert len(text.splitlines()) == 2
    again = ProgramRecords.from_json_lines(text)
    assert [item.to_dict() for item in again] == [item.to_dict() for item in records]
