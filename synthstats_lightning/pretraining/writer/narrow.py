"""Examples of the tiny policy's grammar: one to three covariates, one line a parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np

from synthstats_lightning.learning.screen.screening import answers
from synthstats_lightning.pretraining.datasets import MadeUpData
from synthstats_lightning.pretraining.grammar import write_program
from synthstats_lightning.pretraining.prior_draws import draw_response
from synthstats_lightning.pretraining.screen.simulation import accepted_task, covariate_values, request
from synthstats_lightning.pretraining.writer.examples import Example, Plan, Written, enough, recorded
from synthstats_lightning.programs.forms.outline import outline
from synthstats_lightning.tasks.digest import task_digest
from synthstats_lightning.tasks.facts import Facts

SECTIONS = ("response", "regression", "scan", "residuals", "counts", "recording")
"""Sections that say something of this grammar's programs: it has neither groups nor an order."""


def narrow_example(
    rng: Random, programs: int, most_accepted: int, covariates: Mapping[int, float]
) -> Example:
    """A request with programs, each tried once.

    Columns have names that no parameter has, so that these depend on the request no more than columns do.

    Args:
        rng: Source of all randomness.
        programs: How many are drawn at most.
        most_accepted: Accepted ones after which no more are drawn; at 0 none is tried.
        covariates: Weights of the numbers of covariates.
    """
    data = _request(rng, covariates)
    values = np.random.default_rng(rng.getrandbits(63))
    known = covariate_values(rng, values, data)
    columns = list(data.covariates)
    rng.shuffle(columns)
    facts = Facts(tuple(columns), data.response, data.num_rows)
    names = [column.name for column in data.covariates]
    digits = rng.choice((None, None, 2, 3, 3, 4))
    written: list[Written] = []
    while len(written) < programs and not enough(written, most_accepted):
        source = write_program(rng, data)
        classes = answers(outline(source, names), names)
        used = frozenset(name for name in names if re.search(rf"\b{name}\b", source))
        parts = sorted({classes[f"part {name}"] for name in used} - {"linear"}) or ["linear"]
        plan = Plan(parts[0] if used else "none", classes["family"], frozenset(), used)
        seed = rng.getrandbits(60)
        response = draw_response(source, known, data.response.name, seed) if most_accepted else None
        if response is not None and digits is not None and data.response.kind == "continuous":
            response = recorded(response, data.response, digits)
        task = None if response is None else accepted_task(data, known, response)
        written.append(Written(source, plan, None if task is None else task_digest(task, SECTIONS)))
    return Example(facts, tuple(written))


def _request(rng: Random, covariates: Mapping[int, float]) -> MadeUpData:
    """A request with neutral names and so many covariates."""
    wanted = rng.choices(list(covariates), list(covariates.values()))[0]
    data = request(rng)
    while len(data.covariates) != wanted:
        data = request(rng)
    named = tuple(replace(column, name=f"x{place}") for place, column in enumerate(data.covariates, start=1))
    return replace(data, covariates=named, response=replace(data.response, name="y"))
