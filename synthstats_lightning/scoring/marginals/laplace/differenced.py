"""Gradients by differences, of functions whose own would pass through a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

DIFFERENCE = 1e-4
"""Step of the differences that gradients are made of, relative to a parameter's size where that exceeds 1."""


def differenced(
    theta: Float[Tensor, "particles dim"], function: Callable[[Tensor], Tensor]
) -> Float[Tensor, " particles"]:
    """A function's values, whose gradient is one of central differences.

    Args:
        theta: Where it is evaluated.
        function: Acts on each particle by itself.
    """
    found: Tensor = _Differenced.apply(theta, function)  # type: ignore[no-untyped-call]
    return found


class _Differenced(torch.autograd.Function):
    """A function of particles whose gradient is one of central differences."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.function = function
        return function(theta)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (theta,) = ctx.saved_tensors
        step = DIFFERENCE * theta.abs().clamp_min(1.0)
        columns = []
        for k in range(theta.shape[1]):
            move = torch.zeros_like(theta)
            move[:, k] = step[:, k]
            columns.append((ctx.function(theta + move) - ctx.function(theta - move)) / (2.0 * step[:, k]))
        return grad_outputs[0][:, None] * torch.stack(columns, 1), None
