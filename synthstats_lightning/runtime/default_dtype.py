"""The type of new tensors, which Lightning's half-precision plugins change for whatever a step calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def float32_by_default() -> Iterator[None]:
    """Within this context new tensors are float32 where half precision was the default.

    Sums over tokens, random numbers and log-probabilities are made there: in bfloat16 a uniform number has
    256 values, and a sum of 100 tokens is off by nats.
    """
    before = torch.get_default_dtype()
    if before in (torch.bfloat16, torch.float16):
        torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
