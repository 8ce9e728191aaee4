"""Muon in single precision: PyTorch's own works in bfloat16, which many processors only emulate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""Of the quintic whose iteration takes singular values near 1 (https://kellerjordan.github.io/posts/muon)."""
STEPS = 5
"""Iterations."""


class Muon(torch.optim.Optimizer):
    """Momentum whose steps have equal singular values, of the size of AdamW's steps.

    The arithmetic is that of `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, of matrices of the
    same shape at once.

    Args:
        parameters: Matrices of a network.
        lr: Learning rate of a step.
        weight_decay: Decoupled weight decay.
        momentum: Share of the mean gradient that a step keeps.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Moves every matrix that has a gradient.

        Args:
            closure: Nothing is done with it.
        """
        for group in self.param_groups:
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    mean = self._mean(parameter, parameter.grad, group["momentum"])
                    alike[parameter.shape].append((parameter, mean))
            for shape, moved in alike.items():
                updates = orthogonal(torch.stack([mean for _, mean in moved]))
                rate = group["lr"] * 0.2 * max(shape) ** 0.5
                for (parameter, _), update in zip(moved, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-rate)

    def _mean(self, parameter: Tensor, gradient: Tensor, momentum: float) -> Tensor:
        """Nesterov's mean of the gradients so far."""
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum_buffer"], momentum)


def orthogonal(matrices: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
    """Matrices of the same singular vectors whose singular values are about 1, by Newton's and Schulz' steps.

    Args:
        matrices: Matrices of equal shape.
    """
    linear, cubic, quintic = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    found = (matrices.mT if tall else matrices).contiguous()
    found = found / torch.linalg.matrix_norm(found, keepdim=True).clamp(min=1e-7)
    for _ in range(STEPS):
        products = found @ found.mT
        found = torch.baddbmm(
            found, torch.baddbmm(products, products, products, beta=cubic, alpha=quintic), found, beta=linear
        )
    return found.mT if tall else found
