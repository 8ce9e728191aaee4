"""What a writer learns from: requests, programs of a grammar for them, and data that some of these make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from synthstats_lightning.tasks.digest import Digest
from synthstats_lightning.tasks.facts import Facts


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
    """

    source: str
    plan: Plan
    digest: Digest | None


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


Examples = Iterator[Example]
"""Examples without end."""
Shares = Mapping[int, float]
"""Number of covariates to its weight."""


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
