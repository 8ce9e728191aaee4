"""A batch in pieces that fit into memory, for losses that need the whole batch at once.

A first pass without a graph yields the values of all rows, so that any loss can be computed from them; in the
backward pass each piece is computed again, now with its graph, and adds its part to the parameters' gradient
(gradient caching; Gao et al. 2021, arXiv:2101.06983). Memory is that of one piece, time that of one more
forward pass. To autograd the whole is one function of the parameters: every gradient arrives once, as
distributed training wants it, and scaling, clipping and accumulation work as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

Pass = Callable[[Tensor], list[Tensor]]
"""From row indices to values whose leading axis are those rows."""


def micro_batches(
    prompt_ids: Int[Tensor, "batch prompt"],
    prompt_mask: Bool[Tensor, "batch prompt"],
    program_lengths: Int[Tensor, " batch"],
    limit: int,
) -> list[Int[Tensor, " rows"]]:
    """Row indices in groups of at most so many padded tokens.

    Rows of one prompt stay together, so that they can share it, and are ordered by length.

    Args:
        prompt_ids: Token ids of the prompts, padded on the left.
        prompt_mask: True on prompt tokens.
        program_lengths: Tokens of each program.
        limit: Rows of a group times the longest prompt and the longest program in it, at most; a row that is
            longer by itself is a group of its own.

    Returns:
        Indices of every row once, on the CPU; one group in the given order if all fit together.
    """
    prompts = prompt_mask.sum(1).tolist()
    programs = program_lengths.tolist()
    rows = len(programs)
    if rows * (max(prompts) + max(programs)) <= limit:
        return [torch.arange(rows)]
    _, same = torch.unique(prompt_ids.masked_fill(~prompt_mask, -1), dim=0, return_inverse=True)
    of_prompt = same.tolist()
    order = sorted(range(rows), key=lambda row: (prompts[row], of_prompt[row], programs[row]))
    groups: list[list[int]] = []
    prompt = program = 0
    for row in order:
        prompt, program = max(prompt, prompts[row]), max(program, programs[row])
        if groups and (len(groups[-1]) + 1) * (prompt + program) <= limit:
            groups[-1].append(row)
        else:
            groups.append([row])
            prompt, program = prompts[row], programs[row]
    return [torch.tensor(group) for group in groups]


def joined(run: Pass, groups: Sequence[Tensor], num_rows: int) -> list[Tensor]:
    """Values of all rows from passes over groups of them.

    Args:
        run: Computes some rows.
        groups: Row indices, every row once.
        num_rows: Rows of all groups.
    """
    whole: list[Tensor] = []
    for rows in groups:
        parts = run(rows)
        if not whole:
            whole = [part.new_zeros(num_rows, *part.shape[1:]) for part in parts]
        whole = [
            values.index_copy(0, rows.to(values.device), part)
            for values, part in zip(whole, parts, strict=True)
        ]
    return whole


def recomputed(
    run: Pass, groups: Sequence[Tensor], num_rows: int, parameters: Sequence[Tensor]
) -> list[Tensor]:
    """As `joined`, with the graph of one group at a time.

    Random numbers (dropout) and autocast are the same in both passes.

    Args:
        run: Computes some rows; called twice for each group.
        groups: Row indices, every row once.
        num_rows: Rows of all groups.
        parameters: What the values depend on and gradients are wanted for.
    """
    if not torch.is_grad_enabled():
        return joined(run, groups, num_rows)
    values: tuple[Tensor, ...] = _Recomputed.apply(  # type: ignore[no-untyped-call]
        run, groups, num_rows, *parameters
    )
    return list(values)


class _Recomputed(torch.autograd.Function):
    """`joined` as one function of the parameters, whose backward pass runs the groups again."""

    @staticmethod
    def forward(
        context: Any, run: Pass, groups: Sequence[Tensor], num_rows: int, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        """Values of all rows, without a graph."""
        context.set_materialize_grads(False)
        context.run, context.groups, context.states = run, groups, []
        context.save_for_backward(*parameters)
        context.device = parameters[0].device
        context.autocast = _autocast_state(context.device.type)

        def remembered(rows: Tensor) -> list[Tensor]:
            context.states.append(_random_state(context.device))
            return run(rows)

        return tuple(joined(remembered, groups, num_rows))

    @staticmethod
    @once_differentiable
    def backward(context: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        """The parameters' gradients, summed over the groups."""
        parameters = context.saved_tensors
        used = [index for index, slope in enumerate(slopes) if slope is not None]
        total: list[Tensor | None] = [None] * len(parameters)
        for rows, state in zip(context.groups, context.states, strict=True):
            cuda = [context.device] if context.device.type == "cuda" else []
            with (
                torch.random.fork_rng(cuda),
                torch.enable_grad(),
                torch.autocast(context.device.type, **context.autocast),
            ):
                _set_random_state(state, context.device)
                parts = context.run(rows)
            given = [slopes[index].index_select(0, rows.to(slopes[index].device)) for index in used]  # type: ignore[union-attr]
            pulled = torch.autograd.grad(
                [parts[index] for index in used], parameters, given, allow_unused=True
            )
            for index, gradient in enumerate(pulled):
                before = total[index]
                if gradient is not None:
                    total[index] = gradient if before is None else before + gradient
        return None, None, None, *total


def _autocast_state(device: str) -> dict[str, Any]:
    return {
        "enabled": torch.is_autocast_enabled(device),
        "dtype": torch.get_autocast_dtype(device),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), cuda


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
