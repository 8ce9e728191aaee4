from __future__ import annotations

import math
from concurrent.futures import Future
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.callbacks import ProgramScoring, TrainingMetrics
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.replay.trajectory import empty_batch
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.score import Score


class StubScorer:
    """Two tasks whose programs wait for the test to score them; the record is the log reward itself."""

    def __init__(self):
        self.withdrawn = []
        self.tasks = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
        self.calls = []
        self.futures = []

    def sample(self, trainer, module, num_samples, settings, stream):
        self.calls.append((num_samples, settings, stream))
        self.futures = [Future() for _ in range(2 * num_samples)]
        return [
            PendingProgram(number % 2, "", (), -1.0 - number // 2, 0.0, future)
            for number, future in enumerate(self.futures)
        ]

    def withdraw(self, program):
        self.withdrawn.append(program.score)

    def record(self, program, reward=None):
        return ProgramRecord("", "", Score(), program.score.result(), program.log_prob, 0.0)


def take_no_tokens(callback, *_):
    callback.tokens.update(torch.zeros(1))
    callback.stop_drift.update(torch.zeros(1))
    callback.prefixes.update(torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, 1) > 0, torch.tensor([0, 0]))


@pytest.fixture
def stage(monkeypatch):
    module = GFlowNetModule(tasks=["a", "b"], seed=0, sampling=SamplingSettings(temperature=2.0))
    with torch.no_grad():
        module.log_z.value.copy_(torch.tensor([5.0, -3.0]))
    logged = {}
    monkeypatch.setattr(module, "log", lambda name, value, **_: logged.update({name: value}))
    scoring = ProgramScoring()
    scorer = StubScorer()
    monkeypatch.setattr(ProgramScoring, "scorer", property(lambda self: scorer))
    trainer = mock.MagicMock(spec=Trainer)
    trainer.callbacks, trainer.global_step = [scoring], 0
    trainer.world_size, trainer.log_every_n_steps = 1, 1000
    # there is no policy whose tokens could be looked at
    monkeypatch.setattr(TrainingMetrics, "_take_tokens", take_no_tokens)
    return SimpleNamespace(module=module, logged=logged, scoring=scoring, scorer=scorer, trainer=trainer)


def step(stage, callback, number):
    stage.trainer.global_step = number
    callback.on_train_batch_end(stage.trainer, stage.module, None, empty_batch(), 0)


def test_logs_log_z_when_the_last_score_is_there(stage):
    callback = TrainingMetrics(every_n_steps=10, num_programs=2)
    step(stage, callback, 9)
    assert not stage.scorer.calls
    step(stage, callback, 10)
    (number, settings, stream) = stage.scorer.calls[0]
    assert number == 2
    assert settings.temperature == 1.0
    assert stream == Stream.TRAINING_METRICS.at(10)
    # of each task, programs of log π -1 and -2; weights R / π = 3 and 1
    for future, value in zip(stage.scorer.futures[:3], (math.log(3) - 1, math.log(3) - 1, -2.0), strict=True):
        future.set_result(value)
    step(stage, callback, 11)
    assert not stage.logged
    with torch.no_grad():
        stage.module.log_z.value.add_(100.0)  # training goes on
    stage.scorer.futures[3].set_result(-2.0)
    step(stage, callback, 12)
    for task, learned in (("a", 5.0), ("b", -3.0)):
        assert stage.logged[f"fresh/log_z_importance/{task}"] == pytest.approx(math.log(2))
        assert stage.logged[f"fresh/log_z_gap/{task}"] == pytest.approx(learned - math.log(2))
        assert stage.logged[f"fresh/effective_sample_size/{task}"] == pytest.approx(16 / 10)
        assert stage.logged[f"fresh/log_z_importance_se/{task}"] == pytest.approx(0.5)
    assert stage.logged["fresh/log_ratio_variance"] == pytest.approx((math.log(3) / 2) ** 2)


def test_what_has_no_score_when_the_next_round_is_due_is_left_out(stage):
    callback = TrainingMetrics(every_n_steps=10, num_programs=2)
    step(stage, callback, 10)
    first = stage.scorer.futures
    first[0].set_result(math.log(3) - 1)
    step(stage, callback, 20)
    assert stage.logged["fresh/log_z_importance/a"] == pytest.approx(math.log(3))
    assert "fresh/log_z_importance/b" not in stage.logged
    assert stage.scorer.withdrawn == first[1:]
    assert len(stage.scorer.calls) == 2


def test_refuses_what_makes_no_estimate(stage):
    with pytest.raises(ValueError, match="every_n_steps must be at least 0, got -1"):
        TrainingMetrics(-1)
    with pytest.raises(ValueError, match="num_programs must be at least 2, got 1"):
        TrainingMetrics(num_programs=1)
    stage.trainer.callbacks = []
    with pytest.raises(TypeError, match="TrainingMetrics needs a GFlowNetModule and a ProgramScoring"):
        step(stage, TrainingMetrics(), 0)
