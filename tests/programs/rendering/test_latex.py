from __future__ import annotations

import json
import random

import pytest
from matplotlib.mathtext import MathTextParser

from synthstats_lightning.programs import parse_graph
from synthstats_lightning.programs.rendering.latex import latex_statements, to_latex
from tests.programs.models import SCHEMA, Writer, log_linear, random_model, rewrite


def test_a_regression():
    assert latex_statements(log_linear().graph(), "length") == [
        r"\mathrm{length} \sim \mathrm{Normal}"
        r"\left(v_{0} + v_{1} \cdot \log\left(\mathrm{age}\right), v_{2}\right)",
        r"v_{0} \sim \mathrm{Normal}\left(2.5, 1\right)",
        r"v_{1} \sim \mathrm{Normal}\left(0, 0.5\right)",
        r"v_{2} \sim \mathrm{HalfNormal}\left(0.3\right)",
    ]
    text = to_latex(log_linear().graph(), "a_b%")
    assert text.startswith("\\begin{align*}\n  \\mathrm{a\\_b\\%} &\\sim ")
    assert text.count("\\\\\n") == 3
    assert text.endswith("\\end{align*}")


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda w, x, t: w.op("div", w.op("add", x, t), x), r"\frac{v_{0} + \mathrm{age}}{v_{0}}"),
        (
            lambda w, x, t: w.op("mul", w.op("add", x, t), w.const(-2.0)),
            r"-2 \cdot \left(v_{0} + \mathrm{age}\right)",
        ),
        (lambda w, x, t: w.op("sub", x, w.op("neg", t)), r"v_{0} - \left(-\mathrm{age}\right)"),
        (lambda w, x, t: w.op("exp", w.op("neg", x)), r"e^{-v_{0}}"),
        (lambda w, x, t: w.op("pow", w.op("neg", t), x), r"{\left(-\mathrm{age}\right)}^{v_{0}}"),
        (lambda w, x, t: w.op("mul", x, w.const(1e-9)), r"1 \times 10^{-9} \cdot v_{0}"),
        (lambda w, x, t: w.op("sqrt", w.op("square", x)), r"\sqrt{{v_{0}}^{2}}"),
    ],
)
def test_expressions(build, expected):
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="x")
    w.respond("Normal", build(w, x, w.column("age")), w.const(1.0))
    line = latex_statements(w.graph(), "y")[0]
    assert line == rf"\mathrm{{y}} \sim \mathrm{{Normal}}\left({expected}, 1\right)"


def test_every_model_is_mathematics_and_one_for_all_spellings():
    parser = MathTextParser("path")
    for seed in range(40):
        rng = random.Random(seed)
        document = random_model(rng)
        first = latex_statements(parse_graph(json.dumps(document), SCHEMA))
        assert first == latex_statements(parse_graph(json.dumps(rewrite(document, rng)), SCHEMA))
        for line in first:
            parser.parse(f"${line}$")


def test_hostile_names_stay_text():
    parser = MathTextParser("path")
    for name in ("\\input{x}", "a_b^c", "{", "$", "é\n", "", "a%b#c&d~", '"`'):
        line = latex_statements(log_linear().graph(), name)[0]
        assert "\\input" not in line
        parser.parse(f"${line}$")
