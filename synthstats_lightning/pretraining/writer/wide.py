"""Examples of the wide grammar."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from synthstats_lightning.pretraining.wide import (
    Program,
    Request,
    draw_covariates,
    draw_program,
    draw_request,
    simulate,
)
from synthstats_lightning.pretraining.writer.examples import Example, Plan, Written, enough, recorded
from synthstats_lightning.tasks.columns import Array, Column
from synthstats_lightning.tasks.digest import Digest, task_digest
from synthstats_lightning.tasks.facts import LIMIT_ROLES, Facts
from synthstats_lightning.tasks.task import Task


def wide_example(rng: Random, programs: int, most_accepted: int, most_covariates: int) -> Example:
    """A request with programs, each tried once on the same covariates.

    Args:
        rng: Source of all randomness.
        programs: How many are drawn at most.
        most_accepted: Accepted ones after which no more are drawn; at 0 none is tried.
        most_covariates: Covariates of a request at most; others are drawn again.
    """
    request = draw_request(rng)
    while len(request.covariates) > most_covariates:
        request = draw_request(rng)
    covariates = draw_covariates(rng, request)
    digits = rng.choice((None, None, 2, 3, 3, 4))
    written: list[Written] = []
    while len(written) < programs and not enough(written, most_accepted):
        program = draw_program(rng, request)
        plan = Plan(program.form, program.family, program.features, frozenset(program.columns))
        task = _data(rng, request, program, covariates, digits) if most_accepted else None
        digest = None if task is None else _digest(task)
        written.append(Written(program.source, plan, digest, None if digest is None else task))
    return Example(request_facts(request), tuple(written))


def request_facts(request: Request) -> Facts:
    """A made-up request as the facts that a task of such a table has.

    Args:
        request: What the columns are.
    """
    sides = request.censoring.items()
    limits = [Column(name, "continuous", 0.0, 0.0, role=LIMIT_ROLES[side]) for side, name in sides]
    return Facts(
        (*request.covariates, *limits),
        request.response,
        request.num_rows,
        levels=len(request.ordered),
        views={name: view.column for name, view in request.views.items()},
    )


def _data(
    rng: Random, request: Request, program: Program, covariates: Mapping[str, Array], digits: int | None
) -> Task | None:
    """Data that a program has made, if they go with the request."""
    made = simulate(rng, request, program, covariates)
    if made is None:
        return None
    own = request.response
    if digits is not None and own.kind == "continuous" and not request.censoring:
        values = recorded(np.asarray(made.response, np.float64), own, digits)
        made = made._replace(data={**made.data, own.name: values})
    try:
        return made.task()
    except ValueError:  # data that no task takes, such as a covariate that does not vary
        return None


def _digest(task: Task) -> Digest | None:
    try:
        return task_digest(task)
    except ValueError:
        return None
