"""Training beside slow scoring: it waits for nothing, and with no worker free it replays."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.pool.executors import far_version
from synthstats_lightning.pool.program_worker import ProgramWorker
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task
from synthstats_lightning.testing.fakes import BASELINE, FakeExecutor

pytestmark = pytest.mark.long


class SlowExecutor(Executor):
    """Takes its time over every program, and stops answering when it is told to."""

    def __init__(self, seconds: float, workers: int = 64) -> None:
        self.seconds = seconds
        self.stuck = False
        self._end = threading.Event()
        self._threads = ThreadPoolExecutor(workers)
        self._answers = FakeExecutor()

    def submit(self, fn, /, settings, call, *arguments):
        answer = self._answers.submit(fn, settings, call, *arguments)
        if call is far_version or arguments[0] == BASELINE:
            return answer
        return self._threads.submit(self._answer, answer)

    def _answer(self, answer):
        self._end.wait(None if self.stuck else self.seconds)
        return answer.result()

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._end.set()
        self._threads.shutdown(wait=True, cancel_futures=cancel_futures)


@pytest.fixture
def slow():
    """Makes slow executors, which belong to who makes them: a run does not shut them down."""
    made = []

    def make(seconds):
        made.append(SlowExecutor(seconds))
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown()


class Watch(Callback):
    """What training logs, and how long its steps take."""

    def __init__(self, executor, stuck_after=None):
        self.executor, self.stuck_after = executor, stuck_after
        self.rows, self.times, self.in_flight, self.entries = [], [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.stuck_after:
            self.executor.stuck = True
        scoring = trainer.callbacks[0]
        self.times.append(time.perf_counter())
        self.in_flight.append(len(scoring.queue))
        self.entries.append(len(trainer.datamodule.buffer))
        self.rows.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def fit(folder, executor, steps, watch, *more, **scoring):
    given = {"programs_per_step": 4, "warmup_programs": 8, "executor": executor, **scoring}
    given.setdefault("max_replay_ratio", math.inf)
    trainer = Trainer(
        accelerator="cpu",
        max_steps=steps,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[ProgramScoring(**given), *more, watch],
        default_root_dir=folder,
    )
    module = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=80))
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=50))
    return trainer


def test_with_enough_workers_training_waits_for_nothing(tmp_path, slow):
    executor = slow(0.2)
    watch = Watch(executor)
    metrics = TrainingMetrics(every_n_steps=3, num_programs=4)
    trainer = fit(tmp_path, executor, 6, watch, metrics)
    waited = [row["perf/waiting_share"] for row in watch.rows]
    assert max(waited) <= 0.02
    latencies = [row["perf/score_latency"] for row in watch.rows if "perf/score_latency" in row]
    assert latencies
    assert min(latencies) >= 0.19  # clocks differ
    assert max(latencies) < 2.0, latencies
    assert watch.rows[-1]["perf/skipped_rounds"] == 0
    # no program is lost: those in flight at the end are waited for
    assert trainer.datamodule.buffer.added == 8 + 6 * 4
    assert any(name.startswith("fresh/") for name in watch.rows[-1])


def test_synchronous_training_waits_and_says_so(tmp_path, slow):
    executor = slow(0.2)
    watch = Watch(executor)
    fit(tmp_path, executor, 3, watch, synchronous=True)
    span = watch.times[-1] - watch.times[0]
    waited = sum(row["perf/waiting_share"] for row in watch.rows[1:]) / 2 * span
    # every round but those of failed and known programs alone takes a score's time
    assert 0.2 <= waited <= span


def test_without_a_free_worker_training_replays(tmp_path, slow):
    executor = slow(0.0)
    watch = Watch(executor, stuck_after=3)
    metrics = TrainingMetrics(every_n_steps=5, num_programs=4)
    started = time.perf_counter()
    with pytest.warns(UserWarning, match="programs still had no score 0.2 seconds after the last"):
        trainer = fit(tmp_path, executor, 9, watch, metrics, max_in_flight=6, max_age=4, drain_seconds=0.2)
    assert trainer.global_step == 9
    assert time.perf_counter() - started < 60
    assert max(row["perf/waiting_share"] for row in watch.rows) <= 0.02
    assert max(watch.in_flight) <= 6 + 4, "the bound and one round"
    assert watch.in_flight[-1] > 6
    assert watch.rows[-1]["perf/skipped_rounds"] >= 3
    assert watch.entries[-1] == watch.entries[-4] > 0, "what is replayed was there before"


@pytest.mark.slow
def test_stale_programs_make_room(tmp_path, slow):
    """Dropped after two steps, they leave the queue, and the workers, to fresh ones."""
    executor = slow(0.0)
    watch = Watch(executor, stuck_after=2)
    with pytest.warns(UserWarning, match="programs still had no score 0 seconds"):
        trainer = fit(
            tmp_path, executor, 9, watch, max_in_flight=6, max_age=2, stale="drop", drain_seconds=0.0
        )
    assert trainer.global_step == 9
    assert watch.rows[-1]["perf/stale_programs"] >= 6
    ages = [9 - row[5] for row in trainer.callbacks[0].queue.state()]
    assert max(ages) <= 3
    with_room = watch.rows[-1]["perf/skipped_rounds"]
    assert with_room < 5


def test_stale_programs_are_stored_and_not_recent(tmp_path, slow):
    executor = slow(0.0)
    watch = Watch(executor)
    trainer = fit(tmp_path, executor, 3, watch, every_n_steps=3, max_age=0)
    buffer, scoring = trainer.datamodule.buffer, trainer.callbacks[0]
    recent, entries = len(buffer.recent), len(buffer)
    module = trainer.lightning_module
    scoring.setup(trainer, module, "fit")
    try:
        outcome = scoring.scorer.resubmit(0, "made up by hand", [5, 6, 7], -1.0, -1.0, step=1)
        outcome.score.result()
        scoring.queue.add([outcome])
        scoring._harvest(trainer)
    finally:
        scoring.close()
    assert len(buffer) == entries + 1
    assert len(buffer.recent) == recent
    assert scoring.queue.stale_programs >= 1


LEVEL = "level", "another", "a third"


def test_workers_pass_over_what_nobody_waits_for(monkeypatch):
    task, free, scored = get_task("dugongs"), threading.Event(), []

    def score(worker, source, message):
        free.wait(30)
        scored.append(source)
        return Score(evidence=-1.0)

    monkeypatch.setattr(ProgramWorker, "score", score)
    scorer = ProgramScorer(1)
    try:
        first, second, third = (scorer.submit(source, task) for source in LEVEL)
        assert scorer.submit(LEVEL[1], task) is second
        assert not scorer.withdraw(LEVEL[1], task), "somebody else waits for it"
        assert scorer.withdraw(LEVEL[1], task)
        assert second.cancelled()
        assert not scorer.withdraw(LEVEL[1], task), "it is forgotten"
        again = scorer.submit(LEVEL[1], task)
        assert again is not second
        assert not scorer.withdraw(LEVEL[0], task), "a worker has begun"
        free.set()
        assert [future.result(30).evidence for future in (first, third, again)] == [-1.0] * 3
        assert scored == [LEVEL[0], LEVEL[2], LEVEL[1]]
        assert not scorer.withdraw(LEVEL[2], task), "it is done"
        assert not scorer._pending
    finally:
        free.set()
        scorer.close()
