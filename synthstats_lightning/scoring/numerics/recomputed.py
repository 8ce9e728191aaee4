"""Functions whose intermediate values are not kept for their gradient but computed again.

PyTorch's own checkpoints import its compiler, which takes seconds and wants a temporary folder; a scoring
process has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.function = function
        ctx.save_for_backward(*inputs)
        # functions go other ways where gradients are wanted
        _, outputs = _run(function, inputs, ctx.needs_input_grad[1:])
        plain = tuple(output.detach() for output in outputs)
        still = [one for one, output in zip(plain, outputs, strict=True) if not output.requires_grad]
        ctx.mark_non_differentiable(*still)
        return plain

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        inputs, outputs = _run(ctx.function, ctx.saved_tensors, wanted)
        kept = [
            place
            for place, gradient in enumerate(gradients)
            if gradient is not None and outputs[place].requires_grad
        ]
        if not kept:
            return (None, *(None for _ in inputs))
        found = iter(
            torch.autograd.grad(
                [outputs[place] for place in kept],
                [each for each, need in zip(inputs, wanted, strict=True) if need],
                [gradients[place] for place in kept],
                allow_unused=True,
            )
        )
        return (None, *(next(found) if need else None for need in wanted))


def _run(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor], wanted: Sequence[bool]
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """A function's results with their graph, from inputs that have none."""
    with torch.enable_grad():
        fresh = [each.detach().requires_grad_(need) for each, need in zip(inputs, wanted, strict=True)]
        return fresh, function(*fresh)


def recomputed(function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
    """A function of tensors, of which only the inputs are kept until its gradient is taken, once.

    Args:
        function: Has no effect but its results, which depend on its inputs alone.
        inputs: What it is called with.

    Returns:
        Its results; second derivatives of them cannot be taken.
    """
    return cast(tuple[Tensor, ...], _Recomputed.apply(function, *inputs))  # type: ignore[no-untyped-call]
