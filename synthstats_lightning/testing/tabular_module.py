"""The enumerable language under Lightning: an objective in any precision, accumulation and number of processes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from synthstats_lightning.objectives import LogZ, Objective
from synthstats_lightning.runtime.default_dtype import float32_by_default
from synthstats_lightning.testing.language import TabularPolicy, objective_inputs, random_policy
from synthstats_lightning.testing.tabular_training import total_variation


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
        self.policy = TabularPolicy(prompts, max_length).float()
        self.reference = random_policy(prompts, max_length)
        self.log_flow = nn.Parameter(torch.zeros(log_reward.shape))
        self.log_z = LogZ(prompts)
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.exploration = 0.0 if objective.on_policy else exploration
        self.generator = torch.Generator()

    def configure_optimizers(self) -> Any:
        """Adam, and a rate that falls linearly."""
        groups = [
            {"params": [self.policy.logits], "lr": self.learning_rate},
            {"params": [self.log_flow], "lr": 2 * self.learning_rate},
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
        self.generator.manual_seed(1000 * number + self.global_rank)
        probabilities = self.policy.log_probs().detach().double().exp()
        behaviour = (1 - self.exploration) * probabilities + self.exploration / count
        rows = torch.multinomial(behaviour, self.batch_size, replacement=True, generator=self.generator)
        task = torch.arange(prompts).repeat_interleave(self.batch_size)
        rewards = self.log_reward.gather(1, rows).flatten().float()
        flow = self.log_flow + self.log_z.value.detach()[:, None]
        inputs = objective_inputs(
            self.policy, self.reference, flow, self.log_reward.float(), task, rows.flatten()
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
        unused = self.log_flow.sum() + self.log_z.value.sum()
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
        steps: Training steps.
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
        strategy="ddp_spawn" if devices > 1 else "auto",
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
