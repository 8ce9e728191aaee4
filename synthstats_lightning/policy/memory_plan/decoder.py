"""What decoding asks of a policy."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from synthstats_lightning.policy.log_probs import OutputHead, ProgramLogProbs
from synthstats_lightning.policy.memory_plan.plan import DecodingMemory
from synthstats_lightning.policy.text.spelling import Spelling
from synthstats_lightning.policy.text.stops import StopStrings


@runtime_checkable
class Decoder(Protocol):
    """A language model that writes and reads tokens; `Policy` is one."""

    model: Any
    tokenizer: Any
    stop_token_ids: tuple[int, ...]
    stop_strings: StopStrings
    pad_token_id: int
    memory: DecodingMemory
    spelling: Spelling

    @property
    def backbone(self) -> Any:
        """The part of the model that reads and writes text, without its head."""
        ...

    @property
    def text_config(self) -> Any:
        """Configuration of that part."""
        ...

    @property
    def head(self) -> OutputHead:
        """From hidden states to logits."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    def reference(self) -> AbstractContextManager[None]:
        """A context within which the reference policy is in its place."""
        ...

    def tokens_per_pass(self) -> int:
        """Padded tokens that one teacher-forced pass without gradient sees."""
        ...

    def token_log_probs(
        self,
        prompt_ids: Tensor,
        program_ids: Tensor,
        program_mask: Tensor,
        prompt_mask: Tensor | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
    ) -> Tensor:
        """Log-probability of each program token, in nats."""
        ...

    def token_and_stop_log_probs(
        self,
        prompt_ids: Tensor,
        program_ids: Tensor,
        program_mask: Tensor,
        prompt_mask: Tensor | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
    ) -> ProgramLogProbs:
        """Log-probability of each program token and of stopping in its place, with the hidden states."""
        ...

    def program_log_probs(
        self,
        prompt_ids: Tensor,
        program_ids: Tensor,
        program_mask: Tensor,
        prompt_mask: Tensor | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
    ) -> Tensor:
        """Log-probability of each program, in nats."""
        ...
