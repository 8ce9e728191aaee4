"""SGLang's native generation with token ids in and out: what is asked, and what is believed of the answer.

The fields are those of SGLang 0.5, `python/sglang/srt/managers/io_struct.py`. Each program is an entry of a
list with a seed of its own: several programs of one entry would all be drawn from the same one.
"""

from __future__ import annotations

from typing import Any

from synthstats_lightning.rollouts.completions import (
    Completion,
    CompletionRequest,
    Names,
    checked,
    field_of,
)
from synthstats_lightning.rollouts.errors import AnswerError

PATH = "/generate"


def generation_body(request: CompletionRequest, adapter: str | None) -> dict[str, Any]:
    """What is posted.

    Args:
        request: Programs of one prompt.
        adapter: Name of an adapter at the server; `None` for the base model.
    """
    one = {
        "n": 1,
        "max_new_tokens": request.max_tokens,
        "min_new_tokens": request.min_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": list(request.stop_strings),
        "stop_token_ids": list(request.stop_ids),
        "ignore_eos": not request.stop_ids,
        "skip_special_tokens": False,
        "no_stop_trim": True,
    }
    return {
        "input_ids": [list(request.prompt)] * request.number,
        "sampling_params": [{**one, "sampling_seed": request.seed + row} for row in range(request.number)],
        "return_logprob": True,
        "lora_path": None if adapter is None else [adapter] * request.number,
        "stream": False,
    }


def read_generations(answer: Any, request: CompletionRequest) -> list[Completion] | None:
    """The programs of an answer, in the order of their seeds; `None` if the server broke one off.

    Args:
        answer: What the server has sent.
        request: What it was asked.

    Raises:
        AnswerError: If a field is missing, or its value is not what was asked for.
    """
    entries = field_of({"programs": answer}, "programs", list, "the answer")
    if len(entries) != request.number:
        raise AnswerError(f"the answer must hold {request.number} programs, got {len(entries)}")
    found = [_read_entry(entry, request, f"programs[{number}]") for number, entry in enumerate(entries)]
    whole = [each for each in found if each is not None]
    return whole if len(whole) == len(found) else None


def _read_entry(entry: Any, request: CompletionRequest, where: str) -> Completion | None:
    told = field_of(entry, "meta_info", dict, where)
    ended = field_of(told, "finish_reason", dict, f"{where}.meta_info")
    if ended.get("type") == "abort":
        return None
    ids = field_of(entry, "output_ids", list, where)
    number = field_of(told, "prompt_tokens", int, f"{where}.meta_info")
    if number != len(request.prompt):
        raise AnswerError(
            f"{where}.meta_info.prompt_tokens must be {len(request.prompt)}, as were sent, got {number}"
        )
    place = f"{where}.meta_info.output_token_logprobs"
    rows = field_of(told, "output_token_logprobs", list, f"{where}.meta_info")
    pairs = [row[:2] if isinstance(row, list) and len(row) >= 2 else [None, None] for row in rows]
    for token, (_, named) in zip(ids, pairs, strict=False):
        if named != token:
            raise AnswerError(f"{place} must be of the tokens of output_ids, got {named!r} for {token!r}")
    names = Names(f"{where}.output_ids", place, f"{where}.meta_info.finish_reason.type")
    return checked(
        ids, [value for value, _ in pairs], ended.get("type"), ended.get("matched"), request, names
    )
