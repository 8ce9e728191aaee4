"""Where a response was cut short: programs may say it as people do, and learn nothing by it."""

import json

import numpy as np
import pytest

from synthstats_lightning import ProgramScorer
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox.hidden import without_limits
from synthstats_lightning.tasks import TableTask, understand

TIMES = [5.5, 30.0, 8.1, 41.0, 2.2, 60.0, 11.0, 25.5, 60.0, 3.9, 17.2, 60.0]
SEEN = [1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0]
AGE = [50, 61, 47, 39, 70, 44, 52, 58, 41, 66, 49, 37]
PROGRAM = """
with pm.Model() as model:
    a = pm.Normal("a", 3, 1)
    b = pm.Normal("b", 0, 1)
    {}
"""
CENSORED = 'pm.Censored("y", pm.Exponential.dist(lam=pt.exp(-a)), lower=None, upper={}, observed=time)'

FRAME = "__import__('pandas').DataFrame(data)"
TABLE_LIMITS = f"(lambda df: np.where(df.event == 1, np.inf, df.time.values))({FRAME})"


def task_of(name="event", cells=SEEN, **more):
    return TableTask(understand({"time": TIMES, "age": AGE, name: cells}, "time"), **more)


@pytest.fixture(scope="module")
def task():
    return task_of()


def graph_of(sandbox, source, task):
    return sandbox.build(PROGRAM.format(source), task.schema, task.covariates)


@pytest.mark.parametrize(
    ("name", "cells", "limits"),
    [
        ("event", SEEN, "np.where(event == 0, time, np.inf)"),
        ("event", SEEN, "np.where(event == 1, np.inf, time)"),
        ("event", SEEN, TABLE_LIMITS),
        ("event", SEEN, "np.where(event.astype(bool), np.inf, time)"),
        ("event", SEEN, "np.where(data['event'] < 1, data['time'], 1e300)"),
        ("status", [seen + 1 for seen in SEEN], "np.where(status == 2, np.inf, time)"),
        ("censored", [1 - seen for seen in SEEN], "np.where(censored, time, np.inf)"),
        ("died", [bool(seen) for seen in SEEN], "np.where(~(died > 0), time, np.inf)"),
    ],
)
def test_limits_chosen_by_the_table_s_own_column_are_the_column_of_limits(sandbox, name, cells, limits):
    task = task_of(name, cells)
    direct, chosen = (graph_of(sandbox, CENSORED.format(each), task) for each in ("time_limit", limits))
    assert json.loads(chosen) == json.loads(direct)


@pytest.mark.parametrize(
    "limits",
    [
        "np.where(event == 1, time, np.inf)",  # the wrong way round
        "np.where(age > 50, time, np.inf)",
        "np.where(event == 0, time, 500)",
        "np.where(event == 0, time[::-1], np.inf)",
        "np.where(event == 0, time, age)",
        "np.where(event == 0, time, None)",
        "np.where(event == 0, time, a)",
    ],
)
def test_other_choices_have_no_values_of_the_response(sandbox, task, limits):
    with pytest.raises(ProgramFailure, match="'time' has no values here"):
        graph_of(sandbox, CENSORED.format(limits), task)


def test_a_column_of_events_can_be_nothing_but_a_limit(task):
    wrong = PROGRAM.format('pm.Exponential("y", pt.exp(-a - b * event), observed=time)')
    with ProgramScorer(num_workers=1) as scorer:
        score = scorer.submit(wrong, task).result()
    assert score.failure == "unsupported"
    assert "'time_limit' says which rows were cut short" in score.message


def test_no_program_learns_which_rows_were_cut_short(sandbox):
    """What a program makes of the columns by itself is the same whatever they hold."""
    other = [1 - seen for seen in SEEN]
    for column in ("time_limit", "event"):
        source = f"""x = np.array([float(v) for v in {column}])
    pm.Exponential("y", pt.exp(-a - b * (x > 1.5)), observed=time)"""
        first, second = (json.loads(graph_of(sandbox, source, task_of(cells=c))) for c in (SEEN, other))
        assert first == second


def test_placeholders(task):
    seen = without_limits(task.schema, task.covariates)
    np.testing.assert_array_equal(seen["age"], AGE)
    assert not set(seen["time_limit"].tolist()) & set(TIMES)
    lower = TableTask(understand({"y": TIMES, "x": AGE, "low": [1] * 12}, "y", roles={"low": "lower_limit"}))
    placeholder = without_limits(lower.schema, lower.covariates)["low"]
    assert (placeholder[placeholder < 0] == -1e300).all()
    assert 0 < (placeholder < 0).sum() < 12


def test_words_for_events_and_tasks_without_names_have_no_such_column():
    assert task_of("status", ["dead" if seen else "alive" for seen in SEEN]).events == {}
    assert task_of(domain_knowledge=False).events == {}
    with_events, renamed = task_of(), task_of("events")
    assert with_events.fingerprint != renamed.fingerprint
