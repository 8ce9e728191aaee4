"""Hill climbs for excess mass: over the parameters of a distribution, and over mutants of a program."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from normalisation_parts.laws import Family, Point, corner_points, random_point
from normalisation_parts.mass import Total, roles, total_of
from normalisation_parts.programs import HONEST, Outcome, mutants, outcome_of

STEPS = (0.01, 0.1, 1.0, 5.0)
"""Decades by which a parameter moves."""
PATIENCE = 25
"""Moves without success after which a climb starts anew."""
STALE = 40
"""Mutants without success after which the climb goes back to the honest program."""
ENOUGH = 20
"""Mutants with a gain after which a search has said what it has to say."""


class Worst(NamedTuple):
    """The largest mass of one distribution.

    Attributes:
        family: What it is.
        role: Where it stands.
        point: At which parameters.
        total: What it claims there.
        cases: Parameters that were tried.
        refused: How many of these are refused.
    """

    family: Family
    role: str
    point: Point
    total: Total
    cases: int
    refused: int


def fixed_cases(family: Family, role: str, count: int, seed: int) -> Worst:
    """The largest mass over random parameters and corners.

    Args:
        family: The distribution.
        role: Where it stands.
        count: Random parameters, and as many corners.
        seed: Of their choice.
    """
    generator = np.random.default_rng([seed, _number(family.name + role)])
    points = [random_point(family, generator) for _ in range(count)]
    points += corner_points(family, generator, count)
    totals = [total_of(family, point, role) for point in points]
    best = max(range(len(points)), key=lambda n: totals[n].log_mass)
    refused = sum(total.outcome == "refused" for total in totals)
    return Worst(family, role, points[best], totals[best], len(points), refused)


def search_family(family: Family, role: str, seconds: float, seed: int) -> Worst:
    """The largest mass that climbs from random parameters find.

    Args:
        family: The distribution.
        role: Where it stands.
        seconds: How long to search, in seconds of processor time.
        seed: Of all choices.
    """
    generator = np.random.default_rng([seed, _number(family.name + role)])
    started = time.process_time()
    best: tuple[Point, Total] = ({}, Total(-math.inf, "refused"))
    cases = refused = stale = 0
    point: Point = {}
    here = -math.inf
    while not cases or time.process_time() - started < seconds:
        if not point or stale > PATIENCE:
            tried, stale, here = random_point(family, generator), 0, -math.inf
        else:
            tried = _moved(point, generator)
        total = total_of(family, tried, role)
        cases, refused = cases + 1, refused + (total.outcome == "refused")
        stale = 0 if total.log_mass > here + 1e-12 else stale + 1
        if total.log_mass >= here:
            point, here = tried, total.log_mass
        if total.log_mass >= best[1].log_mass:
            best = tried, total
        if not tried:
            break
    return Worst(family, role, best[0], best[1], cases, refused)


def _moved(point: Point, generator: np.random.Generator) -> Point:
    moved = dict(point)
    for name in moved:
        if generator.random() < 0.5:
            moved[name] += float(generator.standard_cauchy() * generator.choice(STEPS))
            moved[name] = float(np.clip(moved[name], -330.0, 330.0))
    return moved


class Climb(NamedTuple):
    """What a climb over the mutants of one program found.

    Attributes:
        program: Number of the honest program.
        searched: Mutants that were scored or refused.
        scored: How many of these had a score.
        gains: Mutants that gained, with what became of them.
    """

    program: int
    searched: int
    scored: int
    gains: list[tuple[Any, Outcome]]


def search_program(number: int, count: int, seed: int) -> Climb:
    """Climbs over mutants of an honest program, by evidence and by what it has above what it may be.

    Args:
        number: Of the honest program.
        count: Mutants to try.
        seed: Of all choices.
    """
    response, honest = HONEST[number]
    generator = np.random.default_rng([seed, number])
    model, here, stale = honest, -math.inf, 0
    searched = scored = 0
    gains: list[tuple[Any, Outcome]] = []
    stream = mutants(model, generator)
    while searched < count and len(gains) < ENOUGH:
        mutant = next(stream)
        found = outcome_of(mutant, response)
        searched += 1
        stale += 1
        if found.evidence is not None:
            scored += 1
            gain = -math.inf if found.gain is None else found.gain
            if gain > 0:
                gains.append((mutant, found))
            # among mutants without a gain the higher evidence is the closer to one
            height = gain if gain > 0 else math.tanh(found.evidence / 1e3) - 2.0
            if height > here:
                model, here, stale = mutant, height, 0
                stream = mutants(model, generator)
        if stale > STALE:
            model, here, stale = honest, -math.inf, 0
            stream = mutants(model, generator)
    return Climb(number, searched, scored, gains)


def pairs(families: list[Family]) -> list[tuple[Family, str]]:
    """Each distribution in each place where it may stand."""
    return [(family, role) for family in families for role in roles(family)]


def _number(text: str) -> int:
    return int.from_bytes(text.encode()[-7:], "big")
