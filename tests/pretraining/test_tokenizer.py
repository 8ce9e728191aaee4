"""The tokenizer: lossless, and blind to what surrounds a name."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.pretraining.grammar import draw_example
from synthstats_lightning.pretraining.model import make_tokenizer
from synthstats_lightning.pretraining.names import column_names
from synthstats_lightning.pretraining.tokenizer import END, PROGRAM, SPECIAL_TOKENS, TASK, train_tokenizer


@cache
def tokenizer():
    return make_tokenizer(seed=3, examples=400, vocabulary=700)


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(text):
    assert tokenizer().decode(tokenizer()(text)["input_ids"]) == text


def test_grammar_texts_survive():
    rng = Random(11)
    for _ in range(100):
        example = draw_example(rng, 1)
        for text in (example.data.request, example.programs[0]):
            assert tokenizer().decode(tokenizer()(text)["input_ids"]) == text


SURROUNDINGS = (
    "rows: 3\n{}: continuous, 1 to 2",
    "\nresponse {}: count, 0 to 3",
    "a + b*{} + c",
    "pt.log({})",
    "({} - 3)/2",
    "s, observed={})",
    "mu = a*{}/(b + {})",
)


def test_a_name_has_the_same_tokens_wherever_it_stands():
    for name in column_names(Random(5), 300):
        if not name[0].isalpha() or not name[-1].isalnum():
            continue
        alone = tokenizer().convert_ids_to_tokens(tokenizer()(name)["input_ids"])
        for surrounding in SURROUNDINGS:
            tokens = tokenizer().convert_ids_to_tokens(
                tokenizer()(surrounding.format(name, name))["input_ids"]
            )
            places = [i for i in range(len(tokens)) if tokens[i : i + len(alone)] == alone]
            assert places, (name, surrounding, tokens)


def test_fixed_phrases_and_digits_are_single_tokens():
    for phrase in ("with pm.Model() as model:\n    ", ' = pm.Normal("', ", observed=", "\nresponse ", " to "):
        assert len(tokenizer()(phrase)["input_ids"]) == 1
    assert len(tokenizer()("31.5")["input_ids"]) == 4


def test_special_tokens_have_the_first_ids():
    assert tokenizer().convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [0, 1, 2, 3]
    assert (tokenizer().pad_token_id, tokenizer().eos_token) == (0, END)


def test_chat_template_renders_the_request_only():
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "rows: 3"}]
    text = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == f"{TASK}rows: 3{PROGRAM}"
    answered = [*messages, {"role": "assistant", "content": "x = 1"}]
    text = tokenizer().apply_chat_template(answered, tokenize=False)
    assert text == f"{TASK}rows: 3{PROGRAM}x = 1{END}"


def test_too_small_a_vocabulary_is_refused():
    with pytest.raises(ValueError, match="vocabulary must be above 260, got 260"):
        train_tokenizer(["text"], 260)
