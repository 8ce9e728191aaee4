"""Lightning's own switches, a run each: schedules, callbacks, loggers, limits, intervals, profilers."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch import callbacks as own
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.cli import ReduceLROnPlateau
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.tuner import Tuner
from torch.optim import lr_scheduler

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.testing.fakes import FakeExecutor

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS, BATCHES_AN_EPOCH, PROGRAMS, WARMUP = 4, 4, 2, 4


class Watch(Callback):
    """What a run did."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.programs: list[tuple[Any, ...]] = []
        self.validations = 0
        self.streams: list[int] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(float(outputs["loss"]))
        rows = zip(batch.program_ids.tolist(), batch.program_mask.tolist(), strict=True)
        self.programs.append(tuple(tuple(i for i, m in zip(*row, strict=True) if m) for row in rows))

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        self.validations += not trainer.sanity_checking


class Run(NamedTuple):
    trainer: Trainer
    module: GFlowNetModule
    data: ReplayDataModule
    scoring: ProgramScoring
    watch: Watch


def run(folder: Path, trainer: dict[str, Any], module: dict[str, Any], data: dict[str, Any]) -> Run:
    made = GFlowNetModule(
        **{"lora": LoraSettings(rank=2), "sampling": SamplingSettings(max_new_tokens=4), "seed": 1, **module}
    )
    defaults = {"batch_size": 4, "steps_per_epoch": BATCHES_AN_EPOCH, "eval_programs": 2, "seed": 1}
    source = ReplayDataModule(**{**defaults, **data})
    # programs are all cut short: without the prior they still differ from the target
    scoring = ProgramScoring(
        reward=Reward(prior_weight=0.0),
        require_scored=False,
        programs_per_step=PROGRAMS,
        warmup_programs=WARMUP,
        synchronous=True,
        executor=FakeExecutor(),
    )
    watch = Watch()
    quiet: dict[str, Any] = {
        "max_steps": STEPS,
        "accelerator": "cpu",
        "log_every_n_steps": 1,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "default_root_dir": folder,
        "limit_val_batches": 0,
    }
    given = {**quiet, **trainer}
    given["callbacks"] = [scoring, *given.get("callbacks", []), watch]
    return Run(Trainer(**given), made, source, scoring, watch)


def rounds(done: Run) -> int:
    return (done.data.buffer.added - WARMUP) // PROGRAMS


def steps(number: int) -> Callable[[Run], None]:
    def check(done: Run) -> None:
        assert done.trainer.global_step == number
        assert rounds(done) == number

    return check


def rate(name: str) -> Callable[[Run], None]:
    def check(done: Run) -> None:
        (group,) = [group for group in done.trainer.optimizers[0].param_groups if group["name"] == name]
        assert group["lr"] < group.get("max_lr", {"log_z": 0.1, "adapter": 1e-3}[name])

    return check


def validated(number: int) -> Callable[[Run], None]:
    def check(done: Run) -> None:
        assert done.watch.validations == number
        if number:
            assert "val/log_reward" in done.trainer.callback_metrics

    return check


def accumulated(done: Run) -> None:
    assert done.trainer.global_step == STEPS
    assert len(done.watch.losses) == 2 * STEPS
    assert rounds(done) == STEPS, "rounds count optimiser steps"


def batches_differ(done: Run) -> None:
    assert done.trainer.current_epoch == 2
    first, second = done.watch.programs[:BATCHES_AN_EPOCH], done.watch.programs[BATCHES_AN_EPOCH:]
    assert first != second, "a loader that is made anew goes on drawing"


def overfitted(done: Run) -> None:
    assert len(done.watch.losses) == STEPS


def stopped_early(done: Run) -> None:
    assert done.trainer.global_step < 50


def files(*patterns: str) -> Callable[[Run], None]:
    def check(done: Run) -> None:
        for pattern in patterns:
            assert list(Path(done.trainer.default_root_dir).rglob(pattern)), pattern

    return check


def averaged(done: Run) -> None:
    trained = [value for name, value in done.module.named_parameters() if "lora_B" in name]
    assert any(bool(value.any()) for value in trained)
    assert all(bool(value.isfinite().all()) for value in done.module.parameters())


def plateau(**more: Any) -> Any:
    return functools.partial(ReduceLROnPlateau, **more)


class Switch(NamedTuple):
    trainer: dict[str, Any] = {}  # noqa: RUF012
    module: dict[str, Any] = {}  # noqa: RUF012
    data: dict[str, Any] = {}  # noqa: RUF012
    check: Callable[[Run], None] = steps(STEPS)


VALIDATES = {"limit_val_batches": 1}
SWITCHES: dict[str, Callable[[], Switch]] = {
    "one cycle": lambda: Switch(
        module={"lr_scheduler": functools.partial(lr_scheduler.OneCycleLR, max_lr=1e-3, total_steps=9)},
        check=rate("log_z"),
    ),
    "cosine": lambda: Switch(
        module={"lr_scheduler": functools.partial(lr_scheduler.CosineAnnealingLR, T_max=9)},
        check=rate("adapter"),
    ),
    "torch's plateau": lambda: Switch(module={"lr_scheduler": lr_scheduler.ReduceLROnPlateau}),
    "the command line's plateau": lambda: Switch(
        module={"lr_scheduler": plateau(monitor="train/loss", patience=0)}
    ),
    "a plateau of validation": lambda: Switch(
        VALIDATES, {"lr_scheduler": plateau(monitor="val/log_reward")}, check=validated(1)
    ),
    "accumulate_grad_batches": lambda: Switch(
        {"accumulate_grad_batches": 2, "max_epochs": 9, "callbacks": [TrainingMetrics(2, 2)]},
        check=accumulated,
    ),
    "GradientAccumulationScheduler": lambda: Switch(
        {"callbacks": [own.GradientAccumulationScheduler({0: 2})]}, check=accumulated
    ),
    "reload_dataloaders_every_n_epochs": lambda: Switch(
        {"reload_dataloaders_every_n_epochs": 1, "max_epochs": 2, "max_steps": -1},
        check=batches_differ,
    ),
    "gradient_clip_val": lambda: Switch({"gradient_clip_val": 0.5}),
    "gradient_clip_algorithm": lambda: Switch({"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}),
    "detect_anomaly": lambda: Switch({"detect_anomaly": True, "max_steps": 2}, check=steps(2)),
    "deterministic": lambda: Switch({"deterministic": True}),
    "benchmark": lambda: Switch({"benchmark": True}),
    "inference_mode off": lambda: Switch({**VALIDATES, "inference_mode": False}, check=validated(1)),
    "num_sanity_val_steps": lambda: Switch({**VALIDATES, "num_sanity_val_steps": 1}, check=validated(1)),
    "val_check_interval in batches": lambda: Switch(
        {**VALIDATES, "val_check_interval": 2}, check=validated(2)
    ),
    "val_check_interval as a share": lambda: Switch(
        {**VALIDATES, "val_check_interval": 0.5}, check=validated(2)
    ),
    "check_val_every_n_epoch": lambda: Switch(
        {**VALIDATES, "check_val_every_n_epoch": 2}, data={"steps_per_epoch": 2}, check=validated(1)
    ),
    "limit_train_batches": lambda: Switch(
        {"limit_train_batches": 2, "max_epochs": 1, "max_steps": -1}, check=steps(2)
    ),
    "overfit_batches": lambda: Switch({"overfit_batches": 2, "max_epochs": 2}, check=overfitted),
    "fast_dev_run": lambda: Switch({"fast_dev_run": True, "limit_val_batches": 1}, check=steps(1)),
    "max_time": lambda: Switch({"max_time": {"minutes": 5}}),
    "min_steps": lambda: Switch({"min_steps": 2}),
    "EarlyStopping": lambda: Switch(
        {
            "max_steps": 50,
            "callbacks": [own.EarlyStopping("train/loss", patience=0, check_on_train_epoch_end=True)],
        },
        data={"steps_per_epoch": 1},
        check=stopped_early,
    ),
    "EarlyStopping of validation": lambda: Switch(
        {
            **VALIDATES,
            "max_steps": 50,
            "val_check_interval": 1,
            "callbacks": [own.EarlyStopping("val/log_reward", mode="max", patience=0, min_delta=1e9)],
        },
        check=stopped_early,
    ),
    "ModelCheckpoint of a metric": lambda: Switch(
        {
            **VALIDATES,
            "enable_checkpointing": True,
            "callbacks": [
                own.ModelCheckpoint(monitor="val/log_reward", mode="max", auto_insert_metric_name=False)
            ],
        },
        check=files("*.ckpt"),
    ),
    "OnExceptionCheckpoint": lambda: Switch(
        {"enable_checkpointing": True, "callbacks": [own.OnExceptionCheckpoint("unused")]}
    ),
    "StochasticWeightAveraging": lambda: Switch(
        {
            "max_epochs": 2,
            "max_steps": -1,
            "callbacks": [own.StochasticWeightAveraging(swa_lrs=1e-4, swa_epoch_start=1)],
        },
        check=averaged,
    ),
    "EMA": lambda: Switch({"callbacks": [EMAWeightAveraging(decay=0.9)]}, check=averaged),
    "LearningRateMonitor and CSV": lambda: Switch(
        {"logger": "csv", "callbacks": [own.LearningRateMonitor()]}, check=files("metrics.csv")
    ),
    "TensorBoard": lambda: Switch({"logger": "tensorboard"}, check=files("events.*")),
    "two loggers": lambda: Switch({"logger": "both"}, check=files("metrics.csv", "events.*")),
    "ModelSummary": lambda: Switch({"enable_model_summary": True, "callbacks": [own.ModelSummary(2)]}),
    "progress bars": lambda: Switch(
        {"enable_progress_bar": True, "callbacks": [own.TQDMProgressBar()], **VALIDATES}, check=validated(1)
    ),
    "Timer": lambda: Switch({"callbacks": [own.Timer({"minutes": 5})]}),
    "simple profiler": lambda: Switch({"profiler": "simple"}),
    "advanced profiler": lambda: Switch({"profiler": "advanced", "max_steps": 1}, check=steps(1)),
    "ThroughputMonitor": lambda: Switch(
        {"logger": "csv", "callbacks": [own.ThroughputMonitor(batch_size_fn=len, window_size=2)]}
    ),
    "DeviceStatsMonitor": lambda: Switch({"logger": "csv", "callbacks": [own.DeviceStatsMonitor(True)]}),
    "plugins: bf16-mixed": lambda: Switch({"precision": "bf16-mixed"}),
    "use_distributed_sampler off": lambda: Switch({"use_distributed_sampler": False}),
    "barebones": lambda: Switch(
        {
            "barebones": True,
            "logger": None,
            "enable_progress_bar": None,
            "enable_model_summary": None,
            "enable_checkpointing": None,
            "limit_val_batches": None,
            "log_every_n_steps": None,
        },
    ),
}


def loggers(kind: Any, folder: Path) -> Any:
    made = {"csv": [CSVLogger], "tensorboard": [TensorBoardLogger], "both": [CSVLogger, TensorBoardLogger]}
    return [each(folder) for each in made[kind]] if isinstance(kind, str) else kind


SIBLINGS = frozenset(
    {
        "cosine",
        "torch's plateau",
        "gradient_clip_algorithm",
        "benchmark",
        "val_check_interval as a share",
        "min_steps",
        "two loggers",
        "ModelSummary",
        "simple profiler",
        "Timer",
        "DeviceStatsMonitor",
        "use_distributed_sampler off",
        "barebones",
    }
)
"""Switches that take the same way through the package as one that each run of the tests tries."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SIBLINGS else []) for name in SWITCHES],
)
def test_lightning_switch(name: str, tmp_path: Path) -> None:
    switch = SWITCHES[name]()
    trainer = dict(switch.trainer)
    if "logger" in trainer:
        trainer["logger"] = loggers(trainer["logger"], tmp_path)
    done = run(tmp_path, trainer, switch.module, switch.data)
    try:
        done.trainer.fit(done.module, done.data)
        assert torch.isfinite(torch.tensor(done.watch.losses)).all()
        assert done.module.skipped_steps.count == 0
        switch.check(done)
    finally:
        torch.use_deterministic_algorithms(False)


def test_sigterm_is_heard_at_the_next_batch_of_an_evaluation(tmp_path: Path) -> None:
    class Ask(Callback):
        batches = 0

        def on_validation_batch_start(self, *_: Any) -> None:
            self.batches += 1
            if self.batches == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    ask = Ask()
    data = {"eval_programs": 8, "eval_batch_size": 1}
    done = run(tmp_path, {"limit_val_batches": 8, "callbacks": [ask], "num_sanity_val_steps": 0}, {}, data)
    with pytest.raises(SystemExit):
        done.trainer.fit(done.module, done.data)
    assert ask.batches == 2


def test_tuner_says_what_it_lacks_and_works_on_a_full_buffer(tmp_path: Path) -> None:
    done = run(tmp_path, {}, {}, {})
    with pytest.raises(LookupError, match="Lightning's Tuner, which runs without callbacks; fill it first"):
        Tuner(done.trainer).lr_find(done.module, datamodule=done.data, num_training=3, attr_name="log_z_lr")
    full = run(tmp_path, {"max_steps": 1}, {}, {})
    full.trainer.fit(full.module, full.data)
    again = run(tmp_path, {}, {}, {})
    again.data.buffer.load_state_dict(full.data.buffer.state_dict())
    found = Tuner(again.trainer).lr_find(
        again.module,
        datamodule=again.data,
        num_training=6,
        attr_name="log_z_lr",
        update_attr=False,
        early_stop_threshold=None,
    )
    assert found is not None
    assert len(found.results["loss"]) >= 5
    size = Tuner(again.trainer).scale_batch_size(
        again.module, datamodule=again.data, steps_per_trial=1, init_val=4, max_trials=2
    )
    assert size == again.data.batch_size == 8


def test_compiling_the_whole_module_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, {}, {}, {})
    with pytest.raises(ValueError, match=r"torch\.compile of a GFlowNetModule is not supported"):
        done.trainer.fit(torch.compile(done.module), done.data)
