"""What a run warns of, when, and when it is over."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthstats_lightning.callbacks.course.run_health import (
    ENOUGH,
    PATIENCE,
    ROUNDS,
    RunHealth,
    TaskHealth,
    task_health,
)
from synthstats_lightning.learning.tempering import Weighed, WeighedProgram
from synthstats_lightning.metrics import LogZEstimate
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score

WELL = TaskHealth(100, 1.0, 10.0, LogZEstimate(5.0, 0.1, 80.0), 0.2, 1.0)


def observe(health, now, rounds=ROUNDS, progress=0.9):
    found = []
    for step in range(rounds):
        found += health.observe("a", step, progress, now)
    return [warning.kind for warning in found]


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        (TaskHealth(100, 0.0, math.nan), "nothing_scored"),
        (WELL.__class__(100, 1.0, 10.0, LogZEstimate(5.0, 0.5, 12.0), 0.2, 1.0), "few_effective_programs"),
        (WELL.__class__(100, 1.0, 10.0, WELL.estimate, -3.0, 1.0), "log_z_gap"),
        (WELL.__class__(100, 0.6, 10.0, WELL.estimate, 0.2, 1.0), "no_better"),
        (WELL.__class__(100, 1.0, 2.0, WELL.estimate, 0.2, 1.0), "no_better"),
    ],
)
def test_what_is_wrong_for_some_rounds_is_said_once_and_over_when_it_is(now, kind):
    health = RunHealth()
    assert observe(health, WELL) == []
    assert observe(health, now, ROUNDS - 1) == []
    assert observe(health, now, 2) == [kind]
    (warning,) = health.log.present
    assert warning.advice
    again = RunHealth()
    again.restore(health.state())
    assert observe(again, now, 2) == []
    assert observe(again, WELL, 1) == []
    assert again.log.present == ()


def test_a_residual_has_time_to_fall_after_the_target_has_moved():
    stuck = TaskHealth(100, 1.0, 10.0, WELL.estimate, 0.2, 9.0)
    moving = TaskHealth(100, 1.0, 10.0, WELL.estimate, 0.2, 9.0, moved=True)
    health = RunHealth()
    assert observe(health, moving, 3 * PATIENCE) == []
    assert observe(health, stuck, PATIENCE) == []
    assert observe(health, stuck, ROUNDS) == ["residual"]
    falling = RunHealth()
    for step in range(3 * PATIENCE):
        now = TaskHealth(100, 1.0, 10.0, WELL.estimate, 0.2, 9.0 * 0.98**step)
        assert falling.observe("a", step, 0.9, now) == []


def test_little_is_said_of_few_programs_or_early():
    health = RunHealth()
    assert observe(health, TaskHealth(ENOUGH - 1, 0.0, math.nan), 10) == []
    observe(health, WELL)
    assert observe(health, TaskHealth(100, 0.6, 2.0, WELL.estimate, 0.2, 1.0), 10, progress=0.3) == []


def test_the_fresh_programs_of_the_report_have_the_last_word():
    health = RunHealth()
    observe(health, TaskHealth(100, 1.0, 10.0, WELL.estimate, 5.0, 1.0))
    fresh = {"valid_rate": 1.0, "log_z_gap": 0.3, "log_z_importance": 5.0, "effective_sample_size": 11.0}
    assert [warning.kind for warning in health.conclude("a", 9, fresh)] == ["few_effective_programs"]
    assert [warning.kind for warning in health.log.present] == ["few_effective_programs"]
    nothing = {"valid_rate": 0.0, "effective_sample_size": 0.0}
    assert [warning.kind for warning in health.conclude("a", 9, nothing)] == ["nothing_scored"]


def test_what_fresh_programs_do_not_show_stays():
    """The median score that has fallen below that before training, of which their metrics say nothing."""
    fresh = {"valid_rate": 1.0, "log_z_gap": 0.1, "log_z_importance": 5.0, "effective_sample_size": 50.0}
    fallen, fewer = (
        TaskHealth(100, share, score, WELL.estimate, 0.2, 1.0) for share, score in ((1.0, 2.0), (0.6, 10.0))
    )
    for now, stays in ((fallen, ["no_better"]), (fewer, [])):
        health = RunHealth()
        observe(health, TaskHealth(100, 1.0, 10.0, WELL.estimate, 0.2, 1.0))
        assert observe(health, now, 2 * ROUNDS) == ["no_better"]
        assert health.conclude("a", 9, fresh) == []
        assert [warning.kind for warning in health.log.present] == stays


def test_a_share_is_the_policys_and_not_the_proposals():
    rows = [WeighedProgram((4.0, 0.0, 0.0, 0.0), -1.0, math.log(0.8), math.log(0.5))] * 5
    rows += [WeighedProgram((-math.inf, -0.2, 0.0, 0.0), -1.0, math.log(0.2), math.log(0.5))] * 5
    found = task_health(Weighed(rows), np.arange(10.0), None, None, False)
    assert found.scored_share == pytest.approx(0.8)
    assert found.score == 4.0
    assert found.residual == pytest.approx(np.arange(5.0).std())


def test_few_fresh_programs_add_warnings_and_take_none_back():
    health = RunHealth()
    observe(health, TaskHealth(100, 1.0, 10.0, WELL.estimate, 5.0, 1.0))
    few = {"valid_rate": 0.5, "log_z_gap": -0.3, "log_z_importance": 5.0, "effective_sample_size": 1.0}
    assert [warning.kind for warning in health.conclude("a", 9, few, keep=True)] == ["few_effective_programs"]
    assert {warning.kind for warning in health.log.present} == {"log_z_gap", "few_effective_programs"}
    missed = {"valid_rate": 0.0, "log_z_gap": -400.0, "log_z_found": 390.0, "effective_sample_size": 0.0}
    assert {warning.kind for warning in health.conclude("b", 9, missed, keep=True)} == {
        "log_z_gap",
        "few_effective_programs",
    }


def test_log_z_is_at_least_what_the_programs_of_a_run_come_to():
    """Few fresh programs may all have missed the best."""

    def record(source, log_reward):
        score = Score(None, "", evidence=log_reward)
        return ProgramRecord("a", source, score, log_reward, log_prob=-2.0, reference_log_prob=-2.0)

    report = TaskReport("a", [record("good", 390.0)], [record("poor", -30.0)], log_z=-8.0)
    health = RunHealth()
    health.conclude_report(9, [report])
    assert {warning.kind for warning in health.log.present} == {"log_z_gap", "few_effective_programs"}
    gap = next(warning for warning in health.log.present if warning.kind == "log_z_gap")
    assert gap.value == pytest.approx(-398.0)
