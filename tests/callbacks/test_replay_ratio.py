"""Training takes a bounded number of trajectories per scored program, however slow scoring is."""

from __future__ import annotations

import math
import signal
import threading
import time

import pytest

from synthstats_lightning import ProgramScoring
from synthstats_lightning.callbacks.replay_ratio import SLACK, ReplayRatio
from tests.callbacks.test_asynchrony import SlowExecutor, Watch, fit, slow  # noqa: F401 - a fixture


def test_the_default_bound_is_that_of_the_schedule_and_a_quarter():
    ratio = ReplayRatio()
    ratio.train(64)
    assert ratio.bound(24.0) == pytest.approx(1.25 * 64 / 24)
    ratio.train(0)  # a rank without programs
    assert ratio.bound(24.0) == pytest.approx(1.25 * 64 / 24)
    assert SLACK > 1, "at 1 training would wait for the programs of its own round"


def test_ahead_is_about_the_next_batch():
    ratio = ReplayRatio(4.0)
    ratio.train(8)
    ratio.scored = 3
    assert ratio.ahead(1.0)
    ratio.scored = 4
    assert not ratio.ahead(1.0), "16 trajectories of 4 programs"
    unbounded = ReplayRatio(math.inf)
    unbounded.train(8)
    assert not unbounded.ahead(1.0)


def test_what_a_checkpoint_of_other_processes_left_is_shared():
    ratio = ReplayRatio()
    ratio.restore([(100, 10), (60, 12)])
    assert ratio.state() == (160, 22)
    ratio.restore([ratio.state()])
    assert ratio.state() == (160, 22)


def test_the_user_is_told_once():
    ratio = ReplayRatio(3.0)
    told = [ratio.waited(4.0, 1.0) for _ in range(6)]
    assert [message is not None for message in told] == [False, False, True, False, False, False]
    assert "at most 3 trajectories per scored program (max_replay_ratio)" in told[2]


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan])
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match="max_replay_ratio must be a positive number"):
        ProgramScoring(max_replay_ratio=wrong)


def ratios(watch):
    return [row["replay/ratio"] for row in watch.rows]


def test_slow_scoring_slows_training_and_not_what_it_learns_from(tmp_path, slow):  # noqa: F811
    """One worker, a quarter of a second a program: training alone would be over before ten were scored."""
    executor = SlowExecutor(0.25, workers=1)
    watch = Watch(executor)
    given = {"warmup_programs": 4, "programs_per_step": 8, "max_in_flight": 8, "drain_seconds": 0.0}
    try:
        with pytest.warns(UserWarning, match="programs still had no score 0 seconds"):
            trainer = fit(tmp_path, executor, 8, watch, max_replay_ratio=2.0, **given)
    finally:
        executor.shutdown()
    assert max(ratios(watch)) <= 2.0
    scoring = trainer.callbacks[0]
    assert scoring.replay.state() == (8 * 4, trainer.datamodule.buffer.added)
    assert trainer.datamodule.buffer.added >= 16
    waited = [row["perf/waiting_share"] for row in watch.rows]
    assert max(waited) > 0.3, "and it says so"


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


def test_training_that_waits_can_be_interrupted(tmp_path, slow):  # noqa: F811
    """Scores that never come hold training up, and not the user."""
    executor = slow(0.0)
    watch = Watch(executor, stuck_after=2)
    thread = threading.Timer(6.0, lambda: signal.raise_signal(signal.SIGINT))
    thread.start()
    started = time.perf_counter()
    with pytest.raises(SystemExit):
        fit(tmp_path, executor, 500, watch, max_replay_ratio=2.0)
    assert len(watch.rows) < 50
    assert time.perf_counter() - started < 60
