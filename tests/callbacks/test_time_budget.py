"""A run in a given time: it ends by then, with every schedule at its end."""

from __future__ import annotations

import functools
import io
import itertools
import math
import time
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from torch.optim import lr_scheduler

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks import program_queue, run_progress, time_budget
from synthstats_lightning.callbacks.run_progress import RunProgress, clock
from synthstats_lightning.callbacks.schedule_lengths import ScheduleLengths
from synthstats_lightning.callbacks.time_budget import BEFORE_AND_AFTER, TimeBudget
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule
from tests.support.gate import Gate

CONFIGURED = 400
QUIET = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_model_summary": False,
    "limit_val_batches": 0,
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore:dugongs, step")  # of runs that are this short


class Clock:
    """What `time.monotonic` says: it goes on with training steps only, whatever else the machine does."""

    def __init__(self, monkeypatch, pace):
        self.now, self.pace = time.monotonic(), pace
        for module in (time_budget, program_queue):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self.read, perf_counter=self.read))

    def read(self):
        return self.now


class Watch(Callback):
    """Rates, exploration and tempering of every step, which takes its time."""

    def __init__(self, clock):
        self.clock = clock
        self.rates, self.betas, self.planned = [], [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        scoring = next(item for item in trainer.callbacks if isinstance(item, ProgramScoring))
        step = trainer.global_step
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])
        self.betas.append(scoring.reward_schedule.at(scoring.reward, step).beta)
        self.planned.append((trainer.max_steps, scoring.anneal_steps))
        if self.clock is not None:
            self.clock.now += self.clock.pace(step)


def fit(folder, budget, clock=None, gate=None, schedule=None, tokens=8):
    watch = Watch(clock)
    scoring = ProgramScoring(
        programs_per_step=2, warmup_programs=12, executor=gate or Gate(), anneal_steps=CONFIGURED // 2,
        require_scored=False,
        reward_schedule=RewardSchedule(beta=Ramp(0.1, CONFIGURED // 2)),
    )  # fmt: skip
    report = PosteriorReport(num_programs=50)
    module = GFlowNetModule(
        seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=tokens),
        lr_scheduler=schedule or functools.partial(lr_scheduler.CosineAnnealingLR, T_max=CONFIGURED),
    )  # fmt: skip
    trainer = Trainer(
        max_steps=CONFIGURED, log_every_n_steps=5,
        callbacks=[budget, RunProgress(budget), scoring, report, watch], default_root_dir=folder, **QUIET,
    )  # fmt: skip
    trainer.fit(module, ReplayDataModule(batch_size=2, steps_per_epoch=1000))
    return trainer, watch, report


def test_it_ends_in_time_with_its_schedules(tmp_path, monkeypatch, capsys):
    """Steps of two seconds, later of four: 56 seconds, of which the report has 15."""
    clock = Clock(monkeypatch, lambda step: 2.0 if step < 10 else 4.0)
    budget = TimeBudget(1.0)
    trainer, watch, report = fit(tmp_path, budget, clock)
    steps = trainer.global_step
    assert steps == pytest.approx(10 + (41 - 20) / 4, abs=2)
    assert clock.now - budget.started == pytest.approx(60 - BEFORE_AND_AFTER - 15, abs=5.1)
    assert [planned for planned, _ in watch.planned[:3]] == [CONFIGURED] * 3
    assert watch.planned[8][0] == pytest.approx(22, abs=3)
    assert watch.planned[-1] == (steps, pytest.approx(steps / 2, abs=1))
    assert watch.rates[-1] < 0.2 * max(watch.rates)
    assert all(later <= earlier for earlier, later in itertools.pairwise(watch.rates))
    assert watch.betas[0] < 0.2
    assert watch.betas[-1] == 1.0
    assert report.deadline == pytest.approx(0.75 * (budget.end - clock.now))
    assert report.num_programs < 50
    assert (tmp_path / "report.json").is_file()
    said = capsys.readouterr().err
    for phase in ("start: ", "warm-up: ", "training: step", "report: "):
        assert phase in said


@pytest.mark.slow
def test_scores_that_never_come_hold_nothing_up(tmp_path):
    """Two answers come, the others never: neither warm-up nor training nor the report waits for them."""
    budget, gate = TimeBudget(1.0), Gate(first=2)
    budget.started -= 60.0 - 8.0 - BEFORE_AND_AFTER
    gate.shut = True
    trainer, _, _ = fit(tmp_path, budget, gate=gate, tokens=70)
    assert time.monotonic() < budget.end + 60.0
    assert trainer.global_step >= 1
    assert (tmp_path / "report.json").is_file()


def test_a_schedule_of_fixed_length_is_refused(tmp_path):
    schedule = functools.partial(lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=CONFIGURED)
    with pytest.raises(ValueError, match=r"lr_scheduler must be one of CosineAnnealingLR, .*got OneCycleLR"):
        fit(tmp_path, TimeBudget(1.0), schedule=schedule)


@pytest.mark.parametrize("minutes", [0.1, -1.0, math.inf, math.nan])
def test_a_time_that_is_none(minutes):
    with pytest.raises(ValueError, match=r"minutes must be at least 0.5"):
        TimeBudget(minutes)


def test_what_remains_adds_up():
    budget = TimeBudget(4.0)
    limits = budget.limits(budget.started + 20.0)
    assert sum(limits.values()) == pytest.approx(4 * 60 - 20 - BEFORE_AND_AFTER)
    assert limits["report"] == pytest.approx(60.0)
    assert [clock(0.4), clock(59.6), clock(3599.0)] == ["0:00", "1:00", "59:59"]


def test_schedules_of_a_checkpoint_keep_their_proportion():
    """A run that was stretched to half its steps goes on: its rates are those of the half."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    rates = lr_scheduler.CosineAnnealingLR(torch.optim.SGD([parameter], lr=1.0), T_max=CONFIGURED // 2)
    trainer, scoring = Trainer(max_steps=CONFIGURED, **QUIET), ProgramScoring(anneal_steps=CONFIGURED)
    trainer.strategy.lr_scheduler_configs = [SimpleNamespace(scheduler=rates)]
    ScheduleLengths(trainer, scoring, CONFIGURED // 2).stretch(2 * CONFIGURED)
    assert (rates.T_max, trainer.max_steps, scoring.anneal_steps) == (2 * CONFIGURED,) * 3


def test_progress_without_a_limit(monkeypatch):
    """What remains is said by the pace alone."""
    progress, scoring = RunProgress(), ProgramScoring()
    scoring.queue.counts = lambda: (3, 12)
    monkeypatch.setattr(Trainer, "global_step", 10)
    callbacks = [scoring, PosteriorReport(deadline=30.0)]
    progress._trainer = Trainer(max_steps=50, callbacks=callbacks, **QUIET)
    progress.phase, now = "warm-up", time.monotonic()
    progress._began["warm-up"] = now - 200.0
    assert progress.done("warm-up") == 0.25
    assert progress.left("warm-up") == pytest.approx(600.0, abs=60.0)
    assert progress.left("training") is None
    progress.phase = "training"
    progress._began["training"] = now - 500.0
    assert progress.left("training") == pytest.approx(2000.0, abs=200.0)
    assert progress.left("report") == 30.0
    text = io.StringIO()
    Console(file=text, width=120).print(progress.table())
    assert "took " in text.getvalue()
    assert "step 10 of about 50" in text.getvalue()


def test_a_slow_run_without_a_terminal_has_a_line_a_minute(monkeypatch):
    text = io.StringIO()
    progress = RunProgress(console=Console(file=text, width=120))
    scoring = ProgramScoring()
    monkeypatch.setattr(Trainer, "global_step", 10)
    progress._trainer = Trainer(max_steps=500, callbacks=[scoring, PosteriorReport()], **QUIET)
    now = time.monotonic()
    monkeypatch.setattr(run_progress, "time", SimpleNamespace(monotonic=lambda: now))
    progress._enter("training")
    for seconds in range(1, 200):
        monkeypatch.setattr(run_progress, "time", SimpleNamespace(monotonic=lambda s=seconds: now + s))
        progress.on_train_batch_end(progress._trainer, LightningModule(), None, None, 0)
    lines = text.getvalue().splitlines()
    assert len(lines) == 1 + 199 // 61
    assert all(line.startswith("training: step 10 of about 500") for line in lines)
