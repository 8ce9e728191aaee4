"""Precision of a training's matrix products."""

from __future__ import annotations

import torch

PRECISIONS = ("auto", "bf16", "fp32")
"""Values of the setting: `"auto"` is bfloat16 where the processor has instructions for it, else float32."""

INSTRUCTIONS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
"""Functions of `torch.cpu` that say so: there are no public ones."""


def in_bfloat16(precision: str) -> bool:
    """Whether matrix products are taken in bfloat16.

    Without instructions for it bfloat16 is emulated, which takes about forty times as long as float32.

    Args:
        precision: One of `PRECISIONS`.

    Raises:
        ValueError: If it is none of them.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision == "auto":
        asked = [getattr(torch.cpu, name, None) for name in INSTRUCTIONS]
        return any(ask() for ask in asked if ask is not None)
    return precision == "bf16"
