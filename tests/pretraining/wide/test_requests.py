"""Requests of the wide grammar are such as tables have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np

from synthstats_lightning.pretraining.wide import (
    draw_covariates,
    draw_program,
    draw_request,
    request_of,
    requests,
    simulate,
)
from synthstats_lightning.pretraining.wide.request import num_levels
from synthstats_lightning.pretraining.wide.requests import LAYOUTS, MOST_COLUMNS
from synthstats_lightning.pretraining.wide.weights import WEIGHTS
from synthstats_lightning.tasks.intake.names import python_name
from synthstats_lightning.tasks.intake.roles import ROLES


def test_requests_have_the_intakes_kinds_and_roles():
    rng = Random(2)
    kinds, roles, most = Counter(), Counter(), 0
    scripts = set()
    for _ in range(500):
        request = draw_request(rng)
        most = max(most, len(request.covariates))
        assert len(set(request.names)) == len(request.names)
        assert all(python_name(name) == name for name in request.names)
        scripts |= {name[0].isascii() for name in request.names}
        kinds[request.response.kind, request.response.total is not None, bool(request.ordered)] += 1
        kinds.update(column.kind for column in request.covariates)
        roles.update(column.role for column in request.covariates)
        roles["limit"] += bool(request.censoring)
        roles["views"] += bool(request.views)
    assert {kind for kind in kinds if isinstance(kind, str)} == {"continuous", "count", "integer", "binary"}
    assert {role.replace(" ", "_") for role in roles} <= {*ROLES, "", "limit", "views"}
    assert {"group", "exposure", "total", "standard error", "limit", "views"} <= set(roles)
    assert {("count", True, True), ("count", True, False), ("count", False, False)} <= set(kinds)
    assert 8 < most <= MOST_COLUMNS
    assert scripts == {True, False}
    assert set(LAYOUTS) == set(WEIGHTS.layouts)


def test_two_indices_of_one_table_have_two_names(monkeypatch):
    monkeypatch.setattr(requests, "GROUP_WORDS", ("site",))  # of ten words they seldom collide
    layouts = replace(WEIGHTS, layouts={"crossed": 1.0})
    for seed in range(400):
        names = draw_request(Random(seed), layouts).names
        assert len(set(names)) == len(names)


def test_covariates_fill_their_ranges_and_levels():
    rng = Random(3)
    for _ in range(80):
        request = draw_request(rng)
        values = draw_covariates(rng, request)
        assert set(values) == {*(c.name for c in request.covariates), *request.censoring.values()}
        for column in request.covariates:
            own = values[column.name]
            assert own.shape == (request.num_rows,)
            assert column.low <= own.min() <= own.max() <= column.high
            if column.kind != "continuous":
                assert own.dtype == np.int64
            if column in request.indices:
                assert set(own.tolist()) <= set(range(num_levels(column)))


def test_accepted_data_are_a_task_that_says_the_same_of_itself():
    rng, found = Random(4), 0
    while found < 25:
        request = draw_request(rng)
        made = simulate(rng, request, draw_program(rng, request))
        if made is None:
            continue
        found += 1
        again = request_of(made.task())
        assert [(c.name, c.role, c.levels) for c in again.covariates] == [
            (c.name, c.role, c.levels) for c in request.covariates
        ]
        assert again.response.total == request.response.total
        assert (set(again.views), again.ordered, again.censoring) == (
            set(request.views),
            request.ordered,
            request.censoring,
        )
