"""Exported scripts: data as the task has them, a density as the engine has it, figures as promised."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs import parse_graph
from synthstats_lightning.reports.exported.program import all_rows_by_density, export_program
from synthstats_lightning.reports.exported.script import ExpectedFigures, export_script
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.tasks import CSVTask, Task, get_task
from tests.sandbox.in_process import model_and_graph

TABLE = """Site;Height (cm);seen on;Price;y
x y;1,5;2020-01-03;1.200;3
é;2,5;2020-01-05;900;4
x y;;2020-01-09;800;6
é;3,25;2020-02-05;1.100;5
x y;4,5;2020-03-05;700;8
"""
PROGRAM = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 2)
    b = pm.Normal("b", 0, 1, shape=2)
    s = pm.HalfNormal("s", 3)
    pm.Normal("o", a + b[Site_code] + Height_z + 0.01 * seen_on, s, observed=y)
"""


@pytest.fixture
def own(tmp_path):
    """A file with a delimiter, decimal commas, words, dates and a gap."""
    path = tmp_path / "own data.csv"
    path.write_text(TABLE, encoding="utf-8")
    return CSVTask(path, "y", response_kind="continuous")


def graph_of(source, task):
    return parse_graph(json.dumps(model_and_graph(source, task.schema, task.covariates)[1]), task.schema)


def executed(script, **names):
    found = {"__name__": "script", **names}
    exec(compile(script, "script", "exec"), found)
    return found


def test_data_and_density_are_those_of_the_task(own, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script"])
    graph = graph_of(PROGRAM, own)
    script = export_script(own, graph, ExpectedFigures(-20.0, -21.0), 'A """title""" \\ of form 1')
    assert "import synthstats" not in script
    assert 'file_table["Site"].str.strip().map({"x y": 0, "é": 1})' in script
    assert "pandas.to_datetime(" in script
    found = executed(script)
    for name in ("Site_code", "Height", "seen_on", "y"):
        np.testing.assert_array_equal(found[name], own.data[name])
    model = found["model"]
    density = build_density(graph, own.covariates, own.data["y"])
    theta = torch.linspace(-0.7, 0.9, density.dimension, dtype=torch.float64)[None]
    inputs = {variable.name: variable for variable in model.value_vars}
    point = {
        next(name for name in inputs if name.startswith(p.name)): theta[0, p.start : p.stop].reshape(p.shape)
        for p in density.parameters
    }
    by_pymc = model.compile_fn(model.logp(), inputs=model.value_vars, mode="FAST_COMPILE")
    expected = sum(part.sum() for part in density.log_prior_and_likelihood(theta))
    found_logp = by_pymc({name: value.numpy() for name, value in point.items()})
    # PyTensor keeps 0.01 in single precision beside integers
    assert float(found_logp) == pytest.approx(float(expected), abs=1e-7)


def test_another_file_is_noticed(own, monkeypatch, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(
        (tmp_path / "own data.csv").read_text(encoding="utf-8").replace(";8", ";9"), encoding="utf-8"
    )
    script = export_script(own, graph_of(PROGRAM, own), ExpectedFigures(None, None), "Form 1")
    monkeypatch.setattr(sys, "argv", ["script", str(other)])
    with pytest.raises(AssertionError, match="y"):
        executed(script)


def test_without_a_file_the_numbers_are_written_out():
    task = get_task("dugongs")
    source = "with pm.Model() as model:\n    pm.Normal('o', np.log(age), 1.0, observed=length)\n"
    script = export_script(task, graph_of(source, task), ExpectedFigures(-1.0, -1.0), "Form 1")
    found = executed(script)
    np.testing.assert_array_equal(found["length"], task.data["length"])
    assert "pandas" not in script
    assert "the model has no parameters" in script


def test_a_column_in_the_way_is_said():
    task = Task("t", "A task.", {"arviz": np.arange(4.0), "y": np.array([0.1, 1, 2, 4])}, "y")
    graph = graph_of(
        "with pm.Model() as model:\n    pm.Normal('o', np.log1p(arviz), 1.0, observed=y)\n", task
    )
    with pytest.raises(ValueError, match="a column named 'arviz' is in the way"):
        export_script(task, graph, ExpectedFigures(None, None), "Form 1")


def test_all_rows_count_by_their_density():
    data = {"x": np.arange(6.0), "y": np.array([0.1, 0.3, 0.2, 0.5, 0.4, 0.9])}
    task = Task("t", "A task.", data, "y", shown_rows=1, held_out=2, rounding=0.1)
    plain = all_rows_by_density(task)
    assert (plain.num_rows, plain.shown_rows, plain.held_out, plain.rounding) == (4, 0, 0, None)
    assert plain.schema.num_rows == 4
    assert plain.fingerprint != task.fingerprint
    assert (task.num_rows, task.held_out, task.schema.num_rows) == (6, 2, 6)


def test_a_transformed_response_is_as_programs_see_it():
    values = {"y": np.array([1.0, 2.0, 4.0])}
    plain = all_rows_by_density(Task("t", "A task.", values, "y", response_transform="log"))
    assert plain.log_jacobian is None
    np.testing.assert_allclose(plain.data["y"], np.log(values["y"]))


def test_tolerance_grows_with_what_is_not_known():
    assert ExpectedFigures(0.0, 0.0).tolerance == 0.3
    assert ExpectedFigures(0.0, 0.0, 1.0, 0.1).tolerance == pytest.approx(0.6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sampling_gives_the_figures(tmp_path):
    """The script itself fails where its elpd is not what it promises."""
    source = """
with pm.Model() as model:
    top = pm.Normal("top", 2.5, 1)
    drop = pm.HalfNormal("drop", 2)
    rate = pm.Beta("rate", 5, 2)
    s = pm.Exponential("s", 5)
    mu = pm.Deterministic("mu", top - drop * rate**age)
    pm.StudentT("o", nu=4, mu=mu, sigma=s, observed=length)
"""
    task = get_task("dugongs")
    with ProgramScorer(1) as scorer:
        script = export_program(task, source, scorer, "Form 1")
    path = tmp_path / "model.py"
    path.write_text(script)
    found = subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    elpd, expected = (float(x) for x in found.stdout.split("elpd ")[-1].split(", expected "))
    assert elpd == pytest.approx(expected, abs=0.3)
