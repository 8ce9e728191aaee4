"""Programs of the grammar: they build in PyMC, read the prompt, and are wide."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import synthstats_lightning.pretraining
from synthstats_lightning.pretraining.checks import problem
from synthstats_lightning.pretraining.datasets import MadeUpData, made_up_data
from synthstats_lightning.pretraining.grammar import draw_example, write_program
from synthstats_lightning.tasks import BUNDLED_TASKS, Column, Task

GROWTH = MadeUpData(
    "Sizes.", (Column("t", "continuous", 1.0, 30.0),), Column("size", "continuous", 1.6, 2.6), 30
)


def values(rng: np.random.Generator, column: Column, rows: int):
    """Values that the prompt's line on a column could be about."""
    drawn = np.append(rng.uniform(column.low, column.high, rows - 2), [column.low, column.high])
    return drawn if column.kind == "continuous" else np.round(drawn).astype(int)


def build(source: str, data: MadeUpData, rng: np.random.Generator) -> pm.Model:
    scope = {"pm": pm, "pt": pt, "np": np, "math": math}
    for column in (*data.covariates, data.response):
        scope[column.name] = values(rng, column, min(max(data.num_rows, 3), 40))
    exec(source, scope)
    return scope["model"]


@pytest.mark.parametrize("seed", range(40))
def test_programs_build_and_have_a_finite_density(seed):
    example = draw_example(Random(seed), 1)
    model = build(example.programs[0], example.data, np.random.default_rng(seed))
    assert len(model.observed_RVs) == 1
    density = pytensor.function(model.value_vars, model.logp(), mode="FAST_COMPILE")
    point = model.initial_point()
    assert np.isfinite(density(*[point[value.name] for value in model.value_vars])), example.programs[0]


def test_programs_pass_the_static_check_and_use_known_names_only():
    rng = Random(1)
    for _ in range(300):
        example = draw_example(rng, 2)
        names = [column.name for column in example.data.covariates]
        for source in example.programs:
            assert problem(source, names, example.data.response.name) is None, source


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("with pm.Model() as model:\n    pm.Normal(", "syntax"),
        ("x = 1", "not a single with block"),
        ('with pm.Model() as model:\n    pm.Normal("y", b, 1, observed=size)', "unknown name b"),
        ('with pm.Model() as model:\n    pm.Normal("y", size, 1, observed=size)', "response used"),
        ('with pm.Model() as model:\n    pm.Normal("y", 0, 1, observed=t)', "observed is not the response"),
        ('with pm.Model() as model:\n    pm.Weird("y", 0, 1, observed=size)', "unknown function pm.Weird"),
        ('with pm.Model() as model:\n    a = pm.Normal("a", 0, 1)', "0 observed variables"),
        (
            'with pm.Model() as model:\n    a = pm.Normal("a", 0, 1)\n    b = pm.Normal("a", 0, 1)',
            "variable 'a' stated twice",
        ),
    ],
)
def test_the_static_check_names_problems(source, message):
    found = problem(source, ["t"], "size")
    assert found is not None
    assert found.startswith(message)


def test_the_same_seed_gives_the_same_programs():
    assert draw_example(Random(5), 4) == draw_example(Random(5), 4)
    assert draw_example(Random(5), 4) != draw_example(Random(6), 4)


def test_made_up_data_are_data_that_a_task_accepts():
    rng = Random(2)
    for seed in range(200):
        data = made_up_data(rng)
        draws = np.random.default_rng(seed)
        columns = {
            column.name: values(draws, column, max(data.num_rows, 3))
            for column in (*data.covariates, data.response)
        }
        task = Task("made", data.description, columns, data.response.name)
        assert task.columns[data.response.name].kind == data.response.kind


def test_the_prior_over_programs_is_wide():
    rng = Random(3)
    programs = [write_program(rng, GROWTH) for _ in range(1000)]
    structures = Counter(re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "#", source) for source in programs)
    assert len(structures) >= 400
    assert structures.most_common(1)[0][1] <= 50
    for share, pattern in (
        (0.05, r"pt\.log\(t\)"),
        (0.04, r"pt\.exp\(-"),
        (0.04, r"\*t\*\*"),
        (0.1, "StudentT"),
    ):
        assert sum(re.search(pattern, source) is not None for source in programs) >= share * 1000, pattern


@pytest.mark.parametrize(
    ("response", "allowed"),
    [
        (Column("n", "count", 0.0, 14.0), {"Poisson", "NegativeBinomial", "Binomial"}),
        (Column("n", "binary", 0.0, 1.0), {"Bernoulli"}),
        (Column("n", "continuous", -1.0, 1.0), {"Normal", "StudentT", "Laplace", "Logistic", "Cauchy"}),
    ],
)
def test_the_likelihood_follows_the_kind_of_the_response(response, allowed):
    rng = Random(4)
    data = MadeUpData("Text.", GROWTH.covariates, response, 20)
    found = {re.search(r'pm\.(\w+)\("y"', write_program(rng, data))[1] for _ in range(200)}
    assert found == allowed


def test_no_logarithm_of_a_covariate_that_reaches_zero():
    rng = Random(6)
    data = MadeUpData("Text.", (Column("t", "continuous", 0.0, 9.0),), GROWTH.response, 20)
    for _ in range(300):
        assert "pt.log(t)" not in write_program(rng, data)


def test_the_grammar_names_no_bundled_task():
    folder = Path(synthstats_lightning.pretraining.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8").lower() for path in folder.glob("*.py"))
    for name in BUNDLED_TASKS:
        assert name.lower().rstrip("s") not in text


@pytest.mark.parametrize("source", ["with a\0b:\n    pass", "(" * 100_000, "with"])
def test_text_that_no_parser_takes_is_a_problem_and_no_error(source):
    found = problem(source, ["t"], "size")
    assert found is not None
    assert found.startswith("syntax: ")
