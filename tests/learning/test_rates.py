"""Schedules over groups of rates of their own: log Z keeps its rate, a plateau knows what it waits for."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from lightning.pytorch.cli import ReduceLROnPlateau
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    CyclicLR,
    LambdaLR,
    OneCycleLR,
    StepLR,
)

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.policy import LoraSettings

ADAPTER, LOG_Z, STEPS = 1e-3, 0.1, 20


def configured(scheduler: Any) -> tuple[torch.optim.Optimizer, dict[str, Any]]:
    module = GFlowNetModule(
        lora=LoraSettings(rank=2), seed=3, log_z_lr=LOG_Z, lr_scheduler=scheduler,
        optimizer=functools.partial(torch.optim.AdamW, lr=ADAPTER),
    )  # fmt: skip
    module.configure_model()
    made = module.configure_optimizers()
    return made["optimizer"], made["lr_scheduler"]


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize(
    "scheduler",
    [
        functools.partial(OneCycleLR, max_lr=ADAPTER, total_steps=STEPS),
        functools.partial(CyclicLR, base_lr=ADAPTER / 10, max_lr=ADAPTER, step_size_up=5),
        functools.partial(CosineAnnealingLR, T_max=STEPS),
        functools.partial(StepLR, step_size=5),
        functools.partial(ConstantLR, factor=0.5),
        functools.partial(LambdaLR, lr_lambda=lambda step: 1 / (1 + step)),
    ],
    ids=lambda each: each.func.__name__,
)
def test_log_z_keeps_its_rate_relative_to_the_adapter(scheduler: Any) -> None:
    optimizer, config = configured(scheduler)
    assert config["interval"] == "step"
    highest = 0.0
    for _ in range(STEPS - 1):
        rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
        assert rates["log_z"] == pytest.approx(rates["adapter"] * LOG_Z / ADAPTER)
        highest = max(highest, rates["log_z"])
        config["scheduler"].step()
    assert highest == pytest.approx(LOG_Z, rel=0.51)


@pytest.mark.parametrize(
    ("scheduler", "monitor", "interval"),
    [
        (torch.optim.lr_scheduler.ReduceLROnPlateau, "train/loss", "step"),
        (functools.partial(ReduceLROnPlateau, monitor="train/residual_std"), "train/residual_std", "step"),
        (functools.partial(ReduceLROnPlateau, monitor="val/log_reward"), "val/log_reward", "epoch"),
    ],
)
def test_a_plateau_is_looked_for_in_a_metric(scheduler: Any, monitor: str, interval: str) -> None:
    _, config = configured(scheduler)
    assert (config["monitor"], config["interval"]) == (monitor, interval)
