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
UNKNOWN = ("softcap", "position_bias", "s_aux")
"""Arguments that change the weights and are left to transformers, which knows them or refuses them."""


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

    The heads of a group may stand where the queries of several positions do: keys and values are then read
    once a group and not once a head. In float32 on a CPU the sums are written out, as two batches of matrix
    products: PyTorch's kernel is made for many queries and takes up to twice the time for a few.

    Args:
        module: The attention layer.
        query: Queries of the new tokens.
        key: Keys; each serves `heads / groups` query heads.
        value: Values.
        attention_mask: As transformers makes it for `sdpa`, bool (True where attended to) or float (added);
            `None` where nothing is hidden but the future.
        scaling: Factor of the inner products; that of the width by default.
        **others: Passed on.

    Returns:
        The mixed values, and None in place of the weights.
    """
    batch, heads, new, width = query.shape
    groups = key.shape[1]
    written_out = is_written_out(query, key, value)
    if (
        new > 1
        or others.get("dropout")
        or any(others.get(name) is not None for name in UNKNOWN)
        or not (written_out or (attention_mask is None and groups < heads))
        or not (attention_mask is None or attention_mask.shape[1:3] == (1, 1))
    ):
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return found
    packed = query.reshape(batch, groups, heads // groups, width)
    if written_out:
        mixed = _written_out(packed, key, value, attention_mask, width**-0.5 if scaling is None else scaling)
    else:
        mixed = torch.nn.functional.scaled_dot_product_attention(packed, key, value, scale=scaling)
    return mixed.reshape(batch, 1, heads, value.shape[-1]), None


def is_written_out(*tensors: Tensor) -> bool:
    """Whether queries, keys and values are multiplied here; autocast would round the inner products."""
    plain = all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    return plain and not torch.is_autocast_enabled("cpu")


def _written_out(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """The softmax of the inner products times the values, for keys of either order in memory."""
    scores = (query * scaling) @ key.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ value


def register() -> str:
    """Makes the attention known to transformers and returns its name."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    return NAME
