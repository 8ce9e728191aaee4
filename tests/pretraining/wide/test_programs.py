"""Programs of the wide grammar: every class is drawn, of what the request has, as often as weighted."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from synthstats_lightning.pretraining.wide import WEIGHTS, draw_program, draw_request, request_of, simulate
from synthstats_lightning.pretraining.wide.locations import FORMS
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses import FAMILIES, family_weights
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.forms.features import FEATURES
from synthstats_lightning.tasks import BUNDLED_TASKS, Column, get_task
from tests.pretraining.wide.support import of_form

TABLES = ("real", "positive", "semicontinuous", "proportion", "count", "total", "binary", "ordinal")
SCOPE = {"pm", "pt", "np", "math", "len", "range", "int", "_", "model"}


@pytest.fixture(scope="module")
def drawn():
    rng = Random(11)
    requests = [draw_request(rng) for _ in range(700)]
    return [(request, draw_program(rng, request)) for request in requests]


def names_of(source: str) -> tuple[Counter[str], list[str]]:
    """Names that a program reads but does not state, how often, and those that it states."""
    names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    stated = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    return Counter(node.id for node in names if node.id not in stated), stated


def test_programs_name_what_the_request_has_and_the_response_once(drawn):
    for request, program in drawn:
        read, stated = names_of(program.source)
        allowed = {column.name for column in request.covariates} | {*request.views}
        allowed |= {*request.censoring.values(), request.response.name}
        assert set(read) <= SCOPE | allowed, program.source
        assert read[request.response.name] == 1
        assert f"observed={request.response.name})" in program.source
        assert len(stated) == len(set(stated)), program.source
        assert not set(stated) & set(request.names)
        entering = [
            column.name for column in request.covariates if {column.name, f"{column.name}_z"} & set(read)
        ]
        assert list(program.columns) == entering


def test_every_class_is_drawn(drawn):
    rng = Random(12)
    forms, families = ({getattr(program, part) for _, program in drawn} for part in ("form", "family"))
    assert set(WEIGHTS.forms) | set(WEIGHTS.simple_forms) == set(FORMS)
    for name in set(FORMS) - forms:
        next(of_form(rng, name))
    for name in set(FAMILIES) - families:
        tables = [table for table in TABLES if name in getattr(WEIGHTS, table)]
        often = {table: {**getattr(WEIGHTS, table), name: 1e4} for table in tables}
        weights = replace(WEIGHTS, simple=0.0, **(often or {"other_families": 1e4}))
        assert any(draw_program(rng, draw_request(rng), weights).family == name for _ in range(400)), name


def test_simple_programs_are_half_of_all_and_have_no_feature(drawn):
    simple = [program for _, program in drawn if program.simple]
    assert abs(len(simple) / len(drawn) - WEIGHTS.simple) < 4 * np.sqrt(0.25 / len(drawn))
    for program in simple:
        assert program.form in WEIGHTS.simple_forms
        assert program.family not in WEIGHTS.rich


def test_forms_and_families_are_as_frequent_as_their_weights_say():
    columns = tuple(Column(f"x{place}", "continuous", 0.5, 4.0) for place in range(5))
    group = Column("site", "count", 0.0, 5.0, levels=("n", "s", "e", "w", "m", "o"), role="group")
    request = Request((*columns, group), Column("size", "continuous", -3.0, 8.0), 80)
    rng = Random(5)
    weights = replace(WEIGHTS, simple=0.0, guessed_role=0.0)
    rich = [draw_program(rng, request, weights) for _ in range(1500)]
    possible = [
        *("constant", "linear", "curve", "additive", "selection", "interaction", "polynomial", "spline"),
        *("smooth", "wave", "change_point", "categories", "pooled", "varying_slopes", "sources"),
    ]
    compare(Counter(program.form for program in rich), {name: WEIGHTS.forms[name] for name in possible})
    others = {name: 0.5 for name in DISTRIBUTIONS if DISTRIBUTIONS[name].location_and_scale}
    families = {**others, **WEIGHTS.real}
    del families["known_errors"]
    compare(Counter(program.family for program in rich), families)


def compare(counts: Counter[str], weights: dict[str, float]) -> None:
    """Whether counts are those of the weights, within four standard errors each."""
    number, total = counts.total(), sum(weights.values())
    assert set(counts) <= set(weights)
    for name, weight in weights.items():
        share = weight / total
        assert abs(counts[name] / number - share) <= 4 * np.sqrt(share * (1 - share) / number) + 1e-9, name


def test_the_same_generator_gives_the_same(drawn):
    found = []
    for _ in range(2):
        rng = Random(7)
        requests = [draw_request(rng) for _ in range(40)]
        programs = [draw_program(rng, request) for request in requests]
        made = [simulate(rng, *pair) for pair in zip(requests, programs, strict=True)]
        found.append(
            (requests, programs, [None if each is None else each.response.tolist() for each in made])
        )
    assert found[0] == found[1]


def test_features_and_families_are_those_that_the_engine_knows(drawn):
    assert {feature for _, program in drawn for feature in program.features} <= set(FEATURES)
    known = {name for name, entry in DISTRIBUTIONS.items() if entry.location_and_scale}
    assert known <= set(FAMILIES)  # whatever the engine's table has, the grammar has


def test_parameters_give_way_to_columns():
    columns = (Column("a", "continuous", 0.0, 1.0), Column("tau", "count", 0.0, 9.0))
    request = Request(columns, Column("mu", "continuous", 0.0, 5.0), 30)
    for seed in range(50):
        _, stated = names_of(draw_program(Random(seed), request).source)
        assert not {"a", "tau", "mu"} & set(stated)


@pytest.mark.parametrize("name", BUNDLED_TASKS)
def test_requests_of_real_tasks_have_programs(name):
    request = request_of(get_task(name))
    rng = Random(3)
    assert family_weights(request, WEIGHTS)
    for _ in range(20):
        assert f"observed={request.response.name})" in draw_program(rng, request).source
