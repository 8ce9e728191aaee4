"""Who writes a policy's programs: the policy itself, or another process that holds the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from synthstats_lightning.policy.lora import folded
from synthstats_lightning.policy.memory_plan.decoder import Decoder
from synthstats_lightning.policy.memory_plan.row_blocks import decode_rows
from synthstats_lightning.policy.sampling import Decoded, RowRandomness, SamplingSettings


@runtime_checkable
class SamplingBackend(Protocol):
    """Continues prompts by programs.

    Whoever writes them, `Decoded.log_prob` and `Decoded.token_log_probs` are the trainer's own: of the given
    tokens under the policy as it is now, at temperature 1.
    """

    def drawing(self, policy: Decoder) -> AbstractContextManager[None]:
        """A context around calls of `decode` between which the policy does not change.

        Args:
            policy: The policy, in eval mode.
        """
        ...

    def decode(
        self,
        policy: Decoder,
        prompts: Sequence[Sequence[int]],
        row_prompt: Int[Tensor, " batch"],
        settings: SamplingSettings,
        generator: torch.Generator,
        randomness: RowRandomness | None = None,
    ) -> Decoded:
        """Draws one program a row.

        Args:
            policy: The policy, in eval mode.
            prompts: Token ids of the prompts, each of them once.
            row_prompt: Which prompt each row continues.
            settings: Temperature, exploration and length limits of sampling.
            generator: Source of all randomness, on CPU.
            randomness: Of the rows, where they have drawn it themselves.
        """
        ...


class LocalBackend:
    """The policy's own decoding loop, in this process."""

    def drawing(self, policy: Decoder) -> AbstractContextManager[None]:
        """The adapter is part of its layers' weights meanwhile.

        Args:
            policy: The policy, in eval mode.
        """
        return folded(policy.model)

    def decode(
        self,
        policy: Decoder,
        prompts: Sequence[Sequence[int]],
        row_prompt: Int[Tensor, " batch"],
        settings: SamplingSettings,
        generator: torch.Generator,
        randomness: RowRandomness | None = None,
    ) -> Decoded:
        """Draws one program a row; see `decode_rows`.

        Args:
            policy: The policy, in eval mode.
            prompts: Token ids of the prompts, each of them once.
            row_prompt: Which prompt each row continues.
            settings: Temperature, exploration and length limits of sampling.
            generator: Source of all randomness, on CPU.
            randomness: Of the rows, where they have drawn it themselves; the generator is not used then.
        """
        return decode_rows(policy, prompts, row_prompt, settings, generator, randomness)


class ReferenceBackend(LocalBackend):
    """The same loop with the adapter off: the reference policy writes."""

    def drawing(self, policy: Decoder) -> AbstractContextManager[None]:
        """The policy is its reference meanwhile.

        Args:
            policy: The policy, in eval mode.
        """
        return policy.reference()


LOCAL = LocalBackend()
"""What writes programs unless something else is given."""
REFERENCE = ReferenceBackend()
"""What writes programs of the prior, where it is given the prior's prompts."""
