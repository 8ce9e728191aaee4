"""Data sets of the grammar's programs: covariates in their ranges, parameters from priors, a response."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from synthstats_lightning.learning.screen.features import column_features, request_features
from synthstats_lightning.learning.screen.screening import Inputs, answers, inputs
from synthstats_lightning.pretraining.datasets import MadeUpData, made_up_covariate, made_up_response
from synthstats_lightning.pretraining.grammar import write_program
from synthstats_lightning.pretraining.names import column_names
from synthstats_lightning.pretraining.prior_draws import Array, draw_response
from synthstats_lightning.programs.forms.outline import outline
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest import task_digest
from synthstats_lightning.tasks.task import Task

MOST_ROWS = 300
COVARIATES = (50, 30, 20)
"""Weights of data sets of one covariate, of two and so on."""


BINARY_AGAIN = 0.7
"""Share of binary responses that are drawn again: nearly every one of theirs is accepted."""


class Simulated(NamedTuple):
    """A program, and what is known of a data set that it makes.

    Attributes:
        classes: Classes of the program, see `screening.answers`.
        inputs: Features of request and data; without the data's for a program whose data are not accepted.
        accepted: Whether the data go with the request.
    """

    classes: dict[str, str]
    inputs: Inputs
    accepted: bool


def simulated(rng: Random, programs: int) -> Iterator[Simulated]:
    """Programs without end, each tried once on its request: blind ones, of which some make plausible data.

    Args:
        rng: Source of all randomness.
        programs: Programs for each request.
    """
    while True:
        data = request(rng)
        values = np.random.default_rng(rng.getrandbits(63))
        covariates = covariate_values(rng, values, data)
        names = [column.name for column in data.covariates]
        for _ in range(programs):
            source = write_program(rng, data)
            classes = answers(outline(source, names), names)
            response = draw_response(source, covariates, data.response.name, rng.getrandbits(60))
            task = None if response is None else accepted_task(data, covariates, response)
            if task is None:
                yield Simulated(classes, blind_inputs(data), False)
            else:
                digest = task_digest(task)
                found = inputs(data.covariates, data.response, data.num_rows, digest)
                yield Simulated(classes, found, True)


def request(rng: Random) -> MadeUpData:
    """A made-up request without words."""
    count = rng.choices(range(1, len(COVARIATES) + 1), COVARIATES)[0]
    names = column_names(rng, count + 1)
    columns = tuple(made_up_covariate(rng, name) for name in names[:-1])
    rows = round(8 * (MOST_ROWS / 8) ** rng.random())
    response = made_up_response(rng, names[-1])
    while response.kind == "binary" and rng.random() < BINARY_AGAIN:
        response = made_up_response(rng, names[-1])
    return MadeUpData("", columns, response, rows)


def covariate_values(rng: Random, generator: np.random.Generator, data: MadeUpData) -> dict[str, Array]:
    """Values of covariates that reach both ends of their ranges, correlated or not.

    Args:
        rng: Source of randomness.
        generator: Source of the values.
        data: The request, whose rows there are.
    """
    first = generator.standard_normal(data.num_rows)
    values = {}
    for column in data.covariates:
        share = rng.choice((0.0, 0.0, 0.5, 0.8, 0.95))
        own = share * first + np.sqrt(1 - share**2) * generator.standard_normal(data.num_rows)
        values[column.name] = spread_out(rng, column, ndtr(own))
    return values


def spread_out(rng: Random, column: Column, place: Array) -> Array:
    """Numbers from 0 to 1 as values of a column, in one of the ways in which columns are distributed.

    Args:
        rng: Source of randomness.
        column: Whose range the values fill.
        place: Numbers from 0 to 1, one for each row.
    """
    if column.kind == "binary":
        found: Array = (place < rng.choice((0.2, 0.35, 0.5, 0.5, 0.65))).astype(np.float64)
        return found
    style = rng.choices(("even", "grid", "skewed", "log", "centred"), (30, 20, 20, 15, 15))[0]
    if style == "grid":
        place = np.argsort(np.argsort(place)) / (len(place) - 1)
    elif style == "skewed":
        place = place ** rng.choice((1.5, 2.0, 3.0))
    elif style == "centred":
        place = np.sin(0.5 * np.pi * (2 * place - 1)) * 0.5 + 0.5
        place = 0.5 + 0.5 * np.sign(place - 0.5) * np.abs(2 * place - 1) ** 1.7
    low, high = float(column.low), float(column.high)
    place = (place - place.min()) / max(float(np.ptp(place)), 1e-12)
    if style == "log" and low > 0:
        values: Array = low * (high / low) ** place
    else:
        values = low + (high - low) * place
    values = np.clip(values, low, high)  # which rounding may leave by a hair
    return values if column.kind == "continuous" else np.rint(values)


def accepted_task(data: MadeUpData, covariates: dict[str, Array], response: Array) -> Task | None:
    """The data as a task, if the response goes with its request; nothing else of the program counts.

    Both ends of a continuous response lie within half its range of the request's ends, those of counts so on
    a logarithmic scale; a response of ones or zeros only is none.

    Args:
        data: The request that is to be answered.
        covariates: Name to values.
        response: Values that a program has made.
    """
    low, high = float(data.response.low), float(data.response.high)
    ends = np.array([response.min(), response.max()])
    wanted = np.array([low, high])
    if data.response.kind == "count":
        ends, wanted = np.log1p(ends), np.log1p(wanted)
    if np.ptp(response) == 0 or (np.abs(ends - wanted) > 0.5 * (wanted[1] - wanted[0])).any():
        return None
    columns = {
        column.name: covariates[column.name]
        if column.kind == "continuous"
        else covariates[column.name].astype(np.int64)
        for column in data.covariates
    }
    try:
        return Task(
            "made_up",
            "",
            {**columns, data.response.name: response},
            data.response.name,
            response_kind=data.response.kind,
        )
    except ValueError:  # a covariate that does not vary, or the like
        return None


def blind_inputs(data: MadeUpData) -> Inputs:
    """Features of a request without data.

    Args:
        data: The request that is to be answered.
    """
    own = request_features(data.covariates, data.response, data.num_rows)
    nothing = np.empty(0)
    columns = {
        column.name: (np.concatenate([own, column_features(column)]), nothing) for column in data.covariates
    }
    return Inputs(own, nothing, columns)
