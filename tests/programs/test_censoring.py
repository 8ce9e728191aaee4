from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import ProgramFailure
from synthstats_lightning.programs.demands.censoring import check_censoring
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.simulators.emotion import EmotionSimulator
from tests.programs.models import COUNTS, Writer
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
