"""What the shipped perceptrons say of programs of a data set."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthstats_lightning.learning.screen import Screen
from synthstats_lightning.learning.screen.screening import DEFENSIVE, QUESTIONS, shipped
from synthstats_lightning.programs.forms.outline import PARTS
from synthstats_lightning.tasks import Task

HEAD = "with pm.Model() as model:\n    a = pm.Normal('a', 0, 10)\n    b = pm.Normal('b', 0, 10)\n"
LINE = HEAD + "    s = pm.HalfNormal('s', 1)\n    pm.Normal('y', a + b*x, s, observed=y)"
LOG = LINE.replace("b*x", "b*pt.log(x)")
POISSON = HEAD + "    pm.Poisson('y', pt.exp(a + b*x), observed=y)"
NEGATIVE_BINOMIAL = POISSON.replace(
    "Poisson('y', pt.exp(a + b*x)", "NegativeBinomial('y', pt.exp(a + b*x), b"
)


def logarithmic(**settings) -> Task:
    x = np.linspace(0.5, 40.0, 60)
    y = 2.0 + 0.5 * np.log(x) + np.random.default_rng(0).normal(0.0, 0.05, 60)
    return Task("curve", "A curve.", {"x": x, "y": y}, "y", **settings)


def counts(dispersed: bool) -> Task:
    generator = np.random.default_rng(1)
    x = np.linspace(0.0, 3.0, 80)
    mean = np.exp(1.0 + 0.5 * x) * (generator.gamma(1.0, 1.0, 80) if dispersed else 1.0)
    return Task("counts", "Counts.", {"x": x, "y": generator.poisson(mean)}, "y")


def test_a_curve_speaks_for_its_form():
    line, log = Screen(logarithmic()).log_ratios([LINE, LOG])
    assert log > line + 1.0
    assert line >= math.log(DEFENSIVE)


def test_dispersed_counts_speak_for_the_negative_binomial():
    plain = np.diff(Screen(counts(False)).log_ratios([POISSON, NEGATIVE_BINOMIAL]))
    dispersed = np.diff(Screen(counts(True)).log_ratios([POISSON, NEGATIVE_BINOMIAL]))
    assert dispersed[0] > 1.0 > plain[0]


def test_rows_that_do_not_count_change_nothing():
    sources = [LINE, LOG, POISSON]
    ranges = {"x": (0.5, 40.0), "y": (1.5, 4.2)}
    task = logarithmic(held_out=5, ranges=ranges)
    moved = {**task.data, "y": np.concatenate([task.data["y"][:-5], task.data["y"][-5:][::-1]])}
    other = Task("curve", "A curve.", moved, "y", held_out=5, ranges=ranges)
    np.testing.assert_array_equal(Screen(task).log_ratios(sources), Screen(other).log_ratios(sources))
    with pytest.raises(ValueError, match="needs rows that count"):
        Screen(logarithmic(shown_rows=59, held_out=1))


def test_of_what_no_perceptron_knows_the_data_say_nothing():
    nothing, unknown = Screen(logarithmic()).log_ratios(["", LINE.replace("Normal('y'", "Wald('y'")])
    assert np.isfinite([nothing, unknown]).all()


def test_the_shipped_ones_know_every_class():
    found = shipped()
    assert found.keys() == {f"{question}{suffix}" for question in QUESTIONS for suffix in ("", "_blind")}
    assert found["part"].classes == PARTS
    assert {"Normal", "Poisson", "Bernoulli"} <= set(found["family"].classes)
