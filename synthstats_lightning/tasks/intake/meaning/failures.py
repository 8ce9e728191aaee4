"""Columns that count the failures beside a response that counts the successes: trials are their sum."""

from __future__ import annotations

import re

import numpy as np

from synthstats_lightning.tasks.intake.column_reading import MOSTLY, Reading
from synthstats_lightning.tasks.intake.encodings import Numbers
from synthstats_lightning.tasks.intake.roles import snake

FAILURES = "failures"
"""Role of such a column."""
TRIALS = frozenset({"total", FAILURES})
"""Roles of columns that say out of how many trials the response counts the successes."""
_OPPOSITES = tuple(
    (frozenset(ones.split()), frozenset(others.split()))
    for ones, others in (
        ("success successes succeeded", "failure failures failed fail"),
        ("case cases", "control controls noncases"),
        ("alive living survived survivors survivals surviving", "dead died deaths death deceased killed"),
        ("yes", "no"),
        ("positive positives pos", "negative negatives neg"),
        ("pass passed passes", "fail failed fails failures"),
        ("correct right", "wrong incorrect errors false"),
        ("accepted admitted approved", "rejected denied refused"),
        ("hit hits made scored", "miss misses missed"),
        ("win wins won", "loss losses lost defeats"),
        ("good ok intact", "bad broken defective defectives damaged"),
        ("present", "absent"),
        ("heads", "tails"),
        ("male males men boys", "female females women girls"),
        ("infected diseased ill sick affected", "healthy well"),
        ("agree agreed favor favour pro", "disagree disagreed against oppose opposed contra"),
    )
)
"""Words for the two ways in which a trial may end."""
_NEGATION = re.compile(r"(non|not|un|dis|in|no)_?(.{4,})")
_WORDS = frozenset().union(*(side for pair in _OPPOSITES for side in pair))
_NUMBER = re.compile(r"(?:number_of_|num_|no_of_|count_|n_)(.+)|(.+)_(?:count|number|n)")


def may_be_failures(name: str, reading: Reading, response: str, values: Numbers) -> bool:
    """Whether a column counts the trials that ended the other way than those that the response counts.

    Args:
        name: Name of the column.
        reading: What it holds.
        response: Name of the response.
        values: Values of the response, NaN where it is missing.
    """
    if reading.kind != "number" or not _opposite(snake(response), snake(name)):
        return False
    both = ~np.isnan(reading.values) & ~np.isnan(values)
    here, there = reading.values[both], values[both]
    whole = bool((here == np.rint(here)).all() and (there == np.rint(there)).all())
    if not whole or not len(here) or min(here.min(), there.min()) < 0:
        return False
    return bool((here + there > 0).mean() > MOSTLY)


def trials(name: str, reading: Reading, response: str, values: Numbers) -> Numbers:
    """Number of trials of each row, NaN where either count is missing.

    Args:
        name: Name of the column of failures, for messages.
        reading: What it holds.
        response: Name of the response, for messages.
        values: Values of the response, NaN where it is missing.

    Raises:
        ValueError: If the column or the response holds anything else than counts.
    """
    for each, counts in ((name, reading.values), (response, values)):
        known = counts[~np.isnan(counts)]
        if reading.kind != "number" or (known < 0).any() or (known != np.rint(known)).any():
            raise ValueError(f"column {name!r} has the role 'failures', so {each!r} must hold counts")
    counted: Numbers = values + reading.values
    return counted


def how_taken(name: str, response: str, total: str) -> str:
    """A sentence on what was made of a column of failures, and how to say otherwise.

    Args:
        name: Name of the column.
        response: Name of the response.
        total: Name of the column of trials that stands for it.
    """
    return (
        f"{name} is taken to count the failures beside {response}: {response} counts the successes among"
        f" {total} = {response} + {name} trials. Something else: roles: {{{name}: covariate}}"
    )


def _opposite(one: str, other: str) -> bool:
    """Whether two names are those of the two ways in which a trial may end."""
    for left, right in ((one, other), (other, one)):
        negated = _NEGATION.fullmatch(right)
        denied = re.fullmatch(r"(.+_)no[tn]_(.+)", right)
        if (negated and _plain(negated[2]) == _plain(left)) or (denied and denied[1] + denied[2] == left):
            return True
    ones, others = _different_words(one, other)
    return any(
        (ones in first and others in second) or (ones in second and others in first)
        for first, second in _OPPOSITES
    )


def _different_words(one: str, other: str) -> tuple[str, str]:
    """What is left of two names without the words with which both begin or end."""
    left, right = _plain(one).split("_"), _plain(other).split("_")
    while len(left) > 1 and len(right) > 1 and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    return "_".join(left), "_".join(right)


def _plain(name: str) -> str:
    """A name without what says that it is a number of something."""
    match = _NUMBER.fullmatch(name)
    if match is None and name[:1] == "n" and name[1:] in _WORDS:  # ncases
        return name[1:]
    return name if match is None else match[1] or match[2]
