"""A copy of the adapter, as a reference policy that can be moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from synthstats_lightning.policy.policy import Policy


def copy_adapter(policy: Policy) -> dict[str, Tensor]:
    """The adapter's parameters as they are now, copied."""
    return {name: value.clone() for name, value in policy.adapter_state_dict().items()}


@contextmanager
def adapter_as(policy: Policy, state: Mapping[str, Tensor]) -> Iterator[None]:
    """Within this context the policy has another adapter; afterwards its own, bit for bit.

    Not for passes with a gradient.
    """
    own = copy_adapter(policy)
    policy.load_adapter_state_dict({name: value.to(own[name].device) for name, value in state.items()})
    try:
        with torch.no_grad():
            yield
    finally:
        policy.load_adapter_state_dict(own)
