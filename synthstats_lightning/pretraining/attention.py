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
    stacked = (query * scaling).reshape(batch, groups, heads // groups * time, width)
    scores = (stacked @ key.transpose(2, 3)).reshape(batch, heads, time, time)
    weights = torch.softmax(scores.masked_fill(~attention_mask, float("-inf")), dim=-1).to(value.dtype)
    mixed = weights.reshape(batch, groups, heads // groups * time, time) @ value
    return mixed.reshape(batch, heads, time, width).transpose(1, 2).contiguous(), None


def register() -> str:
    """Makes the attention known to transformers and returns its name."""
    AttentionInterface.register(NAME, plain_attention)
    return NAME
