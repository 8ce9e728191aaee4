"""The enumerable language under Lightning: any precision, accumulation and number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from synthstats_lightning.objectives import (
    ActionSubTrajectoryBalance,
    DetailedBalance,
    FlowRL,
    LogVariance,
    LogZ,
    ModifiedSubTrajectoryBalance,
    Objective,
    RapTB,
    RelativeTrajectoryBalance,
    SubTrajectoryBalance,
    TrajectoryBalance,
)
from synthstats_lightning.objectives.float32 import Float32Module
from synthstats_lightning.policy.wide_adapter import WideAdapter
from synthstats_lightning.runtime.default_dtype import float32_by_default
from synthstats_lightning.testing.language import (
    TOKENS,
    TabularPolicy,
    multimodal_log_reward,
    objective_inputs,
    random_policy,
)
from synthstats_lightning.testing.tabular_training import total_variation

LENGTH = 2
"""Tokens of the longest program of the matrix."""


def exact_objectives() -> dict[str, tuple[Objective, bool]]:
    """Objectives whose only optimum is their target, and whether that has the reference as a factor."""
    return {
        "TB": (TrajectoryBalance(), False),
        "TB huber": (TrajectoryBalance(huber_delta=3.0), False),
        "VarGrad": (LogVariance(), False),
        "RTB": (RelativeTrajectoryBalance(), True),
        "TBA": (RelativeTrajectoryBalance(log_z="batch"), True),
        "FlowRL": (FlowRL(), True),
        "SubTB": (SubTrajectoryBalance(0.9), False),
        "SubTB forward-looking": (SubTrajectoryBalance(forward_looking_weight=1.0), False),
        "SubTB relative": (SubTrajectoryBalance(1.0, relative_to_policy=True), False),
        "modified SubTB": (ModifiedSubTrajectoryBalance(rewards="given"), False),
        "DB": (DetailedBalance(), False),
        "AB-SubTB": (ActionSubTrajectoryBalance(), False),
        "RapTB": (RapTB(rewards="given"), False),
    }


def matrix_column(
    precision: str, accumulate: int, devices: int, steps: int, folder: str, names: Sequence[str] = ()
) -> dict[str, float]:
    """Total variation of every exact objective after training; see `trained_total_variation`.

    Args:
        precision: Precision of the trainer.
        accumulate: Batches a step.
        devices: Processes, on one machine.
        steps: How many training steps are taken.
        folder: Where the trainer may write.
        names: Which objectives; by default all.
    """
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    with_reference = log_reward + random_policy(2, LENGTH).log_probs()
    column = {}
    for name, (objective, prior) in exact_objectives().items():
        if not names or name in names:
            target = with_reference if prior else log_reward
            column[name] = trained_total_variation(
                objective, log_reward, target, LENGTH, steps, precision, accumulate, devices, folder
            )
    return column


class Flow(Float32Module):
    """A free log flow of each prefix.

    Args:
        num_prompts: Number of prompts.
        num_programs: Number of programs, each of which is a prefix.
    """

    def __init__(self, num_prompts: int, num_programs: int) -> None:
        super().__init__()
        self.log_flow = nn.Parameter(torch.zeros(num_prompts, num_programs))


class WideTabularPolicy(WideAdapter, TabularPolicy):
    """A tabular policy between what no precision rounds, as adapters are not, and logits that each rounds.

    What is trained goes through a frozen matrix, which a precision converts, in a product, which autocast
    takes part in: so logits are rounded as those of a language model's head are.

    Args:
        num_prompts: Prompts, each with a distribution of its own.
        max_length: Most tokens of a program, the stop token not counted.
    """

    readout: Tensor

    def __init__(self, num_prompts: int, max_length: int) -> None:
        super().__init__(num_prompts, max_length)
        square = torch.randn(TOKENS + 1, TOKENS + 1, generator=torch.Generator().manual_seed(0))
        self.register_buffer("readout", torch.linalg.qr(square).Q)

    def token_logits(self) -> Float[Tensor, "prompts programs tokens"]:
        """Logits of the token behind each prefix, in the precision of the model."""
        return self.logits.to(self.readout.dtype) @ self.readout


class TabularModule(LightningModule):
    """Trains a tabular policy on its own samples, which it draws in `training_step`.

    Args:
        objective: What is minimised.
        log_reward: Log reward of every program under every prompt.
        max_length: Tokens of the longest program.
        steps: Training steps, over which the learning rate falls to a hundredth.
        batch_size: Programs a prompt and batch.
        learning_rate: Learning rate of policy and flows at the start.
        exploration: Share of uniformly drawn programs, but for objectives on policy.
    """

    def __init__(
        self,
        objective: Objective,
        log_reward: Float[Tensor, "prompts programs"],
        max_length: int,
        steps: int,
        batch_size: int = 64,
        learning_rate: float = 0.05,
        exploration: float = 0.1,
    ) -> None:
        super().__init__()
        prompts = len(log_reward)
        self.objective = objective
        # a plain attribute: rewards are no part of what a precision plugin converts
        self.log_reward = log_reward.double()
        self.policy = WideTabularPolicy(prompts, max_length).float()
        # in a tuple, because a reference that is rounded is another one
        self._reference = (random_policy(prompts, max_length),)
        self.flow = Flow(prompts, log_reward.shape[1])
        self.log_z = LogZ(prompts)
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.exploration = 0.0 if objective.on_policy else exploration

    def configure_optimizers(self) -> Any:
        """Adam, and a rate that falls linearly."""
        groups = [
            {"params": [self.policy.logits], "lr": self.learning_rate},
            {"params": list(self.flow.parameters()), "lr": 2 * self.learning_rate},
            {"params": list(self.log_z.parameters()), "lr": 0.1},
        ]
        optimizer = torch.optim.Adam(groups)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def training_step(self, number: Tensor, batch_idx: int) -> Tensor:
        """Draws programs and takes the objective's loss of them."""
        with float32_by_default():
            return self._loss(int(number))

    def _loss(self, number: int) -> Tensor:
        prompts, count = self.log_reward.shape
        generator = torch.Generator().manual_seed(1000 * number + self.global_rank)
        probabilities = self.policy.log_probs().detach().double().exp()
        behaviour = (1 - self.exploration) * probabilities + self.exploration / count
        rows = torch.multinomial(behaviour, self.batch_size, replacement=True, generator=generator)
        task = torch.arange(prompts).repeat_interleave(self.batch_size)
        rewards = self.log_reward.gather(1, rows).flatten().float()
        flow = self.flow.log_flow + self.log_z.value.detach()[:, None]
        inputs = objective_inputs(
            self.policy, self._reference[0], flow, self.log_reward.float(), task, rows.flatten()
        )
        named: dict[str, Any] = {
            name: value.float() if value.is_floating_point() else value for name, value in inputs.items()
        }
        log_prob = named.pop("log_prob")
        if self.objective.learns_log_z:
            ratio = self.objective.log_target_ratio(log_prob.detach(), rewards, named)  # type: ignore[arg-type]
            self.log_z.initialise(ratio, task)
        loss = self.objective(log_prob, rewards, self.log_z(task), **named).loss
        # every parameter takes part, as distributed training wants
        unused = self.flow.log_flow.sum() + self.log_z.value.sum()
        whole: Tensor = loss + 0.0 * unused
        return whole


def trained_total_variation(
    objective: Objective,
    log_reward: Float[Tensor, "prompts programs"],
    log_target: Float[Tensor, "prompts programs"],
    max_length: int,
    steps: int,
    precision: str = "32-true",
    accumulate: int = 1,
    devices: int = 1,
    folder: str = ".",
) -> float:
    """How far a policy ends from its target: total variation of the worst prompt, computed exactly.

    Args:
        objective: What is minimised.
        log_reward: Log reward of every program under every prompt.
        log_target: Log of the objective's target, not normalised.
        max_length: Tokens of the longest program.
        steps: How many training steps are taken.
        precision: Precision of the trainer.
        accumulate: Batches a step; each is as much smaller.
        devices: Processes, on one machine.
        folder: Where the trainer may write.
    """
    torch.manual_seed(0)
    module = TabularModule(objective, log_reward, max_length, steps, max(4, 64 // accumulate))
    trainer = Trainer(
        max_steps=steps,
        precision=precision,  # type: ignore[arg-type]
        accumulate_grad_batches=accumulate,
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=folder,
    )
    numbers = torch.arange(steps * accumulate)
    trainer.fit(module, DataLoader(numbers, batch_size=None))  # type: ignore[arg-type]
    policy = module.policy.to(torch.float64)
    return float(total_variation(policy, log_target).max())
