"""Training takes a bounded number of trajectories per scored program, however slow scoring is."""

from __future__ import annotations

import math
import signal
import threading
import time

import pytest
from lightning.pytorch import Callback

from synthstats_lightning import ProgramScoring
from synthstats_lightning.callbacks.program_queue import ProgramQueue
from synthstats_lightning.callbacks.replay_ratio import ReplayRatio
from tests.callbacks.test_asynchrony import Watch, fit, slow  # noqa: F401 - a fixture
from tests.support.gate import Gate

pytestmark = pytest.mark.long


def test_by_default_scores_are_behind_the_schedule_by_what_may_be_on_its_way():
    ratio = ReplayRatio()
    ratio.scored = ratio.warmup = 96
    for batch in range(1, 7):
        ratio.train(64)
        # 24 programs a batch are due before the next one, 144 may be on their way
        assert ratio.ahead(24.0, 144) == (24 * (batch + 1) > 144)
    ratio.train(0)  # a rank without programs
    assert ratio.bound(24.0) == pytest.approx(64 / 24)
    ratio.scored += 24
    assert not ratio.ahead(24.0, 144)


def test_ahead_is_about_the_next_batch():
    ratio = ReplayRatio(4.0)
    ratio.train(8)
    ratio.scored = 3
    assert ratio.ahead(1.0, 100)
    ratio.scored = 4
    assert not ratio.ahead(1.0, 100), "16 trajectories of 4 programs"
    unbounded = ReplayRatio(math.inf)
    unbounded.train(8)
    assert not unbounded.ahead(1.0, 0)


def test_what_a_checkpoint_of_other_processes_left_is_shared():
    ratio = ReplayRatio()
    ratio.restore([(100, 10, 4), (60, 12, 2)])
    assert ratio.state() == (160, 22, 6)
    ratio.restore([ratio.state()])
    assert ratio.state() == (160, 22, 6)


def test_the_user_is_told_once():
    ratio = ReplayRatio(3.0)
    told = [ratio.waited(4.0, 1.0) for _ in range(6)]
    assert [message is not None for message in told] == [False, False, True, False, False, False]
    assert "at most 3 trajectories per scored program (max_replay_ratio)" in told[2]


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match="max_replay_ratio must be a positive number"):
        ProgramScoring(max_replay_ratio=wrong)


def ratios(watch):
    return [row["replay/ratio"] for row in watch.rows]


class Shut(Callback):
    def __init__(self, gate):
        self.gate = gate

    def on_train_start(self, trainer, pl_module):
        self.gate.shut = True


@pytest.mark.parametrize("bound", [2.0, math.inf])
def test_slow_scoring_slows_training_and_not_what_it_learns_from(tmp_path, monkeypatch, bound):
    gate = Gate()
    waits, watch = [], Watch(gate)
    wait_for_one = ProgramQueue.wait_for_one

    def wait(queue, seconds):
        waits.append(seconds)
        gate.let_go()
        return wait_for_one(queue, seconds)

    monkeypatch.setattr(ProgramQueue, "wait_for_one", wait)
    given = {"warmup_programs": 4, "programs_per_step": 8, "max_in_flight": 8, "drain_seconds": 0.0}
    with pytest.warns(UserWarning, match="programs still had no score 0 seconds"):
        trainer = fit(tmp_path, gate, 8, watch, Shut(gate), max_replay_ratio=bound, **given)
    scored = trainer.datamodule.buffer.added
    assert trainer.callbacks[0].replay.state() == (8 * 4, scored, 4)
    if math.isinf(bound):
        assert not waits
        assert ratios(watch)[-1] > 2
    else:
        # the last step waits for no next one
        assert scored >= 7 * 4 / 2 + 2
        assert waits
        assert max(ratios(watch)) <= 2.0


def test_where_no_program_is_on_its_way_a_round_is_sampled(tmp_path, slow):  # noqa: F811
    executor = slow(0.0)
    watch = Watch(executor)
    trainer = fit(tmp_path, executor, 6, watch, every_n_steps=100, warmup_programs=4, max_replay_ratio=1.0)
    assert max(ratios(watch)) <= 1.0
    assert trainer.datamodule.buffer.added >= 6 * 4


def test_the_schedule_itself_never_waits(tmp_path, slow):  # noqa: F811
    executor = slow(0.0)
    watch = Watch(executor)
    trainer = fit(tmp_path, executor, 4, watch, every_n_steps=2, synchronous=True)
    assert trainer.datamodule.buffer.added == 8 + 2 * 4
    assert ratios(watch)[-1] == pytest.approx(4 * 4 / 16)


def test_training_that_waits_can_be_interrupted(tmp_path, slow, monkeypatch):  # noqa: F811
    """Scores that never come hold training up, and not the user."""
    executor = slow(0.0)
    watch = Watch(executor, stuck_after=2)
    waits = threading.Event()
    wait_for_one = ProgramQueue.wait_for_one

    def wait(queue, seconds):
        if executor.stuck:
            waits.set()
        return wait_for_one(queue, seconds)

    def interrupt():
        waits.wait()
        time.sleep(0.5)  # until it waits, where that is soon enough: before, it is interrupted all the same
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgramQueue, "wait_for_one", wait)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(SystemExit):
        fit(tmp_path, executor, 500, watch, max_replay_ratio=2.0)
    assert len(watch.rows) < 50
