"""The regressions that are written first: what they regress on, and which rows are looked at."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning import ProgramScorer
from synthstats_lightning.pretraining.wide.regressions import MOST_FAMILIES, regressions
from synthstats_lightning.tasks import CSVTask, Task
from synthstats_lightning.tasks.default_regression import default_regression


def written(path, columns):
    names = list(columns)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    return path


@pytest.fixture
def factorial(tmp_path):
    """Counts by three categories and a number, each of which matters."""
    rng = np.random.default_rng(3)
    n = 240
    first, second, third = (rng.integers(0, levels, n) for levels in (3, 4, 6))
    x = rng.uniform(5.0, 9.0, n)
    rate = np.exp(0.5 + 0.7 * first - 0.5 * (second == 2) + 0.15 * third + 0.4 * (x - 7))
    columns = {
        "kind": [f"k{value}" for value in first],
        "mask": [f"m{value}" for value in second],
        "pad": [f"p{value}" for value in third],
        "x": np.round(x, 3),
        "skips": rng.poisson(rate),
    }
    return CSVTask(written(tmp_path / "solder.csv", columns), "skips")


def test_every_column_has_its_part(factorial):
    found = regressions(factorial)
    assert len(found) == len(set(found))
    first = found[0]
    assert "NegativeBinomial" in first
    for name in ("kind_code", "mask_code", "pad_code"):
        assert f"[{name}]" in first
    assert "*x_z" in first
    assert "Poisson" in found[1]


@pytest.mark.long
def test_they_do_at_least_as_well_as_the_default(factorial):
    with ProgramScorer() as scorer:
        default = scorer.score(default_regression(factorial), factorial)
        scores = [scorer.score(source, factorial) for source in regressions(factorial)]
    assert all(score.scored for score in scores)
    assert max(score.elpd for score in scores) > default.elpd - 2.0


def test_columns_that_explain_nothing_are_left_out_of_some():
    rng = np.random.default_rng(0)
    data = {f"x{place}": rng.normal(size=80) for place in range(6)}
    response = 2.0 * data["x1"] - 3.0 * data["x4"] + 0.1 * rng.normal(size=80)
    found = regressions(Task("many", "", data | {"y": response}, "y"))
    everything, clear = found[0], found[2]
    assert all(f"x{place}" in everything for place in range(6))
    assert "x1" in clear
    assert "x4" in clear
    assert "x0" not in clear
    assert {"Normal", "StudentT"} == {source.rsplit("pm.", 1)[1].split("(")[0] for source in found}


@pytest.mark.long
def test_logarithms_where_columns_range_widely_and_the_link_is_one():
    rng = np.random.default_rng(1)
    capital = np.exp(rng.normal(3.0, 1.5, 60))
    data = {"capital": capital, "output": capital**0.7 * np.exp(0.1 * rng.normal(size=60))}
    found = regressions(Task("production", "", data, "output"))
    with_log = [source for source in found if "pt.log(capital)" in source]
    assert with_log
    assert not any('pm.Normal("y"' in source for source in with_log)
    task = Task("production", "", data, "output")
    with ProgramScorer() as scorer:
        scores = {source: scorer.score(source, task).evidence for source in found}
    assert max(scores, key=scores.__getitem__) in with_log


@pytest.mark.long
def test_times_that_were_cut_short_are_those_of_survival(tmp_path):
    rng = np.random.default_rng(4)
    n = 150
    age = rng.uniform(30.0, 70.0, n)
    times = np.exp(3.0 - 0.05 * (age - 50)) * rng.weibull(0.8, n)
    end = rng.uniform(5.0, 60.0, n)
    columns = {
        "age": age.round(1),
        "died": (times < end).astype(int),
        "time": np.minimum(times, end).round(3),
    }
    task = CSVTask(written(tmp_path / "times.csv", columns), "time", roles={"died": "event"})
    found = regressions(task)
    assert [
        name for name in ("LogNormal", "Weibull", "Gamma") if any(f"pm.{name}.dist" in each for each in found)
    ] == [
        "LogNormal",
        "Weibull",
        "Gamma",
    ]
    with ProgramScorer() as scorer:
        scores = [scorer.score(source, task) for source in found]
        default = scorer.score(default_regression(task), task)
    assert all(score.scored for score in scores)
    assert max(score.elpd for score in scores) > default.elpd - 0.5


def test_rows_that_do_not_count_change_nothing():
    rng = np.random.default_rng(2)
    data = {"x": rng.normal(size=40), "z": rng.normal(size=40)}
    y = data["x"] + rng.normal(size=40)
    other = y.copy()
    other[30:] = rng.permutation(other[30:])  # the range is the prior's to know
    assert not np.array_equal(y, other)
    made = [regressions(Task("t", "", data | {"y": values}, "y", held_out=10)) for values in (y, other)]
    assert made[0] == made[1]


def test_an_offset_alone(tmp_path):
    rng = np.random.default_rng(4)
    population = rng.integers(100, 9000, 50)
    columns = {"population": population, "cases": rng.poisson(population * 0.01)}
    found = regressions(CSVTask(written(tmp_path / "rates.csv", columns), "cases"))
    assert found
    assert all("population*pt.exp(" in source for source in found)


def test_how_many_families(factorial):
    assert regressions(factorial, 0) == []
    assert all("NegativeBinomial" in source for source in regressions(factorial, 1))
    assert MOST_FAMILIES == 3


def test_nothing_varies():
    data = {"x": np.ones(12), "y": np.arange(12.0)}
    assert regressions(Task("flat", "", data, "y")) == []


def repeated(path, subjects, spread, rows=4):
    """A few rows each of many subjects, who differ."""
    rng = np.random.default_rng(6)
    subject = np.repeat(np.arange(subjects), rows)
    x = rng.uniform(size=len(subject)).round(3)
    y = 20 + 2 * x + spread * rng.normal(size=subjects)[subject] + rng.normal(size=len(subject))
    columns = {"subject": [f"s{each:03}" for each in subject], "x": x, "y": y.round(2)}
    return CSVTask(written(path / "repeated.csv", columns), "y")


@pytest.mark.parametrize(
    ("subjects", "spread", "has"), [(90, 1.5, True), (90, 0.0, False), (700, 1.5, False)]
)
def test_many_subjects_have_effects_if_they_differ(tmp_path, subjects, spread, has):
    found = regressions(repeated(tmp_path, subjects, spread))
    hierarchical = [source for source in found if f"shape={subjects})" in source]
    plain = [source for source in found if "shape=" not in source]
    assert bool(hierarchical) == has
    assert plain
    assert all("u[subject_code]" in source for source in hierarchical)
    if has:
        assert found[0] in hierarchical


def test_effects_of_many_subjects_have_the_evidence_of_exact_integrals(tmp_path):
    """A Normal with effects is Normal with a covariance, which explains such data better by far."""
    task = repeated(tmp_path, 90, 1.5)
    found = [source for source in regressions(task) if 'pm.Normal("y"' in source]
    with ProgramScorer(num_workers=1) as scorer:
        scores = {source: scorer.score(source, task) for source in found}
    assert all(score.scored for score in scores.values())
    hierarchical = max(score.evidence for source, score in scores.items() if "shape=90" in source)
    plain = max(score.evidence for source, score in scores.items() if "shape=" not in source)
    y, x = task.data["y"], task.data["x"]
    design = np.column_stack([np.ones_like(x), x])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    together = np.kron(np.eye(90), np.full((4, 4), 1.5**2)) + np.eye(360)
    apart = residual.var() * np.eye(360)
    logs = [
        -0.5 * (np.linalg.slogdet(each)[1] + residual @ np.linalg.solve(each, residual))
        for each in (together, apart)
    ]
    assert hierarchical - plain == pytest.approx(logs[0] - logs[1], abs=10.0)
    assert hierarchical > plain + 40.0
