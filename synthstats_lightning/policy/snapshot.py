"""A copy of the adapter, as a reference policy that can be moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from synthstats_lightning.policy.wide_adapter import WideAdapter


def copy_adapter(policy: WideAdapter) -> dict[str, Tensor]:
    """The adapter's parameters as they are now, copied."""
    return {name: value.clone() for name, value in policy.adapter_state_dict().items()}


@contextmanager
def adapter_as(policy: WideAdapter, state: Mapping[str, Tensor]) -> Iterator[None]:
    """Within this context the policy has another adapter; afterwards its own, bit for bit.

    Not for passes with a gradient; those before and after it have theirs, because nothing is written over.
    """
    own = {name: value for name, value in policy.named_parameters() if value.requires_grad}
    kept = {name: value.data for name, value in own.items()}
    for name, value in own.items():
        value.data = state[name].to(value.device, value.dtype)
    try:
        with torch.no_grad():
            yield
    finally:
        for name, value in own.items():
            value.data = kept[name]
