"""What a class of responses is: where it is possible, the scale of its location, and how it is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.pretraining.draft import Range
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.tasks.columns import Column


class Family(NamedTuple):
    """One class of responses.

    Attributes:
        link: `"identity"`, `"log"` or `"logit"`: what the location is put through.
        target: Where the location is expected, from the request.
        write: Takes a draft and the location; states the other parameters and the response.
        possible: Whether a request allows it, beside its response's kind.
        scaled: Whether it has a scale that may differ between rows.
        intercept: Whether the location has a level.
        features: Features that every program of the family has.
    """

    link: str
    target: Callable[[Request], Range]
    write: Callable[[Draft, str], None]
    possible: Callable[[Request], bool] = lambda request: True
    scaled: bool = False
    intercept: bool = True
    features: tuple[str, ...] = ()


def observe(draft: Draft, law: str, *parameters: str) -> None:
    """States what the response follows, censored where the request has limits.

    Args:
        draft: The program so far.
        law: Name of the distribution.
        parameters: Sources of its parameters, with names where PyMC needs them.
    """
    name, given = draft.request.response.name, ", ".join(parameters)
    limits = draft.request.censoring
    if limits:
        ends = ", ".join(f"{side}={limits.get(side)}" for side in ("lower", "upper"))
        line = f'pm.Censored("y", pm.{law}.dist({given}), {ends}, observed={name})'
    else:
        line = f'pm.{law}("y", {given}, observed={name})'
    draft.statements.append(line)


def plain_or_certain(law: str) -> Callable[[Request], bool]:
    """Whether a request has no limits, or the distribution's probability beyond one is known.

    Args:
        law: A name of the engine's table.
    """
    known = law in DISTRIBUTIONS and DISTRIBUTIONS[law].has_cdf
    return lambda request: known or not request.censoring


def range_of(request: Request) -> Range:
    """The response's range.

    Args:
        request: What is to be answered.
    """
    return Range(float(request.response.low), float(request.response.high))


def log_range_of(request: Request) -> Range:
    """The range of the logarithm of the response; its low end is at least a twentieth of the high one.

    Args:
        request: What is to be answered.
    """
    column = request.response
    return Range(math.log(max(column.low, column.high / 20)), math.log(column.high))


def logit(share: float) -> float:
    """The logit of a share, of 0.01 and 0.99 at the ends.

    Args:
        share: A number from 0 to 1.
    """
    kept = min(max(share, 0.01), 0.99)
    return math.log(kept / (1.0 - kept))


def logit_range(low: float, high: float) -> Range:
    """The range of logits of shares from one to another, at least one and a half long.

    Args:
        low: The smallest share that is expected.
        high: The largest share that is expected.
    """
    first, last = logit(low), logit(high)
    middle, half = (first + last) / 2, max((last - first) / 2, 0.75)
    return Range(middle - half, middle + half)


def middle_of(column: Column) -> float:
    """A typical value of a positive column, the geometric mean of its ends.

    Args:
        column: Whose low end is not negative.
    """
    return math.sqrt(max(column.low, column.high / 20) * column.high)
