"""An answer that breaks what it was asked for is refused with the field and the value."""

from __future__ import annotations

import copy
import math

import pytest

from synthstats_lightning.rollouts.completions import Completion, CompletionRequest, read_completions
from synthstats_lightning.rollouts.errors import AnswerError
from synthstats_lightning.rollouts.native_generation import read_generations

REQUEST = CompletionRequest(
    (1, 5), 2, seed=3, max_tokens=4, min_tokens=1, stop_ids=(3, 9), stop_strings=("\n\n",), vocabulary=10
)


def choice(index, ids, reason="stop", values=None, **more):
    return {
        "index": index,
        "token_ids": ids,
        "prompt_token_ids": [1, 5],
        "logprobs": {"token_logprobs": [-0.5] * len(ids) if values is None else values},
        "finish_reason": reason,
        "stop_reason": None,
        **more,
    }


GOOD = {"choices": [choice(1, [6, 7, 8, 4], "length"), choice(0, [6, 3])]}


def test_programs_come_in_the_order_of_their_seeds():
    assert read_completions(GOOD, REQUEST) == [
        Completion((6, 3), True, (-0.5, -0.5)),
        Completion((6, 7, 8, 4), False, (-0.5,) * 4),
    ]
    by_string = {"choices": [choice(0, [6, 7], stop_reason="\n\n"), choice(1, [2, 9], values=[0, 1e-5])]}
    assert [each.stopped for each in read_completions(by_string, REQUEST)] == [True, True]
    assert read_completions({"choices": [GOOD["choices"][0], choice(0, [6], "abort")]}, REQUEST) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (choice(0, [6, 10, 3]), r"choices\[0\].token_ids must be from 0 to 9, got 10"),
        (choice(0, [6, -1, 3]), "must be from 0 to 9, got -1"),
        (choice(0, [6, True, 3]), "must be from 0 to 9, got True"),
        (choice(0, []), "must be from 0 to 9, got no token"),
        (choice(0, None, values=[]) | {"token_ids": None}, r"token_ids must be in choices\[0\], a list, got"),
        (choice(0, [6, 3], prompt_token_ids=[1, 6]), "prompt_token_ids must be the 2 tokens that were sent"),
        (choice(0, [6, 3], prompt_token_ids=None), r"prompt_token_ids must be in choices\[0\], a list"),
        (choice(0, [6, 3], logprobs=None), r"logprobs must be in choices\[0\], a dict, got None"),
        (choice(0, [6, 3], values=[-0.5]), "token_logprobs must hold 2 numbers, one a token, got 1"),
        (choice(0, [6, 3], values=[-0.5, math.nan]), "must be finite and at most 0, got nan"),
        (choice(0, [6, 3], values=[-0.5, None]), "must be finite and at most 0, got None"),
        (choice(0, [6, 3], values=[-0.5, 0.5]), "must be finite and at most 0, got 0.5"),
        (choice(0, [6, 7]), r"must end in a stop token of \[3, 9\], got 7: finish_reason is 'stop'"),
        (choice(0, [6, 3, 7, 3]), "must end at the first stop token, .* got token 3 at place 2 of 4"),
        (choice(0, [6, 7, 8, 3], "length"), "with finish_reason 'stop', got token 3 at place 4 of 4"),
        (
            choice(0, [6, 7, 8], "length"),
            "must hold 4 tokens where .* got 3 and .* max-model-len",
        ),
        (choice(0, [6, 7, 8, 4, 3]), "never more, got 5 and 'stop'"),
        (choice(0, [3]), "must hold at least 1 tokens before the stop, got 0"),
        (choice(0, [6, 3], "tool_calls"), "finish_reason must be one of .*, got 'tool_calls'"),
        (choice(0, [6, 3], None), r"finish_reason must be in choices\[0\], a str, got None"),
        (choice(1, [6, 3]), r"index must go from 0 to 1, got \[1\]"),
    ],
)
def test_what_is_wrong_is_named(changed, message):
    answer = copy.deepcopy(GOOD)
    answer["choices"][1] = changed
    with pytest.raises(AnswerError, match=message):
        read_completions(answer, REQUEST)


@pytest.mark.parametrize("answer", ["a text", {}, {"choices": "many"}, {"choices": []}, [1]])
def test_an_answer_without_choices(answer):
    with pytest.raises(AnswerError, match="choices must "):
        read_completions(answer, REQUEST)


def entry(ids, ended, values=None, prompt_tokens=2):
    values = [-0.5] * len(ids) if values is None else values
    rows = [[value, token, None] for value, token in zip(values, ids, strict=True)]
    told = {"finish_reason": ended, "prompt_tokens": prompt_tokens, "output_token_logprobs": rows}
    return {"text": "", "output_ids": ids, "meta_info": told}


STOP, LENGTH = {"type": "stop", "matched": 3}, {"type": "length", "length": 4}
GENERATED = [entry([6, 3], STOP), entry([6, 7, 8, 4], LENGTH)]


def test_programs_of_sglang():
    assert read_generations(GENERATED, REQUEST) == [
        Completion((6, 3), True, (-0.5, -0.5)),
        Completion((6, 7, 8, 4), False, (-0.5,) * 4),
    ]
    by_string = [entry([6, 7], {"type": "stop", "matched": "\n\n"}), entry([2, 9], STOP)]
    assert [each.stopped for each in read_generations(by_string, REQUEST)] == [True, True]
    assert read_generations([GENERATED[0], entry([6], {"type": "abort"})], REQUEST) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (entry([6, 10, 3], STOP), r"programs\[0\].output_ids must be from 0 to 9, got 10"),
        (entry([6, 3], STOP, prompt_tokens=3), "meta_info.prompt_tokens must be 2, as were sent, got 3"),
        (
            entry([6, 3], STOP, [-0.5, math.nan]),
            "logprobs must be finite and at most 0, got nan",
        ),
        (entry([6, 3], STOP, [-0.5, None]), "must be finite and at most 0, got None"),
        (entry([6], STOP), r"must end in a stop token of \[3, 9\], got 6"),  # the stop was trimmed
        (entry([6, 7, 8, 3], LENGTH), "with finish_reason 'stop', got token 3 at place 4 of 4"),
        (entry([6, 3], {"type": "other"}), "meta_info.finish_reason.type must be one of .*, got 'other'"),
        (entry([6, 3], None), r"finish_reason must be in programs\[0\].meta_info, a dict, got None"),
        (entry([6, 3], STOP) | {"output_ids": None}, r"output_ids must be in programs\[0\], a list"),
        (entry([6, 3], STOP) | {"output_ids": [5, 3]}, "must be of the tokens of output_ids, got 6 for 5"),
        ({"text": "import pymc"}, r"meta_info must be in programs\[0\], a dict"),
    ],
)
def test_what_is_wrong_in_sglang_s_answer_is_named(changed, message):
    with pytest.raises(AnswerError, match=message):
        read_generations([changed, GENERATED[1]], REQUEST)


@pytest.mark.parametrize("answer", ["a text", {}, [], [GENERATED[0]]])
def test_an_answer_of_sglang_without_its_programs(answer):
    with pytest.raises(AnswerError, match=r"must (be in|hold)"):
        read_generations(answer, REQUEST)
