"""Edits of programs: they build, mention no column that the task lacks, and change what they say."""

from __future__ import annotations

import ast
from random import Random

import numpy as np
import pytest

from synthstats_lightning.pretraining.grammar import draw_example
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.edits.crossover import crossed
from synthstats_lightning.searchers.edits.mutations import MUTATIONS, mutated
from synthstats_lightning.searchers.edits.program_text import ProgramText, pruned
from synthstats_lightning.tasks import get_task
from tests.sandbox.in_process import model_and_graph

SOURCE = """\
with pm.Model() as model:
    a = pm.Normal("a", 0, 10)
    b = pm.Normal("b", 0, 2)
    mu = a + b*pt.log(x)
    s = pm.HalfNormal("s", 3)
    pm.Normal("y", mu, s, observed=y)"""
OTHER = """\
with pm.Model() as model:
    a = pm.Laplace("a", 1, 5)
    c = pm.Exponential("c", 2)
    s = pm.HalfCauchy("s", 1)
    pm.StudentT("y", 4, a - c*z**2, sigma=s, observed=y)"""
TASK = EditedTask({"x": (1.0, 9.0), "z": (0.0, 3.0)}, "y", (-5.0, 5.0))


def edited(name, source=SOURCE, seed=0):
    return MUTATIONS[name](ProgramText(source), TASK, Random(seed))


def drawn(number, seed=0):
    """Made-up data sets, two programs of each, and one edit or crossover of them."""
    rng = Random(seed)
    while number:
        example = draw_example(rng, 2)
        ranges = {column.name: (float(column.low), float(column.high)) for column in example.data.covariates}
        response = example.data.response
        task = EditedTask(ranges, response.name, (float(response.low), float(response.high)))
        first, second = example.programs
        child = crossed(first, second, task, rng) if number % 4 == 0 else mutated(first, task, rng)
        if child is not None:
            number -= 1
            yield example.data, task, child


@pytest.mark.parametrize("number", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_edited_programs_build_and_use_the_columns_of_their_task(number):
    changed = 0
    for data, task, child in drawn(number):
        rows = {column.name: np.linspace(1, 2, 4) for column in data.covariates}
        schema = DataSchema(dict.fromkeys(rows, "float64"), task.response, "float64", 4)
        if data.response.kind != "continuous":
            schema = DataSchema(schema.columns, task.response, "int64", 4)
        _, graph = model_and_graph(child, schema, rows)
        used = {node["name"] for node in graph["nodes"] if node["op"] == "covariate"}
        assert used <= set(task.ranges)
        changed += 1
    assert changed == number


@pytest.mark.parametrize("seed", range(5))
def test_each_edit_changes_what_its_name_says(seed):
    more, less = edited("more", seed=seed), edited("less", seed=seed)
    assert more.count("pm.Normal") == SOURCE.count("pm.Normal") + 1
    assert "mu = a + b*pt.log(x) + c*" in more
    assert less in (
        SOURCE.replace("a + b*pt.log(x)", "a").replace('    b = pm.Normal("b", 0, 2)\n', ""),
        SOURCE.replace("a + b*pt.log(x)", "b*pt.log(x)").replace('    a = pm.Normal("a", 0, 10)\n', ""),
    )
    assert edited("column", seed=seed) == SOURCE.replace("log(x)", "log(z)")
    assert edited("shape", seed=seed) == SOURCE.replace("pt.log(x)", "x")
    assert "observed=y" in edited("tails", seed=seed)
    assert 'pm.StudentT("y", ' in edited("tails", seed=seed)
    for name in ("constant", "family"):
        assert edited(name, seed=seed) != SOURCE


def test_a_change_of_tails_and_back_is_no_change():
    there = edited("tails")
    assert MUTATIONS["tails"](ProgramText(there), TASK, Random(0)) == SOURCE
    counts = SOURCE.replace('pm.Normal("y", mu, s, ', 'pm.Poisson("y", pt.exp(mu), ')
    counts = pruned(counts)
    assert '"s"' not in counts
    more = MUTATIONS["tails"](ProgramText(counts), TASK, Random(0))
    assert 'pm.NegativeBinomial("y", pt.exp(mu), c, observed=y)' in more
    assert MUTATIONS["tails"](ProgramText(more), TASK, Random(0)) == counts


def test_crossover_takes_the_statements_that_it_needs_and_renames_them():
    found = {crossed(SOURCE, OTHER, TASK, Random(seed)) for seed in range(40)}
    with_location = [child for child in found if "z**2" in child]
    assert with_location
    for child in with_location:
        assert 'pm.Normal("y", mu, s, observed=y)' in child
        assert 'c = pm.Exponential("c", 2)' in child
        assert 'pm.Laplace("a", 1, 5)' not in child  # under another name: the frame had one of that name
        assert 'pm.Laplace("d", 1, 5)' in child
        ast.parse(child)
    priors = [child for child in found if "z**2" not in child]
    assert any('pm.Laplace("a", 1, 5)' in child for child in priors)
    assert any('pm.HalfCauchy("s", 1)' in child for child in priors)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "x = 1",
        "with pm.Model(",
        "(" * 200 + ")" * 200,
        SOURCE + "\n    pm.Normal('y2', mu, s, observed=y)",
        f"{SOURCE}\n# {'long ' * 2000}",
    ],
)
def test_what_cannot_be_read_is_left_alone(source):
    assert mutated(source, TASK, Random(0)) is None
    assert crossed(SOURCE, source, TASK, Random(0)) is None


def test_text_that_is_not_touched_stays_byte_by_byte():
    source = SOURCE.replace("mu = a", "mu  =  a").replace('("s", 3)', '("s",3) # Größe')
    child = MUTATIONS["column"](ProgramText(source), TASK, Random(0))
    assert child == source.replace("log(x)", "log(z)")


def test_a_task_says_names_and_ranges():
    task = EditedTask.of(get_task("dugongs"))
    assert task.ranges == {"age": (1.0, 31.5)}
    assert task.response == "length"
