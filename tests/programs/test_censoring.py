from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import ProgramFailure, canonical_hash, parse_graph
from synthstats_lightning.programs.demands.censoring import NO_LIMIT, censored_graph, check_censoring
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.simulators.emotion import EmotionSimulator
from tests.programs.models import COUNTS, SCHEMA, Writer
from tests.programs.test_composites import respond

DECLARED = {"lower": 0.0, "upper": 7.0}


def censored(bounds: dict[str, Any], part: str = "Normal") -> Writer:
    """A response censored at numbers, columns, or what a function writes."""
    w = Writer()
    refs = [
        w.column(limit) if isinstance(limit, str) else limit(w) if callable(limit) else w.const(limit)
        for limit in bounds.values()
    ]
    law = {"distribution": "Censored", "bounds": list(bounds), "components": [part]}
    parameters = [w.const(2.0)] if part == "Poisson" else [w.const(0.0), w.const(1.0)]
    return respond(w, law, *refs, *parameters)


def by_row(w: Writer) -> int:
    """The age where the count is above 2, no limit elsewhere: survival times."""
    condition = w.op("gt", w.column("count"), w.const(2.0))
    return w.op("switch", condition, w.column("age"), w.const(1.7976931348623157e308))


@pytest.mark.parametrize(
    "bounds",
    [{"lower": 0.0}, {"upper": 7.0}, {"lower": 0.0, "upper": 7.0}, {"upper": "age"}, {"upper": by_row}],
)
def test_declared_limits_and_columns_are_allowed(bounds):
    check_censoring(censored(bounds).graph(), DECLARED)


@pytest.mark.parametrize(
    ("bounds", "limits", "message"),
    [
        ({"upper": 7.0}, {}, "censored at 7, where the task declares none: give upper= a column"),
        ({"upper": 7.0}, {"lower": 7.0}, r"or declare the limit with the task \(limits: \{upper: ...\}\)"),
        ({"lower": 0.5, "upper": 7.0}, DECLARED, "censored at 0.5, where the task declares 0"),
        ({"upper": lambda w: w.op("add", w.column("age"), w.const(1.0))}, DECLARED, "at a result of add"),
        (
            {"upper": lambda w: w.op("minimum", w.column("age"), w.const(2.5))},
            DECLARED,
            "censored at 2.5, where the task declares 7",
        ),
    ],
)
def test_limits_of_the_program_are_refused(bounds, limits, message):
    with pytest.raises(ProgramFailure, match=f"unsupported: .*{message}"):
        check_censoring(censored(bounds).graph(), limits)


def test_a_column_that_is_the_same_in_all_rows_is_a_column_of_limits():
    graph = censored({"lower": 0.5}).graph()
    check_censoring(graph, {}, (3.0, 0.5))
    with pytest.raises(ProgramFailure, match=r"censored at 0\.5, where the task declares none"):
        check_censoring(graph, {}, (3.0,))


def test_counts_may_be_censored_anywhere():
    check_censoring(censored({"lower": 1.0, "upper": 4.0}, "Poisson").graph(COUNTS), {})


def test_a_task_declares_limits():
    values = {"x": np.arange(3.0), "y": np.array([0.0, 2.5, 7.0])}
    task = Task("t", "", values, "y", limits=DECLARED)
    assert task.limits == DECLARED
    assert task.fingerprint != Task("t", "", values, "y").fingerprint
    assert EmotionSimulator().limits == {"lower": 1.0, "upper": 9.0}


@pytest.mark.parametrize(
    ("values", "limits", "message"),
    [
        ([0.0, 2.5], {"top": 3.0}, "limits of task 't' must be lower, upper or both"),
        ([0.0, 2.5], {"lower": 3.0, "upper": 1.0}, "in order"),
        ([0.0, 2.5], {"upper": float("nan")}, "in order"),
        ([0, 2], {"upper": 3.0}, "for kind 'count'"),
        ([0.0, 2.5], {"upper": 2.0}, r"must hold every value of 'y', which are from 0 to 2.5, got"),
    ],
)
def test_wrong_limits_are_refused(values, limits, message):
    with pytest.raises(ValueError, match=message):
        Task("t", "", {"y": np.array(values)}, "y", limits=limits)


def plain(distribution: str, *parameters: float) -> Writer:
    w = Writer()
    b = w.draw("Normal", w.const(0.0), w.const(1.0), name="slope")
    w.respond(distribution, b, *(w.const(value) for value in parameters))
    return w


def test_a_law_that_says_nothing_of_limits_is_censored_at_the_task_s():
    graph = censored_graph(plain("Normal", 2.0).graph(), {"upper": "age"})
    w = Writer()
    b = w.draw("Normal", w.const(0.0), w.const(1.0), name="b")
    law = {"distribution": "Censored", "bounds": ["upper"], "components": ["Normal"]}
    said = respond(w, law, w.column("age"), b, w.const(2.0)).graph()
    assert canonical_hash(graph) == canonical_hash(said)
    assert canonical_hash(censored_graph(said, {"upper": "age"})) == canonical_hash(said)
    assert graph.dtypes[graph.response] == "float64"
    assert censored_graph(said, {}) is said


def test_a_bound_of_its_own_on_the_other_side_stays():
    both = censored_graph(censored({"lower": 0.0}).graph(), {"upper": "age"})
    said = censored({"lower": 0.0, "upper": "age"}).graph()
    assert canonical_hash(both) == canonical_hash(said)


def test_quantities_keep_their_place():
    w = plain("Normal", 2.0)
    twice = w.op("mul", 2, w.const(2.0))
    document = w.document(deterministics=[["twice", twice]])
    graph = parse_graph(json.dumps(document), SCHEMA)
    moved = censored_graph(graph, {"upper": "age"})
    node = moved.nodes[moved.deterministics["twice"]]
    assert node.op == "mul"
    assert moved.nodes[node.inputs[0]].attributes["name"] == "slope"


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        (lambda: by_age("Normal"), "'age' says which rows were cut short"),
        (lambda: censored({"upper": by_row}), "'age' says which rows were cut short"),
        (lambda: censored({"upper": 7.0}), "pm.Censored of this task has upper=age"),
        (lambda: plain("SkewNormal", 1.0, 2.0), "Censored of SkewNormal, whose distribution function"),
    ],
)
def test_limits_are_read_as_limits_alone(writer, message):
    with pytest.raises(ProgramFailure, match=f"unsupported: .*{message}"):
        censored_graph(writer().graph(), {"upper": "age"})


TIMES = np.array([1.2, 0.3, 2.0, 2.0, 0.7])
CUT = np.array([False, False, True, True, False])
FOLLOW_UP = {"age": np.where(CUT, TIMES, NO_LIMIT), "count": np.where(CUT, TIMES, 1_000_000)}
"""A task's limits, and a column of a table that says the same with a large number where a time was seen."""


def chosen(w: Writer) -> int:
    """The same column where a row was cut short, no limit elsewhere."""
    seen = w.op("ge", w.column("age"), w.const(NO_LIMIT))
    return w.op("switch", seen, w.const(1.7976931348623157e308), w.column("count"))


@pytest.mark.parametrize("bound", ["count", chosen])
def test_limits_that_say_the_same_in_another_column_are_the_task_s(bound):
    graph = censored_graph(censored({"upper": bound}).graph(), {"upper": "age"}, FOLLOW_UP, TIMES)
    said = censored({"upper": "age"}).graph()
    assert canonical_hash(graph) == canonical_hash(said)
    found, wanted = (score_graph(each, FOLLOW_UP, TIMES) for each in (graph, said))
    assert found.evidence == wanted.evidence


@pytest.mark.parametrize(("row", "value"), [(2, 2.5), (2, 1.9), (0, 1.2), (0, 0.5)])
def test_limits_that_cut_other_rows_are_refused(row, value):
    other = FOLLOW_UP["count"].copy()
    other[row] = value
    graph = censored({"upper": "count"}).graph()
    with pytest.raises(ProgramFailure, match=r"pm\.Censored of this task has upper=age"):
        censored_graph(graph, {"upper": "age"}, {**FOLLOW_UP, "count": other}, TIMES)


def test_one_number_says_the_same_where_all_were_cut_short_at_it():
    times = np.where(CUT, 2.0, 0.5)
    covariates = {"age": np.where(CUT, 2.0, NO_LIMIT), "count": np.arange(5)}
    graph = censored_graph(censored({"upper": 2.0}).graph(), {"upper": "age"}, covariates, times)
    assert canonical_hash(graph) == canonical_hash(censored({"upper": "age"}).graph())
    with pytest.raises(ProgramFailure, match=r"pm\.Censored of this task has upper=age"):
        censored_graph(censored({"upper": 3.0}).graph(), {"upper": "age"}, covariates, times)


def test_a_limit_that_is_also_a_parameter_is_refused():
    w = Writer()
    age = w.column("age")
    law = {"distribution": "Censored", "bounds": ["upper"], "components": ["Normal"]}
    graph = respond(w, law, age, age, w.const(1.0)).graph()
    for data in ((), (FOLLOW_UP, TIMES)):
        with pytest.raises(ProgramFailure, match="'age' says which rows were cut short"):
            censored_graph(graph, {"upper": "age"}, *data)


def by_age(distribution: str) -> Writer:
    """A response that is predicted from its own limits."""
    w = Writer()
    w.respond(distribution, w.op("exp", w.column("age")), w.const(1.0))
    return w


def test_evidence_of_cut_times_is_that_of_conjugate_exponentials():
    """Times of rate r ~ Gamma(a, b), d of them seen: b^a Γ(a + d) / (Γ(a) (b + sum of times)^(a + d))."""
    times, seen = np.array([1.2, 0.3, 2.0, 2.0, 0.7]), np.array([1, 1, 0, 0, 1], dtype=bool)
    w = Writer()
    rate = w.draw("Gamma", w.const(2.0), w.const(1 / 3.0), name="rate")
    w.respond("Exponential", w.op("reciprocal", rate))
    graph = censored_graph(w.graph(), {"upper": "age"})
    columns = {"age": np.where(seen, NO_LIMIT, times), "count": np.arange(5)}
    score = score_graph(graph, columns, times)
    a, b, d = 2.0, 3.0, seen.sum()
    exact = a * math.log(b) + math.lgamma(a + d) - math.lgamma(a) - (a + d) * math.log(b + times.sum())
    assert score.evidence == pytest.approx(exact, abs=max(0.02, 4 * score.evidence_se))
