"""A project that uses the package as a library: no command line, no replay data module, no scoring.

A shop forecasts its weekly sales by a small network, and has a policy write models of the same data in the
house style: names are spelled out (`alpha`, not `a`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from synthstats_lightning import GFlowNetModule, Task
from synthstats_lightning.policy import SampledPrograms
from synthstats_lightning.replay import ReplayBuffer, Trajectory, TrajectoryBatch, collate
from synthstats_lightning.tasks import task_prompt

STYLE = 3.0
"""Nats that the house style is worth."""


class WeeklySales(Task):
    """Thirty weeks of sales, made up."""

    def __init__(self) -> None:
        week = np.arange(1, 31)
        sales = np.random.default_rng(0).poisson(np.exp(1.0 + 0.08 * week))
        super().__init__("sales", "Weekly sales of a shop.", {"week": week, "sales": sales}, response="sales")


def in_style(source: str) -> bool:
    """Whether a program spells its names out."""
    return "alpha" in source


def log_reward(source: str, reference_log_prob: float) -> float:
    """The target: what the language model would write, in the house style by preference."""
    return reference_log_prob + STYLE * in_style(source)


class SalesData(LightningDataModule):
    """Both sorts of batches: programs for the policy, weeks for the forecast."""

    def __init__(self, tasks: list[Task], steps: int, batch_size: int = 16) -> None:
        super().__init__()
        self.tasks = tasks
        self.steps = steps
        self.batch_size = batch_size
        self.programs = ReplayBuffer(recent=16, capacity=1_000, replay_fraction=0.25)

    def train_dataloader(self) -> ProgramBatches:
        """Batches of programs."""
        return ProgramBatches(self)

    def weeks(self) -> DataLoader[Any]:
        """Batches of weeks."""
        data = self.tasks[0].data
        columns = [torch.tensor(data[name], dtype=torch.float32) for name in ("week", "sales")]
        return DataLoader(TensorDataset(*columns), batch_size=30)


class ProgramBatches:
    """Draws each batch when it is needed; its length keeps Lightning from drawing one ahead."""

    def __init__(self, data: SalesData) -> None:
        self.data = data
        self.generator = np.random.default_rng(7)

    def __len__(self) -> int:
        return self.data.steps

    def __iter__(self) -> Iterator[TrajectoryBatch]:
        for _ in range(len(self)):
            rows = self.data.programs.sample(self.data.batch_size, self.generator)
            yield collate(rows, self.data.programs.prompts)


class StyleCheck(Callback):
    """Samples programs, rewards them and puts them where the data module finds them."""

    def __init__(self, data: SalesData, programs: int = 16) -> None:
        self.data = data
        self.programs = programs
        self.share: list[float] = []
        self._stream = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The first programs."""
        policy = writer(pl_module).loaded_policy
        for index, task in enumerate(self.data.tasks):
            prompt = task_prompt(task)
            self.data.programs.register_prompt(index, policy.encode_prompt(prompt.rules, prompt.request))
        self._round(pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """The next programs."""
        self._round(pl_module)

    def _round(self, pl_module: LightningModule) -> None:
        module = writer(pl_module)
        prompts = [task_prompt(task) for task in self.data.tasks]
        drawn = module.sample(prompts, self.programs, module.sampling, self._stream)
        self._stream += 1
        for trajectory in rewarded(drawn):
            self.data.programs.add(trajectory)
        self.share.append(sum(map(in_style, drawn.sources)) / len(drawn.sources))
        pl_module.log("style/share", self.share[-1], batch_size=self.programs)


def rewarded(drawn: SampledPrograms) -> list[Trajectory]:
    """What the policy learns from."""
    return [
        Trajectory(
            int(drawn.prompt_index[row]),
            tuple(drawn.program_ids[row][drawn.program_mask[row]].tolist()),
            log_reward(source, float(drawn.reference_log_prob[row])),
            float(drawn.reference_log_prob[row]),
            float(drawn.log_prob[row]),
        )
        for row, source in enumerate(drawn.sources)
    ]


class Forecast(LightningModule):
    """The shop's own network, log sales from the week."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(1, 1)

    def loss(self, week: Tensor, sales: Tensor) -> Tensor:
        """Poisson loss."""
        return nn.functional.poisson_nll_loss(self.net(week[:, None] / 30)[:, 0], sales)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Its own batches only."""
        return self.loss(*batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Its own optimiser."""
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Both(LightningModule):
    """Forecast and policy in one module, trained by one optimiser."""

    def __init__(self, writer: GFlowNetModule, forecast: Forecast, data: SalesData) -> None:
        super().__init__()
        self.writer = writer
        self.forecast = forecast
        self.weeks = data.weeks()

    def configure_model(self) -> None:
        """Loads the policy."""
        self.writer.configure_model()

    def training_step(self, batch: TrajectoryBatch, batch_idx: int) -> Tensor:
        """One loss."""
        output = self.writer.objective_loss(batch)
        forecast = self.forecast.loss(*next(iter(self.weeks)))
        self.log_dict({"policy": output.loss, "forecast": forecast}, batch_size=len(batch))
        return output.loss + forecast

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The policy's parameter groups and one more."""
        optimizer = self.writer.configure_optimizers()
        optimizer.add_param_group({"params": list(self.forecast.parameters()), "lr": 0.1, "name": "forecast"})
        return optimizer


def writer(module: LightningModule) -> GFlowNetModule:
    """The policy's module, by itself or inside."""
    return module if isinstance(module, GFlowNetModule) else module.writer
