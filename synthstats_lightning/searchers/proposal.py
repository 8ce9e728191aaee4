"""What a searcher proposes and what it is told, as plain values; and who writes proposals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from synthstats_lightning.scoring.score import Score


class Proposal(NamedTuple):
    """A program that is to be scored.

    Attributes:
        program_ids: Tokens of the program, stop token included.
        source: Source text of the program.
        log_prob: Log-probability of the tokens under the policy at temperature 1, in nats: log q where it was
            drawn whole.
        reference_log_prob: Log-probability of the tokens under the reference policy, in nats: the prior.
        stopped: Whether it ended with a stop token; one that did not has no score.
        drawn: Whether all its tokens were drawn independently from the policy, at temperature 1.
        span: The first of the tokens that the source was taken from, and that behind the last; `None` if
            unknown.
    """

    program_ids: tuple[int, ...]
    source: str
    log_prob: float
    reference_log_prob: float
    stopped: bool = True
    drawn: bool = False
    span: tuple[int, int] | None = None


class Scored(NamedTuple):
    """A proposal with its score.

    Attributes:
        proposal: What was proposed.
        score: Its score or failure.
    """

    proposal: Proposal
    score: Score

    @property
    def log_evidence(self) -> float:
        """Log evidence of the program, in nats; -inf where it has none."""
        evidence = self.score.evidence if self.score.scored else None
        return -math.inf if evidence is None else float(evidence)

    @property
    def log_target(self) -> float:
        """Log of prior times evidence, in nats; -inf where it has none."""
        return self.proposal.reference_log_prob + self.log_evidence


@runtime_checkable
class Writer(Protocol):
    """Who writes programs of one task: the policy."""

    shortest_prefix: int
    """Tokens that a program begins with at least before others may follow."""
    longest: int
    """Tokens of a program at most, stop token included."""

    def draw(self, number: int) -> list[Proposal]:
        """Programs drawn independently at temperature 1, each call others.

        Args:
            number: How many are drawn.
        """
        ...

    def go_on(self, prefixes: Sequence[tuple[int, ...]]) -> list[Proposal]:
        """Programs that begin with given tokens and go on as the policy will at temperature 1.

        Args:
            prefixes: First tokens of each program, at least `shortest_prefix` and fewer than `longest`.
        """
        ...

    def read(self, sources: Sequence[str]) -> list[Proposal | None]:
        """Given programs with what policy and prior think of them; `None` for one that it cannot write.

        Args:
            sources: Source texts of these programs.
        """
        ...
