"""Attention for training on CPU: plain matrix products, which bfloat16 units and the compiler take well."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "pretraining_plain"


def plain_attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads time width"],
    key: Float[Tensor, "batch groups time width"],
    value: Float[Tensor, "batch groups time width"],
    attention_mask: Bool[Tensor, "batch one time time"],
    scaling: float,
    **_: Any,
) -> tuple[Float[Tensor, "batch time heads width"], None]:
    """Grouped-query attention under an explicit mask, in the interface of transformers.

    Args:
        module: The attention layer; unused.
        query: Queries of all heads.
        key: Keys; each serves `heads / groups` query heads.
        value: Values of the key-value heads.
        attention_mask: Whether a query (third axis) sees a key (fourth axis).
        scaling: Factor of the inner products.

    Returns:
        The mixed values, and None in place of the weights.
    """
    batch, heads, time, width = query.shape
    groups = key.shape[1]
    lower = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    stacked = (query * scaling).reshape(batch * groups, heads // groups * time, width).to(lower)
    keys, values = (each.reshape(batch * groups, time, width).to(lower) for each in (key, value))
    hidden = torch.zeros_like(attention_mask, dtype=lower).masked_fill_(~attention_mask, -torch.inf)
    hidden = (
        hidden[:, :, None].expand(batch, groups, heads // groups, time, time).reshape(len(keys), -1, time)
    )
    with torch.autocast("cpu", enabled=False):  # which would take the weights in float32 and copy them twice
        weights = torch.softmax(torch.baddbmm(hidden, stacked, keys.transpose(1, 2)), dim=-1)
        mixed = weights @ values
    return mixed.reshape(batch, heads, time, width).transpose(1, 2).contiguous(), None


def register() -> str:
    """Makes the attention known to transformers and returns its name."""
    AttentionInterface.register(NAME, plain_attention)
    return NAME
