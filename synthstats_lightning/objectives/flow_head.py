"""The learned flow of a prefix."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from synthstats_lightning.objectives.float32 import Float32Module


class FlowHead(Float32Module):
    """How far the log flow of a prefix is from log Z, as a function of the policy's hidden state.

    A layer of `width` units on standardised hidden states, zero at first. Hidden states are constants here:
    the flow's gradient does not reach the policy, whose own token log-probabilities balance it.

    Args:
        hidden_size: Width of the policy's hidden states.
        width: Units of the hidden layer.
        seed: Seed of the head's first weights.

    Raises:
        ValueError: If a number is less than 1.
    """

    def __init__(self, hidden_size: int, width: int = 64, seed: int = 0) -> None:
        super().__init__()
        if min(hidden_size, width) < 1:
            raise ValueError(f"hidden_size and width must be at least 1, got {hidden_size} and {width}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.LayerNorm(hidden_size, elementwise_affine=False),
                nn.Linear(hidden_size, width, dtype=torch.float32),
                nn.GELU(),
                nn.Linear(width, 1, dtype=torch.float32),
            )
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(
        self, hidden: Float[Tensor, "batch time hidden"], log_z: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch time"]:
        """Log flow of the prefix before each token, in nats.

        Args:
            hidden: Last hidden states that predict each token.
            log_z: log Z of each row's task, from which flows are measured; no gradient flows through it.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            difference: Tensor = self.layers(hidden.detach().float())
        return log_z.detach()[:, None] + difference[..., 0]
