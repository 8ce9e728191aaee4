"""Brackets against Python's own tokenizer and parser, and a program step by step against the whole."""

from __future__ import annotations

import ast
import io
import tokenize

import numpy as np
import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.policy.text.bracket_limits import BASE, UNKNOWN, advance, bracket_rule, effect
from synthstats_lightning.policy.text.token_limits import TokenLimits
from synthstats_lightning.policy.text.unlikely import UNLIKELY
from synthstats_lightning.tasks import task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.tasks.registry import get_task

TEXTS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "\n",
    "x",
    "([",
    "])",
    '("',
    '")',
    ")(",
    ")\n",
    "\n(",
    "(\n",
    ")]\n[",
]
BEGIN, END, DIGEST = len(TEXTS), len(TEXTS) + 1, len(TEXTS) + 5
RULE = bracket_rule(dict(enumerate(TEXTS)), END + 1, BEGIN, END)
LIMITS = TokenLimits(torch.ones(1, END + 1, dtype=torch.bool), brackets=RULE)


def masked(limits, prompt, program):
    """What each token loses before each of a program."""
    prompt, program = torch.tensor([prompt]), torch.tensor([program])
    row = torch.zeros(program.shape[1], dtype=torch.int64)
    before = limits.before(prompt, program).of((row, torch.arange(program.shape[1])))
    return -limits.masked(torch.zeros(program.shape[1], limits.allowed.shape[1]), row, before)


def reads(text):
    """Whether a text breaks no rule of brackets, quotes and lines for Python's own tokenizer.

    Text with a line's end inside of a bracket is no error of Python's, so it is asked of every line.
    """
    for line in text.split("\n"):
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(line + "\n").readline))
        except (tokenize.TokenError, SyntaxError, IndentationError):
            return False
        stack = []
        for token in tokens:
            if token.type == tokenize.ERRORTOKEN and token.string in "\"'":
                return False
            if token.string in ("(", "[", "{"):
                stack.append(token.string)
            elif token.string in (")", "]", "}") and (
                not stack or stack.pop() != {")": "(", "]": "[", "}": "{"}[token.string]
            ):
                return False
        if stack:
            return False
    return True


def test_what_loses_is_what_pythons_tokenizer_refuses():
    rng = np.random.default_rng(5)
    good = bad = 0
    for _ in range(3000):
        drawn = rng.integers(0, len(TEXTS), rng.integers(1, 5)).tolist()
        if '""' in "".join(TEXTS[t] for t in drawn) or "''" in "".join(TEXTS[t] for t in drawn):
            continue  # three quotes in a row are one in Python
        lost = masked(LIMITS, [BEGIN], [*drawn, END])
        cost = lost[torch.arange(len(drawn) + 1), torch.tensor([*drawn, END])]
        assert set(cost.tolist()) <= {0.0, UNLIKELY}
        fine = reads("".join(TEXTS[token] for token in drawn))
        assert fine == (float(cost.sum()) == 0.0), [TEXTS[token] for token in drawn]
        good, bad = good + fine, bad + (not fine)
    assert min(good, bad) > 100


def test_a_beginning_in_the_prompt_counts_and_what_is_before_it_does_not():
    one = masked(LIMITS, [0, 2, BEGIN, 0, 2, DIGEST], [3, 1, END])
    other = masked(LIMITS, [BEGIN], [0, 2, DIGEST, 3, 1, END])
    torch.testing.assert_close(one, other[3:])
    assert one[0, TEXTS.index("]")] == 0.0
    assert one[0, TEXTS.index(")")] == UNLIKELY


def test_brackets_too_deep_are_not_counted():
    state = torch.tensor([0])
    for _ in range(40):
        state = advance(RULE, state, torch.tensor([TEXTS.index("([")]))
    assert state.tolist() == [UNKNOWN]
    lost = masked(LIMITS, [BEGIN], [*[TEXTS.index("([")] * 40, END])
    assert lost[-1].sum() == 0.0


def test_an_effect_says_what_is_closed_innermost_first():
    found = effect("])([", 0)
    assert (found.closed, found.closes, found.opened, found.opens) == (
        2 + 1 * BASE,
        BASE**2,
        1 * BASE + 2,
        BASE**2,
    )
    assert effect('y", (', 1)[2:5] == (1, BASE, 0)
    assert effect("a(b", 1) == effect("", 1)


@pytest.mark.parametrize("proposal", ["nothing", "digest"])
def test_the_writer_closes_what_it_opens(proposal):
    policy = load_policy("writer")
    task = get_task("peregrines")
    prompt = task_prompt(looking(task, proposal))
    ids, prior = policy.encode_prompt(*prompt), policy.encode_prompt(*prompt.prior)
    found = policy.sample(
        [ids],
        24,
        SamplingSettings(max_new_tokens=300, temperature=1.7),
        3,
        prior_prompts=[prior],
        facts=[prompt.facts],
    )
    wrong = []
    for source, whole in zip(found.sources, found.stopped.tolist(), strict=True):
        try:
            ast.parse(source)
        except SyntaxError as error:
            if whole and any(word in error.msg for word in ("never closed", "unmatched", "does not match")):
                wrong.append(source)
    assert wrong == []
