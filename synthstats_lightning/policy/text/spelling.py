"""How a policy words requests and programs: where text becomes tokens, and tokens become text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from synthstats_lightning.policy import encoding
from synthstats_lightning.policy.text.answer_tokens import ReadProgram, plain_text, read_program
from synthstats_lightning.policy.text.token_limits import TokenLimits
from synthstats_lightning.tasks.facts import Facts


@runtime_checkable
class Spelling(Protocol):
    """The one place where sources become tokens, and tokens become sources.

    What is stored and trained on are token ids, as they were sampled; names come in when a program is read.
    """

    plain: bool
    """Whether tokens are text, as chats of several turns and servers take them."""

    def prompt(self, rules: str, request: str, thinking: bool, data: str, facts: Facts | None) -> list[int]:
        """Token ids of a prompt, up to where the program starts; see `tasks.Prompt`.

        Args:
            rules: What a program is.
            request: What the data are, in words.
            thinking: Whether a model that can think is asked to.
            data: What is shown of the data, in words.
            facts: The same as an object, of a task's prompt.
        """
        ...

    def program(self, source: str, facts: Facts | None) -> list[int]:
        """Token ids of a given program, without a stop token.

        Args:
            source: Source text with the columns' own names.
            facts: The request that it answers.
        """
        ...

    def text(self, ids: Sequence[int], facts: Facts | None) -> str:
        """What tokens say, as they were written and with the columns' own names.

        Args:
            ids: Token ids of one answer, without its stop token.
            facts: The request that it answers.
        """
        ...

    def read(self, ids: Sequence[int], facts: Facts | None, stop_strings: Sequence[str]) -> ReadProgram:
        """The program in an answer, and which tokens it was taken from.

        Args:
            ids: Token ids of one answer, without its stop token.
            facts: The request that it answers.
            stop_strings: Strings that end an answer.
        """
        ...

    def limits(self, prompt_ids: Int[Tensor, "prompts tokens"]) -> TokenLimits | None:
        """Which tokens may follow each prompt and what was written so far; `None` where all may.

        It depends on nothing but what both prompts of a task have in common, so that policy and reference
        have the same support.

        Args:
            prompt_ids: Token ids of prompts, padded or not, perhaps with the beginning of a program.
        """
        ...


class PlainSpelling:
    """That of any ordinary language model: text is text.

    Args:
        tokenizer: A transformers tokenizer.
    """

    plain = True

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def prompt(self, rules: str, request: str, thinking: bool, data: str, facts: Facts | None) -> list[int]:
        """Rules, request and data in the chat template; see `encoding.encode_prompt`."""
        return encoding.encode_prompt(self.tokenizer, rules, request, thinking, data)

    def program(self, source: str, facts: Facts | None) -> list[int]:
        """Tokens of the text as it is."""
        ids: list[int] = self.tokenizer(source, add_special_tokens=False).input_ids
        return ids

    def text(self, ids: Sequence[int], facts: Facts | None) -> str:
        """Text of the tokens, special ones visible."""
        return plain_text(self.tokenizer, ids)

    def read(self, ids: Sequence[int], facts: Facts | None, stop_strings: Sequence[str]) -> ReadProgram:
        """Without thoughts, prose and code fences; see `programs.answers`."""
        return read_program(self.tokenizer, ids, stop_strings)

    def limits(self, prompt_ids: Int[Tensor, "prompts tokens"]) -> TokenLimits | None:
        """All tokens may follow."""
        return None
