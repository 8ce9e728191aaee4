"""Attention of one new token, for models whose query heads share keys and values.

Imports transformers: import this module inside functions only.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

NAME = "grouped_sdpa"


def grouped_attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads new width"],
    key: Float[Tensor, "batch groups time width"],
    value: Float[Tensor, "batch groups time width"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "batch new heads width"], None]:
    """Transformers' own `sdpa`, but that heads which share keys are queries of one head in decoding.

    A token that sees everything before it needs no mask, so the heads of a group may stand where the queries
    of several positions do. Keys and values are then read once a group and not once a head.

    Args:
        module: The attention layer.
        query: Queries of the new tokens.
        key: Keys; each serves `heads / groups` query heads.
        value: Values.
        attention_mask: As transformers makes it for `sdpa`; `None` where nothing is hidden but the future.
        scaling: Factor of the inner products; that of the width by default.
        **others: Passed on.

    Returns:
        The mixed values, and None in place of the weights.
    """
    batch, heads, new, width = query.shape
    groups = key.shape[1]
    if new > 1 or groups == heads or attention_mask is not None or others.get("dropout"):
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return found
    packed = query.reshape(batch, groups, heads // groups, width)
    mixed = torch.nn.functional.scaled_dot_product_attention(packed, key, value, scale=scaling)
    return mixed.reshape(batch, 1, heads, width), None


def register() -> str:
    """Makes the attention known to transformers and returns its name."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    return NAME
