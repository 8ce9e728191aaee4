"""What the objective sees of a program at present: tempered, and shared among the texts of one program."""

from __future__ import annotations

import math
from concurrent.futures import Future
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, Reward, Score, get_task
from synthstats_lightning.callbacks.course.reward_tempering import RewardTempering
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.learning.tempering import Temperature
from synthstats_lightning.objectives import GRPO
from synthstats_lightning.replay import ReplayBuffer, Trajectory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule

FINAL = Reward(beta=1.0, prior_weight=0.0)


class StubScorer:
    """Every program's evidence is 4 nats above the baseline."""

    def record(self, program, reward=FINAL):
        score = Score(evidence=4.0, canonical="aa")
        return ProgramRecord("t", program.source, score, reward.log_reward(score, 0.0), -1.0, -2.0)


@pytest.fixture
def buffer():
    made = ReplayBuffer(multiplicity="program")
    made.register_prompt(0, [1])
    for number in range(3):
        parts = (4.0, 0.0, -2.0, 0.0, 0.0)
        made.add(Trajectory(0, (number, 5), 4.0, -2.0, parts=parts, canonical="aa", structure="a"))
    return made


def test_records_follow_the_schedule_and_share_among_texts(buffer, monkeypatch):
    scoring = ProgramScoring(
        reward=FINAL, reward_schedule=RewardSchedule(beta=Ramp(0.5, 10)), buffer=buffer, tasks=[]
    )
    monkeypatch.setattr(ProgramScoring, "scorer", property(lambda self: StubScorer()))
    scoring.tempering.start([get_task("dugongs")], GFlowNetModule(), resumed=False)
    program = PendingProgram(0, "", (7, 5), -1.0, -2.0, Future())
    scoring.tempering.end()
    assert scoring.record(program).log_reward == 4.0
    scoring.tempering.start([get_task("dugongs")], GFlowNetModule(), resumed=False)
    buffer.update_rewards(scoring.tempering.blend)
    for step, beta in ((0, 0.5), (5, 0.75), (10, 1.0), (99, 1.0)):
        scoring.tempering.follow_schedule(step, buffer)
        assert scoring.record(program).log_reward == pytest.approx(4.0 * beta)
        assert [item.log_reward for item in buffer.trajectories] == pytest.approx([4.0 * beta] * 3)
    scoring._sharing = buffer
    assert scoring.record(program).log_reward == pytest.approx(4.0 - math.log(3))


@pytest.mark.parametrize(("step", "beta"), [(0, 0.5), (5, 0.75), (10, 1.0)])
def test_a_run_that_is_cut_short_says_which_target_its_log_z_is_of(buffer, step, beta):
    schedule = RewardSchedule(beta=Ramp(0.5, 10))
    scoring = ProgramScoring(reward=FINAL, reward_schedule=schedule, buffer=buffer, tasks=[])
    assert scoring.tempering.unfinished(0) == ""
    scoring.tempering.start([get_task("dugongs")], GFlowNetModule(), resumed=False)
    scoring.tempering.follow_schedule(step, buffer)
    told = scoring.tempering.unfinished(0)
    assert told == "" if beta == 1.0 else f"the score counted by {beta} of 1 " in told
    scoring.tempering.end()
    assert scoring.tempering.unfinished(0) == told


def test_what_an_untrained_policy_writes_counts_on_the_way_and_is_asked_for_there():
    module, tasks = GFlowNetModule(), [get_task("dugongs")]
    tempering = RewardTempering(Reward(), RewardSchedule())
    tempering.start(tasks, module, resumed=False)
    assert module.asks_first, "how far the score may count is not known before the warm-up"
    parts, reference = np.array([[3.0, 0.0, -2.0, 0.0, 1.5]]), np.array([-7.0])
    for beta, asks in ((0.25, True), (1.0, False)):
        tempering.temperatures = [Temperature(beta, 0.1)]
        assert tempering.on_the_way == asks
        expected = -7.0 + (1 - beta) * 1.5 + beta * 3.0
        assert tempering.blend(parts, reference, np.zeros(1, dtype=int)) == pytest.approx(expected)
    for schedule in (RewardSchedule(effective_share=0.0), RewardSchedule(beta=Ramp(0.5, 10))):
        other = RewardTempering(Reward(), schedule)
        other.start(tasks, module, resumed=False)
        assert module.asks_first == (schedule.beta is not None)
    on_policy = GFlowNetModule(objective=GRPO())
    tempering.start(tasks, on_policy, resumed=False)
    assert not on_policy.asks_first


@pytest.mark.parametrize(("multiplicity", "shared"), [("text", False), ("program", True)])
def test_whether_rewards_are_shared_is_the_buffers_to_say(multiplicity, shared):
    scoring = ProgramScoring(buffer=ReplayBuffer(multiplicity=multiplicity), tasks=[])
    scoring._scorer = SimpleNamespace()
    scoring.setup(mock.MagicMock(spec=Trainer), GFlowNetModule(), "fit")
    assert (scoring._sharing is not None) is shared


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"prefix_resampling_fraction must be from 0 to 1, got 1\.5"):
        ProgramScoring(prefix_resampling_fraction=1.5)
    with pytest.raises(ValueError, match="beta must be above 0, got -1"):
        ProgramScoring(reward_schedule=RewardSchedule(beta=Ramp(-1.0, 5)))
