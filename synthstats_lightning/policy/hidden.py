"""Hidden states that predict program tokens, with the prompt's part computed once per distinct prompt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Forward = Callable[..., Tensor]
"""From a backbone and its arguments to last hidden states."""


def last_hidden_states(backbone: nn.Module, **arguments: Any) -> Tensor:
    """One call of a language model without its head."""
    hidden: Tensor = backbone(**arguments, return_dict=True).last_hidden_state
    return hidden


def distinct_prompts(
    prompts: Sequence[Sequence[int]], counts: Int[Tensor, " prompts"]
) -> tuple[list[tuple[int, ...]], Int[Tensor, " batch"]]:
    """Each prompt that has rows once, and which of them each row has.

    Args:
        prompts: Token ids of the prompts.
        counts: How many rows each of them has.
    """
    wanted = [tuple(prompt) for prompt, count in zip(prompts, counts.tolist(), strict=True) if count]
    distinct = list(dict.fromkeys(wanted))
    prompt_of = torch.tensor([distinct.index(prompt) for prompt in wanted], device=counts.device)
    return distinct, prompt_of.repeat_interleave(counts[counts > 0])


def pad_left(
    prompts: list[list[int]], pad_id: int, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Prompts as one tensor, padded on the left.

    Args:
        prompts: Token ids, at least one each.
        pad_id: What fills the front of shorter prompts.
        device: Where to put the tensors.

    Returns:
        Token ids and mask (True on prompt tokens), both `[batch, prompt]`.
    """
    width = max(len(prompt) for prompt in prompts)
    ids = [[pad_id] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[False] * (width - len(prompt)) + [True] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def pad_right(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """Programs as one tensor, padded on the right, and True on their tokens.

    Args:
        rows: Token ids, at least one row.
        pad_id: What fills the end of shorter rows.
        device: Where to put the tensors.
    """
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], dtype=torch.long)
    return ids.to(device), (torch.arange(width) < lengths[:, None]).to(device)


def run_backbone(
    backbone: nn.Module,
    ids: Int[Tensor, "batch new"],
    mask: Bool[Tensor, "batch all"] | None,
    past_key_values: Any | None,
    past: int = 0,
    forward: Forward = last_hidden_states,
) -> Float[Tensor, "batch new hidden"]:
    """Last hidden states of new tokens.

    Args:
        backbone: A language model without its head.
        ids: Token ids of the new tokens, `[batch, new]`.
        mask: True on real tokens, over past and new ones; `None` where nothing is padded, which spares the
            attention a mask.
        past_key_values: Keys and values of the `past` tokens; extended in place. `None` for none.
        past: How many those are.
        forward: What calls the backbone, such as its compiled form.

    Returns:
        Hidden states of the new tokens.
    """
    new = ids.shape[1]
    if mask is None:
        positions = torch.arange(past, past + new, device=ids.device)[None].expand(ids.shape[0], -1)
    else:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -new:]
    arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": None if mask is None else mask.long()}
    kind: Any = type(backbone)
    if _takes(kind, "position_ids"):
        arguments["position_ids"] = positions
    # models without attention call their cache otherwise, and want a mask of what is new
    stateful = _takes(kind, "cache_params")
    arguments["cache_params" if stateful else "past_key_values"] = past_key_values
    if stateful and mask is not None:
        arguments["attention_mask"] = mask[:, -new:].long()
    return forward(backbone, **arguments, use_cache=past_key_values is not None)


@cache
def _takes(kind: Any, name: str) -> bool:
    """Whether a model takes an argument: those with relative biases, for one, take no `position_ids`."""
    return name in inspect.signature(kind.forward).parameters


def program_hidden_states(
    backbone: nn.Module,
    config: Any,
    prompt_ids: Int[Tensor, "batch prompt"],
    prompt_mask: Bool[Tensor, "batch prompt"],
    program_ids: Int[Tensor, "batch time"],
    share_prompts: bool,
    forward: Forward = last_hidden_states,
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch time hidden"]:
    """Hidden states at the positions that predict each program token.

    Args:
        backbone: A language model without its head.
        config: Configuration of the language model, which its caches are made from.
        prompt_ids: Token ids of the prompts, padded on the left.
        prompt_mask: True on prompt tokens.
        program_ids: Right-padded. Padding needs no mask: no token sees what comes after it.
        share_prompts: Compute each distinct prompt once and let its programs share the keys and values,
            gradient included.
        forward: What calls the backbone, such as its compiled form.
        lengths: Tokens of each program that anything is predicted of, at least one; by default all columns.

    Returns:
        Position t holds what predicts `program_ids[:, t]`; behind a program's length it holds anything.
    """
    first = int(prompt_mask.any(0).int().argmax())
    prompt_ids, prompt_mask = prompt_ids[:, first:], prompt_mask[:, first:]
    width = prompt_ids.shape[1]
    padded = not bool(prompt_mask.all())
    if share_prompts and width > 1:
        distinct, group = torch.unique(prompt_ids.masked_fill(~prompt_mask, -1), dim=0, return_inverse=True)
        if 2 * distinct.shape[0] <= prompt_ids.shape[0]:
            from synthstats_lightning.policy.cache import training_cache

            shared = training_cache(config)
            prefix_mask = (distinct >= 0)[:, :-1] if padded else None
            run_backbone(backbone, distinct[:, :-1].clamp(min=0), prefix_mask, shared, forward=forward)
            shared.reorder_cache(group)
            ids = torch.cat([prompt_ids[:, -1:], program_ids[:, :-1]], 1)
            program_mask = torch.ones_like(program_ids, dtype=torch.bool)
            mask = torch.cat([prompt_mask[:, :-1], program_mask], 1) if padded else None
            return run_backbone(backbone, ids, mask, shared, width - 1, forward)
    ids = torch.cat([prompt_ids, program_ids[:, :-1]], 1)
    if not padded:
        return run_backbone(backbone, ids, None, None, forward=forward)[:, width - 1 :]
    # a row's tokens are contiguous: with all of its padding behind them no mask is needed, and a long prompt
    # before a short program takes no more room than a short one before a long program
    own = prompt_mask.sum(1)
    last = torch.full_like(own, program_ids.shape[1]) if lengths is None else lengths
    longest = max(1, int((own + last).max()) - 1)
    place = torch.arange(longest, device=ids.device) + (width - own)[:, None]
    hidden = run_backbone(backbone, ids.gather(1, place % ids.shape[1]), None, None, forward=forward)
    predicting = torch.arange(program_ids.shape[1], device=ids.device) + (own - 1)[:, None]
    predicting = predicting.clamp(max=longest - 1)[..., None]
    return hidden.gather(1, predicting.expand(-1, -1, hidden.shape[-1]))
