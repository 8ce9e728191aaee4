"""Log Z as a function of the prompt."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from synthstats_lightning.objectives.log_z import LogPartition


class PromptLogZ(LogPartition):
    """Log Z as a linear function of features of the prompt, so that it carries over to prompts like it.

    log Z(x) = b + w·φ(x) / width, with φ the prompt's features, standardised. The features are constants: no
    gradient of log Z reaches the policy. Dividing by the width lets one learning rate serve here and for a
    table: a step of size η of every weight moves log Z by at most about 2 η. `assign` meets its targets by
    the smallest change of the weights that does.

    Args:
        num_tasks: Number of tasks.
        width: Number of features.
        initial: Value to start from, in nats.

    Raises:
        ValueError: If a number is less than 1.

    Attributes:
        bias: b, float32 `[1]`.
        weight: w, float32 `[width]`.
        features: Standardised features of each task's prompt, `[tasks, width]`; saved with the module.
        known: Which tasks' features were set, bool `[tasks]`; saved with the module.
    """

    features: Tensor
    known: Tensor

    def __init__(self, num_tasks: int, width: int, initial: float = 0.0) -> None:
        super().__init__(num_tasks)
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.bias = nn.Parameter(torch.full((1,), float(initial), dtype=torch.float32))
        self.weight = nn.Parameter(torch.zeros(width, dtype=torch.float32))
        self.register_buffer("features", torch.zeros(num_tasks, width, dtype=torch.float32))
        self.register_buffer("known", torch.zeros(num_tasks, dtype=torch.bool))

    def set_features(
        self, task_index: Int[Tensor, " prompts"], features: Float[Tensor, "prompts width"]
    ) -> None:
        """States what the prompts of some tasks look like; see `Policy.prompt_features`."""
        width = features.shape[1:]
        self.features[task_index] = nn.functional.layer_norm(features.detach().float(), width)
        self.known[task_index] = True

    def predict(self, features: Float[Tensor, "prompts width"]) -> Float[Tensor, " prompts"]:
        """Log Z of prompts that may belong to no task, in nats."""
        standardised = nn.functional.layer_norm(features.detach().float(), features.shape[1:])
        return self._value(standardised)

    def whole(self, task_index: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The log Z of each row's task, in nats; b for a task whose prompt has no features yet."""
        return self._value(self.features[task_index])

    def _value(self, standardised: Float[Tensor, "prompts width"]) -> Float[Tensor, " prompts"]:
        # products of matrices are rounded under autocast and TF32, sums of products are not
        return self.bias + (standardised * self.weight).sum(-1) / len(self.weight)

    @torch.no_grad()
    def assign(self, target: Float[Tensor, " tasks"], chosen: Bool[Tensor, " tasks"]) -> None:
        """Meets the chosen tasks' targets and keeps what it says of other initialised tasks."""
        if not bool(chosen.any()):
            return
        change = torch.where(chosen, target - self.per_task(), 0.0)
        held = chosen | (self.initialised & self.known)
        design = torch.cat([torch.ones_like(change)[:, None], self.features / len(self.weight) ** 0.5], 1)
        step = torch.linalg.pinv(design[held].double()) @ change[held].double()
        self.bias.add_(step[:1].float())
        self.weight.add_(step[1:].float() * len(self.weight) ** 0.5)
