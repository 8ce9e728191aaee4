"""What a writer learns from: requests, programs of a grammar for them, and data that some of these make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest import Digest
from synthstats_lightning.tasks.facts import Facts
from synthstats_lightning.tasks.task import Task


@dataclass(frozen=True)
class Plan:
    """Classes of a program, which a plan head learns to foretell.

    Attributes:
        form: Class of its mean.
        family: Class of its response's distribution.
        features: What else it has.
        columns: Names of the columns that it uses.
    """

    form: str
    family: str
    features: frozenset[str]
    columns: frozenset[str]


class Written(NamedTuple):
    """A program of the grammar.

    Attributes:
        source: Its text, in which columns have their names.
        plan: Classes that it belongs to.
        digest: Of data that it has made and that go with the request; `None` where they do not.
        data: These data, of the wide grammar's programs.
    """

    source: str
    plan: Plan
    digest: Digest | None
    data: Task | None = None


class Example(NamedTuple):
    """A request and programs for it, each tried once: the unfiltered grammar, and what of it is accepted.

    Attributes:
        facts: The request that all of them answer.
        programs: Programs, drawn independently of each other.
    """

    facts: Facts
    programs: tuple[Written, ...]

    @property
    def kind(self) -> str:
        """Kind of the response."""
        return self.facts.response.kind


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def enough(written: Sequence[Written], most_accepted: int) -> bool:
    """Whether so many programs of a request were accepted; never where none is tried.

    Which of them are stops at a number, not at a program: each accepted one is drawn as if it were the only.

    Args:
        written: Programs so far.
        most_accepted: How many are wanted.
    """
    return 0 < most_accepted <= sum(program.digest is not None for program in written)


def recorded(response: Floats, column: Column, digits: int) -> Floats:
    """A response as it is recorded, to a power of ten.

    Args:
        response: What a program has made.
        column: The response as the request describes it.
        digits: Significant digits of the request's range.
    """
    return np.round(response, digits - 1 - int(np.floor(np.log10(column.high - column.low))))


def section_drop(rng: Random, digest: Digest, share: float, sections: tuple[str, ...]) -> Digest:
    """The digest with sections left out at random, so that a writer does without any of them.

    Args:
        rng: Source of all randomness.
        digest: All that is known.
        share: Share of digests that lose something.
        sections: What may be lost.
    """
    if rng.random() >= share:
        return digest
    lost = [section for section in sections if rng.random() < 0.4]
    return digest.without(*lost)
