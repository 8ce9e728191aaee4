"""What uses a parameter comes before it, and back again."""

from __future__ import annotations

from random import Random

import pytest

from synthstats_lightning.policy.pointers.order import HEADER, turned
from synthstats_lightning.pretraining.grammar import draw_example

TEXTS = {
    "several lines": (
        f"{HEADER}\n    a = pm.Normal(\n        'a', 0,\n        1)\n    pm.Normal('y', a, 1, observed=y)\n"
    ),
    "comment first": f"{HEADER}\n    # a comment\n    pm.Normal('y', 0, 1, observed=y)\n\n",
    "empty lines": f"{HEADER}\n\n    a = 1\n\n\n    b = 2\n",
    "no block": "model = pm.Model()\nwith model:\n    a = 1\n    b = 2",
    "header alone": HEADER,
    "no indentation": f"{HEADER}\na = 1\n    b = 2",
    "carriage return": f"{HEADER}\r\n    a = 1\r\n    b = 2",
    "nothing": "",
}


def test_a_program_of_the_grammar_begins_with_its_observed_variable_and_is_turned_back_exactly():
    rng = Random(5)
    for _ in range(1000):
        for source in draw_example(rng, 2).programs:
            lines = turned(source).split("\n")
            assert lines[0] == HEADER
            assert "observed=" in lines[1]
            assert lines[1:] == source.split("\n")[:0:-1]
            assert turned(turned(source)) == source


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_turned_back(name):
    assert turned(turned(TEXTS[name])) == TEXTS[name]


def test_a_statement_keeps_its_lines_together():
    expected = "    pm.Normal('y', a, 1, observed=y)\n\n    a = pm.Normal(\n        'a', 0,\n        1)"
    assert turned(TEXTS["several lines"]) == f"{HEADER}\n{expected}"
