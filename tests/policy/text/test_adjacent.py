"""What cannot stand behind what: asked of Python, of the grammar, and of programs that are written."""

from __future__ import annotations

import ast
import itertools
from random import Random

import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.policy.pointers.vocabulary import POINTERS
from synthstats_lightning.policy.text.adjacent import adjacency, clash
from synthstats_lightning.policy.text.token_limits import TokenLimits
from synthstats_lightning.policy.text.unlikely import UNLIKELY
from synthstats_lightning.pretraining.writer.wide import wide_example
from synthstats_lightning.tasks import task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.tasks.registry import get_task

ENDS = [
    "a",
    "2",
    ")",
    "]",
    "(",
    "[",
    ",",
    ", ",
    "*",
    "**",
    "/",
    "+",
    " + ",
    "- ",
    "=",
    " = ",
    "x=",
    "%",
    "pm.",
    "0.",
]
BEGINS = [
    "a",
    "2",
    ")",
    "]",
    "(",
    "[",
    ",",
    ", ",
    "*",
    "**",
    "/",
    "+",
    " + ",
    "-",
    "=",
    " = ",
    "%",
    ":",
    " :",
    "\n",
]
FRAMES = [
    *itertools.product(
        [
            "",
            "a",
            "a ",
            "f(",
            "f(x",
            "f(x, ",
            "f(b=",
            "x[",
            "x[1",
            "x[1, ",
            "x[:",
            "[",
            "[a",
            "(",
            "a = ",
            "b = f(",
        ],
        ["", "a", "1", "a)", "1)", "a]", ")", "]", "b=1)", ":1]", ": a", ")]", "a: 1", " a)", "= a", "*a)"],
    )
]


def parses(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("before", ENDS)
def test_python_reads_nothing_with_what_clashes(before):
    for behind in BEGINS:
        if clash(before, behind):
            read = [f"{left}{before}{behind}{right}" for left, right in FRAMES]
            # of two pluses one may be a sign, a call may end behind a comma, or go on in the next line
            odd = behind.strip() in ("+", "") or (before == ", " and behind in ")]")
            # and these unpack something: `a, = b` and `a = *b`
            odd |= (before.strip()[-1:], behind.strip()[:1]) in ((",", "="), ("=", "*"))
            assert odd or not [text for text in read if parses(text)]


def test_what_was_seen_of_a_writer_clashes():
    pairs = [
        ("sigma=", ")"),
        (", sigma=", " = "),
        (", ", '", -'),
        (" + ", " + "),
        (")*", ' = pm.HalfNormal("'),
        (", ", ", observed"),
        ("pm.", "*("),
        (", ", ": "),
    ]
    assert [pair for pair in pairs if not clash(*pair)] == [(", ", ": ")]  # a slice is written so
    assert not any(
        clash(*pair) for pair in [("*", "*"), ("=", "="), ("(", ")"), ("[", ":"), (", ", "-"), ("(", '"')]
    )


def test_what_follows_loses_and_positions_of_a_digest_forbid_nothing():
    texts = {0: "a", 1: ", ", 2: "= ", 3: "2"}
    table = adjacency(texts, [4], 5)
    assert table.nonzero().tolist() == [
        [0, 4],
        [1, 1],
        [1, 2],
        [2, 1],
        [2, 2],
        [3, 4],
        [4, 0],
        [4, 3],
        [4, 4],
    ]
    limits = TokenLimits(torch.ones(1, 5, dtype=torch.bool), adjacent=table)
    prompt, program = torch.tensor([[70, 1]]), torch.tensor([[2, 4, 3]])
    before = limits.before(prompt, program).of((torch.zeros(3, dtype=torch.int64), torch.arange(3)))
    lost = -limits.masked(torch.zeros(3, 5), torch.zeros(3, dtype=torch.int64), before)
    assert lost.tolist() == [[UNLIKELY * bool(each) for each in table[token]] for token in (1, 2, 4)]
    digest = limits.before(torch.tensor([[70]]), program[:, :1]).of((torch.zeros(1, dtype=torch.int64),) * 2)
    assert limits.masked(torch.zeros(1, 5), torch.zeros(1, dtype=torch.int64), digest).eq(0).all()


def test_the_grammar_has_no_such_pair():
    spelling, rng, programs = load_policy("writer").spelling, Random(8), 0
    table = spelling._adjacent
    pointers = spelling.tokenizer.convert_tokens_to_ids(list(POINTERS))
    assert table[pointers][:, pointers].all()
    while programs < 400:
        example = wide_example(rng, 4, 0, 12)
        for written in example.programs:
            ids = torch.tensor(spelling.program(written.source, example.facts))
            assert not table[ids[:-1], ids[1:]].any(), written.source
            programs += 1


@pytest.mark.parametrize("proposal", ["nothing", "digest"])
def test_the_writer_writes_none(proposal):
    policy, task = load_policy("writer"), get_task("peregrines")
    prompt = task_prompt(looking(task, proposal))
    ids, prior = policy.encode_prompt(*prompt), policy.encode_prompt(*prompt.prior)
    settings = SamplingSettings(max_new_tokens=200, temperature=1.5)
    found = policy.sample([ids], 24, settings, 3, prior_prompts=[prior], facts=[prompt.facts])
    table = policy.spelling._adjacent
    pairs = [
        table[row[:-1], row[1:]][mask[1:].bool()]
        for row, mask in zip(found.program_ids, found.program_mask, strict=True)
    ]
    assert sum(int(each.sum()) for each in pairs) <= 1
