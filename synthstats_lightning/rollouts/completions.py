"""vLLM's completions with token ids in and out: what is asked, and what may be believed of the answer.

The fields are those of vLLM 0.32, `vllm/entrypoints/openai/completion/protocol.py`. Every field is sent: a
server fills those that are left out from the model's generation configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from synthstats_lightning.rollouts.errors import AnswerError

PATH = "/v1/completions"
REASONS = ("stop", "length")
"""Why a program that may be learned from has ended."""
ROUNDING = 1e-3
"""Nats by which a log-probability may be above 0."""


@dataclass(frozen=True)
class CompletionRequest:
    """Programs of one prompt.

    Attributes:
        prompt: Token ids of the prompt.
        number: How many programs.
        seed: Random seed of the first program; each further one has the next.
        max_tokens: Most tokens of a program, stop token included.
        min_tokens: Fewest tokens, stop token not counted.
        temperature: Divides the logits.
        top_p: Probability of the likeliest tokens that are kept.
        stop_ids: Tokens that end a program; with none every program has `max_tokens`.
        stop_strings: Strings that end a program, too.
        vocabulary: How many tokens there are.
    """

    prompt: tuple[int, ...]
    number: int
    seed: int
    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    vocabulary: int = 0

    def body(self, model: str) -> dict[str, Any]:
        """What is posted.

        Args:
            model: Name of the base model, or of an adapter, at the server.
        """
        return {
            "model": model,
            "prompt": list(self.prompt),
            "n": self.number,
            "max_tokens": self.max_tokens,
            "min_tokens": self.min_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop": list(self.stop_strings),
            "stop_token_ids": list(self.stop_ids),
            "ignore_eos": not self.stop_ids,
            "seed": self.seed,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            "cache_salt": model,
            "stream": False,
        }


class Completion(NamedTuple):
    """One program.

    Attributes:
        ids: Its tokens, stop token included.
        stopped: Whether it ended by itself.
        log_probs: The server's own, of each token, in nats.
    """

    ids: tuple[int, ...]
    stopped: bool
    log_probs: tuple[float, ...]


def read_completions(answer: Any, request: CompletionRequest) -> list[Completion] | None:
    """The programs of an answer, in the order of their seeds; `None` if the server broke one off.

    Args:
        answer: What the server has sent.
        request: What it was asked.

    Raises:
        AnswerError: If a field is missing, or its value is not what was asked for.
    """
    choices = field_of(answer, "choices", list, "the answer")
    if len(choices) != request.number:
        raise AnswerError(f"choices must hold {request.number} programs, got {len(choices)}")
    found: dict[int, Completion] = {}
    for choice in choices:
        index = field_of(choice, "index", int, "a choice")
        if field_of(choice, "finish_reason", str, f"choices[{index}]") == "abort":
            return None
        found[index] = _read_choice(choice, request, f"choices[{index}]")
    if sorted(found) != list(range(request.number)):
        raise AnswerError(f"index must go from 0 to {request.number - 1}, got {sorted(found)}")
    return [found[index] for index in range(request.number)]


def _read_choice(choice: Mapping[str, Any], request: CompletionRequest, where: str) -> Completion:
    names = Names(f"{where}.token_ids", f"{where}.logprobs.token_logprobs", f"{where}.finish_reason")
    ids = field_of(choice, "token_ids", list, where)
    prompt = field_of(choice, "prompt_token_ids", list, where)
    if prompt != list(request.prompt):
        raise AnswerError(
            f"{where}.prompt_token_ids must be the {len(request.prompt)} tokens that were sent, got"
            f" {len(prompt)} others"
        )
    values = field_of(field_of(choice, "logprobs", dict, where), "token_logprobs", list, f"{where}.logprobs")
    return checked(ids, values, choice["finish_reason"], choice.get("stop_reason"), request, names)


class Names(NamedTuple):
    """What a server calls the parts of a program.

    Attributes:
        ids: What it calls the token ids.
        values: What it calls their log-probabilities.
        reason: Why it has ended.
    """

    ids: str
    values: str
    reason: str


def checked(
    ids: list[Any],
    values: list[Any],
    reason: Any,
    stop_string: Any,
    request: CompletionRequest,
    names: Names,
) -> Completion:
    """A program of which all may be believed.

    Args:
        ids: Token ids that the server has sent.
        values: Their log-probabilities, in nats.
        reason: Why it has ended.
        stop_string: What the server says that it has ended at, if that is a string.
        request: What the server was asked.
        names: What the server calls these, for the message.

    Raises:
        AnswerError: If a value is not what was asked for.
    """
    if reason not in REASONS:
        raise AnswerError(f"{names.reason} must be one of {REASONS}, got {reason!r}")
    bad = [token for token in ids if type(token) is not int or not 0 <= token < request.vocabulary]
    if bad or not ids:
        said = f"{bad[0]!r}" if bad else "no token"
        raise AnswerError(f"{names.ids} must be from 0 to {request.vocabulary - 1}, got {said}")
    if len(values) != len(ids):
        raise AnswerError(f"{names.values} must hold {len(ids)} numbers, one a token, got {len(values)}")
    for value in values:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not math.isfinite(value) or value > ROUNDING:
            raise AnswerError(f"{names.values} must be finite and at most 0, got {value!r}")
    _check_end(ids, reason, stop_string, request, names.ids)
    return Completion(tuple(ids), reason == "stop", tuple(map(float, values)))


def _check_end(ids: list[int], reason: str, stop_string: Any, request: CompletionRequest, where: str) -> None:
    """A program ends at its first stop token, at a stop string, or at the limit, and nowhere else."""
    stops = [place for place, token in enumerate(ids) if token in request.stop_ids]
    by_string = stop_string in request.stop_strings
    if stops and (stops[0] != len(ids) - 1 or reason == "length"):
        raise AnswerError(
            f"{where} must end at the first stop token, with finish_reason 'stop', got token"
            f" {ids[stops[0]]} at place {stops[0] + 1} of {len(ids)} and {reason!r}"
        )
    if reason == "stop" and not (stops or by_string):
        raise AnswerError(
            f"{where} must end in a stop token of {list(request.stop_ids)}, got {ids[-1]}:"
            " finish_reason is 'stop'"
        )
    if len(ids) > request.max_tokens or (reason == "length" and len(ids) < request.max_tokens):
        raise AnswerError(
            f"{where} must hold {request.max_tokens} tokens where finish_reason is 'length', and"
            f" never more, got {len(ids)} and {reason!r}; is the server's max-model-len too small?"
        )
    written = len(ids) - len(stops)
    if written < request.min_tokens:
        raise AnswerError(
            f"{where} must hold at least {request.min_tokens} tokens before the stop, got {written}"
        )


def field_of(holder: Any, name: str, kind: type, where: str) -> Any:
    """A field of an answer.

    Args:
        holder: Part of the answer.
        name: What the field is called.
        kind: What its value has to be.
        where: What the part is called, for the message.

    Raises:
        AnswerError: If it is missing or of another kind.
    """
    value = holder.get(name) if isinstance(holder, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise AnswerError(
            f"{name} must be in {where}, a {kind.__name__}, got {value!r}: only servers that take and return"
            " token ids with their log-probabilities will do, such as vLLM and SGLang"
        )
    return value
