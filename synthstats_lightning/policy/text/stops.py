"""What ends an answer: tokens, and for base models strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from synthstats_lightning.policy.encoding import render_chat
from synthstats_lightning.policy.language_part import text_config

_TURN = "TURN_OF_THE_POLICY"


def stop_token_ids(
    tokenizer: Any, generation_config: Any | None, config: Any | None = None
) -> tuple[int, ...]:
    """Tokens that end an answer, the one that the chat template ends a turn with first.

    All of them: of the tokenizer, of the generation configuration, of the model's own (a multimodal one's
    language part included), and what the chat template writes behind the last turn of an assistant.

    Args:
        tokenizer: A transformers tokenizer.
        generation_config: How the model is to be sampled, if that is known.
        config: Configuration of the model, if that is known.

    Raises:
        ValueError: If none of them names one.
    """
    language_part = None if config is None else text_config(config)
    found: list[int] = []
    for holder in (tokenizer, generation_config, config, language_part):
        named = getattr(holder, "eos_token_id", None)
        found += [
            token for token in (named if isinstance(named, list | tuple) else [named]) if token is not None
        ]
    turn_end = turn_end_token(tokenizer)
    if turn_end is None and not found:
        raise ValueError(
            "the tokenizer has no end-of-sequence token, so a program could never end; set eos_token"
        )
    template = str(getattr(tokenizer, "chat_template", None) or "")
    in_template = [token for token in found if str(tokenizer.convert_ids_to_tokens(token)) in template]
    first = [] if turn_end is None else [turn_end]
    return tuple(dict.fromkeys([*first, *in_template, *found]))


def turn_end_token(tokenizer: Any) -> int | None:
    """The special token that the chat template writes behind the last turn of an assistant, if it does."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    from jinja2.exceptions import TemplateError

    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _TURN}]
    try:
        text = render_chat(tokenizer, messages, begin_answer=False)
    except TemplateError:  # a template that writes no turns of an assistant ends none
        return None
    _, written, behind = text.rpartition(_TURN)
    if not written:
        return None
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    ids = tokenizer(behind, add_special_tokens=False).input_ids
    return next((token for token in ids if token in special), None)


class StopStrings:
    """Finds rows that have just written one of some strings.

    Args:
        tokenizer: A transformers tokenizer.
        strings: Strings that end an answer.
    """

    def __init__(self, tokenizer: Any, strings: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.strings = tuple(strings)
        # a token holds a byte at least
        self.window = max((len(string.encode()) for string in self.strings), default=0)

    def __bool__(self) -> bool:
        return bool(self.strings)

    def ended(self, ids: Int[Tensor, "rows written"]) -> Bool[Tensor, " rows"]:
        """Whether the last token of each row has completed a string.

        Args:
            ids: Tokens written so far, the same number in each row.
        """
        texts = self.tokenizer.batch_decode(
            ids[:, -self.window :].tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        found = [any(string in text for string in self.strings) for text in texts]
        return torch.tensor(found, device=ids.device)


def check_stop_strings(strings: Sequence[str]) -> None:
    """Refuses strings that end nothing, or everything.

    Args:
        strings: Strings that end an answer.

    Raises:
        ValueError: If one of them is empty.
    """
    if "" in strings:
        raise ValueError(f"stop_strings must not hold an empty string, got {list(strings)}")
