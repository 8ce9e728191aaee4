"""What may follow a prompt and the last two tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

UNLIKELY = 15.0
"""Nats that a token loses where a rule speaks against it. It is no ban: a program from elsewhere that breaks
a rule still has a probability, so that it can be imitated and replayed."""


class TokenRule(NamedTuple):
    """Tokens that are all but ruled out after certain two.

    Attributes:
        before: Which tokens the last but one is of, by prompt.
        last: Which tokens the last is of, by prompt.
        unlikely: Which tokens lose `UNLIKELY` nats then, by prompt.
    """

    before: Bool[Tensor, "prompts vocabulary"]
    last: Bool[Tensor, "prompts vocabulary"]
    unlikely: Bool[Tensor, "prompts vocabulary"]


class TokenLimits(NamedTuple):
    """Which tokens can be written after which, the same for a policy and its reference.

    Attributes:
        allowed: True on the tokens that may follow a prompt; all others have probability 0.
        rules: What else is all but ruled out, which depends on the last two tokens.
    """

    allowed: Bool[Tensor, "prompts vocabulary"]
    rules: tuple[TokenRule, ...] = ()

    def masked(
        self,
        logits: Float[Tensor, "tokens vocabulary"],
        row: Int[Tensor, " tokens"],
        last_two: Int[Tensor, "tokens 2"],
    ) -> Float[Tensor, "tokens vocabulary"]:
        """Logits with what is limited.

        Args:
            logits: What the language model gives each token.
            row: Which prompt each token follows.
            last_two: The two tokens before each, the nearer last; -1 where there is none.
        """
        for before, last, unlikely in self.rules:
            known = (last_two >= 0) & (last_two < logits.shape[-1])  # positions of a digest are no tokens
            first, second = last_two.where(known, 0).unbind(-1)
            applies = known.all(-1) & before[row, first] & last[row, second]
            logits = logits - UNLIKELY * (applies[:, None] & unlikely[row]).to(logits.dtype)
        return logits.masked_fill(~self.allowed[row], -torch.inf)


def preceding_two(
    prompt_ids: Int[Tensor, "batch prompt"], program_ids: Int[Tensor, "batch time"]
) -> Int[Tensor, "batch time 2"]:
    """The two tokens before each of a program, the nearer last.

    Args:
        prompt_ids: Token ids of the prompts, padded on the left.
        program_ids: Token ids of the programs, padded on the right.
    """
    first = prompt_ids.new_full((len(prompt_ids), 2), -1)
    whole = torch.cat([first, prompt_ids, program_ids], 1)[:, -program_ids.shape[1] - 2 : -1]
    return torch.stack([whole[:, :-1], whole[:, 1:]], -1)
