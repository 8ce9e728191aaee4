"""Outlines of texts: by hand, and against forms of model graphs."""

from __future__ import annotations

import time

import pytest

from synthstats_lightning.programs.forms.form import form_of
from synthstats_lightning.programs.forms.outline import LONGEST, outline
from tests.programs.forms.cases import CASES as CASES_OF_FORMS
from tests.programs.forms.cases import COLUMNS, graphs

CASES = {
    "pm.Normal('y', a + b*x, s, observed=y)": ("Normal", {}, {"x": "linear"}),
    "pm.Normal('y', mu=a + b*x + c*x**2, sigma=s, observed=y)": ("Normal", {}, {"x": "quadratic"}),
    "pm.Normal('y', a + b*((x - 3)/2)**2, s, observed=y)": ("Normal", {}, {"x": "quadratic"}),
    "pm.Normal('y', a*x**b, s, observed=y)": ("Normal", {}, {"x": "power"}),
    "pm.Normal('y', a - b*c**x, s*x, observed=y)": ("Normal", {"x"}, {"x": "exponential"}),
    "pm.StudentT('y', 4, a + b*x, sigma=s*pt.sqrt(z), observed=y)": ("StudentT", {"z"}, {"x": "linear"}),
    "pm.Normal('y', a*x/(b + x), s, observed=y)": ("Normal", {}, {"x": "ratio"}),
    "pm.Normal('y', a + b/x, s, observed=y)": ("Normal", {}, {"x": "ratio"}),
    "pm.Normal('y', a + b*(x/2), s, observed=y)": ("Normal", {}, {"x": "linear"}),
    "pm.Poisson('y', np.exp(a + b*np.log(x)), observed=y)": ("Poisson", {}, {"x": "log"}),
    "pm.Poisson('y', mu=pm.math.exp(a + b*data['x']), observed=y)": ("Poisson", {}, {"x": "linear"}),
    "pm.Normal('y', pt.exp(a + b*x), s, observed=y)": ("Normal", {}, {"x": "exponential"}),
    "pm.Normal('y', a*pt.exp(-b*pt.exp(-c*x)), s, observed=y)": ("Normal", {}, {"x": "sigmoid"}),
    "pm.Gamma('y', k, k/pt.exp(a + b*data.x), observed=y)": ("Gamma", {}, {"x": "linear"}),
    "pm.Bernoulli('y', logit_p=a + u[z] + b*x, observed=y)": ("Bernoulli", {}, {"x": "linear", "z": "group"}),
    "pm.Normal('y', pt.switch(x > 3, a, b), s, observed=y)": ("Normal", {}, {"x": "piecewise"}),
    "pm.Normal('y', a + b*(x > 3), s, observed=y)": ("Normal", {}, {"x": "piecewise"}),
    "pm.Normal('y', a + b*pt.sin(c*x + d), s, observed=y)": ("Normal", {}, {"x": "wave"}),
}


@pytest.mark.parametrize("line", CASES)
def test_one_line(line):
    family, spread, parts = CASES[line]
    found = outline(f"with pm.Model() as model:\n    a = pm.Normal('a', 0, 1)  # x\n    {line}", ["x", "z"])
    assert (found.family, set(found.spread), found.parts) == (family, set(spread), parts)


def test_names_stand_for_what_they_were_given():
    source = """
def model(data):
    with pm.Model() as m:
        v = data["x"] / 100
        u = pm.Normal("u", z.mean(), 1, shape=3)
        eta = (
            a + b * np.log(v)
        )
        mu = pm.Deterministic("mu", pm.math.exp(eta + u[z]))
        pm.NegativeBinomial("y", mu=mu, alpha=k, observed=data["y"])
    return m
"""
    found = outline(source, ["x", "z"])
    assert found.family == "NegativeBinomial"
    assert found.parts == {"x": "log", "z": "group"}


def test_texts_of_any_kind_are_read_in_time():
    started = time.process_time()
    for text in ("(" * 10**5, "x" * 10**6, "a = (a\n" * 10**4, "'" * 10**5, "a = b\nb = a\n" * 1000):
        assert outline(text, ["x"]).parts == {}
    circle = "a = a + b\nb = a + x\npm.Normal('y', a, 1, observed=y)"
    assert outline(circle, ["x"]).parts == {"x": "linear"}
    assert outline(" " * LONGEST + circle, ["x"]).family == ""
    assert time.process_time() - started < 30.0


def test_outlines_agree_with_the_forms_of_the_same_programs():
    agree = []
    for name, case in CASES_OF_FORMS.items():
        for program, graph in zip(case["programs"], graphs(name), strict=True):
            form = form_of(graph)
            found = outline(program["source"], COLUMNS)
            agree.append(form.text.startswith(found.family) and bool(found.family))
            agree.append(form.covariates == found.spread | found.parts.keys())
            agree.append(("varying spread" in form.features) == bool(found.spread))
    assert sum(agree) >= 0.8 * len(agree), sum(agree) / len(agree)
