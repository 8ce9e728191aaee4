"""Made-up episodes: experiments on data that a program of the grammar makes, then that program.

The hidden truth of an episode is a program that the grammar draws for a made-up data source, with parameters
from its priors; the experiments are at random designs, and what is submitted is the program itself. A policy
that imitates such episodes learns the protocol, and the posterior over programs given a few rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from synthstats_lightning.pretraining.datasets import MadeUpData, made_up_data
from synthstats_lightning.pretraining.grammar import write_program
from synthstats_lightning.pretraining.numbers import text
from synthstats_lightning.pretraining.prior_draws import Array, draw_response, plausible
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.experiments.actions import HOW
from synthstats_lightning.tasks.experiments.messages import (
    NONE_LEFT,
    observation,
    plain,
    refusal,
    render_episode_request,
)
from synthstats_lightning.tasks.simulators import DesignError, DesignField

MISTAKES = 0.06
"""Probability of a mistake before an action; what it says is not imitated, the action after it is."""
TRIES = 6
"""Draws of the parameters of one program before another is taken."""


@dataclass(frozen=True)
class MadeUpTurn:
    """A turn of the policy.

    Attributes:
        text: What it writes.
        imitated: Whether a policy is to learn to write it.
        answer: What the environment says; empty after the last turn.
    """

    text: str
    imitated: bool
    answer: str


@dataclass(frozen=True)
class MadeUpEpisode:
    """A conversation to imitate.

    Attributes:
        request: What the prompt says.
        turns: What policy and environment write, in order.
        data: The made-up source.
        program: The hidden truth.
    """

    request: str
    turns: tuple[MadeUpTurn, ...]
    data: MadeUpData
    program: str


def made_up_episode(rng: Random) -> MadeUpEpisode:
    """Draws an episode.

    Args:
        rng: Source of all randomness.
    """
    while True:
        data = _source(rng)
        fields = tuple(_field(rng, column) for column in data.covariates)
        experiments = rng.choices((0, 1, 2, 3, 4, 5, 6, 7, 8), (3, 8, 11, 18, 14, 22, 9, 8, 7))[0]
        turns = experiments + rng.randint(1, 5)
        performed = experiments if rng.random() < 0.75 else rng.randint(0, experiments)
        designs = [tuple(design_value(rng, field) for field in fields) for _ in range(performed)]
        program = _program(rng, data)
        response = _response(rng, data, program, designs)
        if response is None:
            continue
        request = render_episode_request(
            data.description, data.covariates, data.response, fields, experiments, turns
        )
        written = _turns(rng, data, fields, designs, response, experiments, turns)
        last = MadeUpTurn(f"<program>{program}</program>", True, "")
        return MadeUpEpisode(request, (*written, last), data, program)


def design_value(rng: Random, field: DesignField) -> float:
    """A value of a design field, to about a hundredth of its range.

    Args:
        rng: Source of randomness.
        field: One value, not a list.
    """
    if field.kind == "binary":
        return float(rng.randint(0, 1))
    low = field.low if math.isfinite(field.low) else -2.0
    high = field.high if math.isfinite(field.high) else low + 4.0
    if field.kind == "integer":
        return float(rng.randint(int(low) + field.open_ends, int(high) - field.open_ends))
    span = high - low
    decimals = max(0, math.ceil(-math.log10(span / 30)))
    share = rng.choice((0.0, 1.0)) if rng.random() < 0.08 and not field.open_ends else rng.random()
    step = 10.0**-decimals
    inside = low + 0.5 * step, high - 0.5 * step
    value = round(low + share * span, decimals)
    if field.open_ends:
        value = min(
            max(value, round(inside[0] + 0.5 * step, decimals)), round(inside[1] - 0.5 * step, decimals)
        )
    return min(max(value, low), high)


def _source(rng: Random) -> MadeUpData:
    data = replace(made_up_data(rng), shown=())
    response = data.response
    if response.kind == "count" and rng.random() < 0.3:
        response = replace(response, low=0.0, total=int(response.high))
    elif response.kind == "continuous" and rng.random() < 0.15:
        response = replace(
            response, rounding=10.0 ** math.floor(math.log10((response.high - response.low) / 50))
        )
    return replace(data, response=response)


def _field(rng: Random, column: Column) -> DesignField:
    kinds = {"continuous": "continuous", "binary": "binary"}
    kind = kinds.get(column.kind, "integer")
    bounds = (column.low, column.high)
    open_ends = kind == "continuous" and rng.random() < 0.15
    if kind == "continuous" and column.low < 0 and rng.random() < 0.2:
        bounds, open_ends = (-math.inf, math.inf), False
    about = column.name.replace("_", " ") if rng.random() < 0.3 else ""
    if about and rng.random() < 0.5:
        about = f"{about} of the {rng.choice(('sample', 'unit', 'subject', 'case', 'site'))}"
    return DesignField(column.name, kind, *bounds, column.unit, about, open_ends)  # type: ignore[arg-type]


def _program(rng: Random, data: MadeUpData) -> str:
    """A program of the grammar; of counts out of a total one that knows it."""
    while True:
        program = write_program(rng, data)
        if data.response.total is None or "pm.Binomial(" in program:
            return program


def _response(
    rng: Random, data: MadeUpData, program: str, designs: Sequence[tuple[float, ...]]
) -> Array | None:
    if not designs:
        return np.zeros(0)
    columns = {
        column.name: np.array([design[place] for design in designs])
        for place, column in enumerate(data.covariates)
    }
    response = data.response
    for _ in range(TRIES):
        values = draw_response(program, columns, response.name, rng.getrandbits(60))
        if values is not None and plausible(values, response.low, response.high):
            return values if response.rounding is None else _rounded(values, response.rounding)
    return None


def _rounded(values: Array, spacing: float) -> Array:
    decimals = max(0, round(-math.log10(spacing)))
    rounded: Array = np.round(np.rint(values / spacing) * spacing, decimals)
    return rounded


def _turns(
    rng: Random,
    data: MadeUpData,
    fields: tuple[DesignField, ...],
    designs: Sequence[tuple[float, ...]],
    response: Array,
    experiments: int,
    turns: int,
) -> list[MadeUpTurn]:
    written: list[MadeUpTurn] = []
    spare = turns - len(designs) - 1
    for place, design in enumerate(designs):
        if spare and rng.random() < MISTAKES:
            written.append(_mistake(rng, fields, turns - len(written) - 1))
            spare -= 1
        rows = {column.name: np.array([value]) for column, value in zip(data.covariates, design, strict=True)}
        answer = observation(
            {**rows, data.response.name: response[place : place + 1]}, experiments - place - 1
        )
        written.append(MadeUpTurn(_observe(design), True, answer))
    if spare and rng.random() < MISTAKES:
        left = turns - len(written) - 1
        if len(designs) == experiments:
            beyond = _observe(tuple(design_value(rng, field) for field in fields))
            written.append(MadeUpTurn(beyond, False, refusal(NONE_LEFT, left)))
        else:
            written.append(_mistake(rng, fields, left))
    return written


def _observe(design: Sequence[float]) -> str:
    return f"<observe>{', '.join(text(value) for value in design)}</observe>"


def _mistake(rng: Random, fields: tuple[DesignField, ...], turns_left: int) -> MadeUpTurn:
    """A turn that the environment refuses, as it would."""
    bounded = [field for field in fields if math.isfinite(field.high)]
    if bounded and rng.random() < 0.6:
        field = rng.choice(bounded)
        value = text(field.high + (field.high - field.low) * rng.uniform(0.1, 2.0) + 1)
        try:
            field.read(value)
        except DesignError as error:
            turn = f"<observe>{value}</observe>"
            return MadeUpTurn(turn, False, refusal(plain(str(error)), turns_left))
    if rng.random() < 0.5:
        message = "<observe> is not closed by </observe>"
        return MadeUpTurn(_observe([design_value(rng, fields[0])])[:-10], False, refusal(message, turns_left))
    message = f"the turn holds no action; {HOW}"
    return MadeUpTurn(text(design_value(rng, fields[0])), False, refusal(message, turns_left))
