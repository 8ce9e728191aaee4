"""The one interface of all searchers: ask for programs, tell their scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.proposal import Proposal, Scored, Writer


@dataclass(frozen=True)
class Estimate:
    """What a search says of log Z, the log of prior times evidence summed over all programs.

    Attributes:
        log_z: Estimate in nats; `None` where the search allows none.
        standard_error: Its standard error in nats; `None` where it is not known.
        effective_sample_size: Programs of equal weight that would tell as much; `None` where the search gives
            no draws of a known law.
    """

    log_z: float | None = None
    standard_error: float | None = None
    effective_sample_size: float | None = None


class Searcher(ABC):
    """Proposes programs of one task and is told their scores, round by round.

    A searcher is deterministic: equal seeds, writers and scores make equal proposals, which is what resuming
    a search rests on.

    Attributes:
        independent: Whether all its proposals are independent draws with a known probability, so that the
            records alone estimate log Z and the mass that was not found.
        log_z_from: Where its log Z comes from, or why there is none, in a sentence.
        shares_from: What its shares are, in a sentence.
    """

    independent: ClassVar[bool] = False
    log_z_from: ClassVar[str]
    shares_from: ClassVar[str] = (
        "every distinct program of the search by prior times evidence; what none has met is in no share, and"
        " is not estimated"
    )

    def start(self, writer: Writer, task: EditedTask, seed: int) -> None:
        """Begins a search of one task, from nothing.

        Args:
            writer: Who writes its programs.
            task: What edits may know of the task.
            seed: Seed of all that the searcher chooses.
        """
        self.writer, self.task, self.random = writer, task, Random(seed)  # noqa: S311 - no secret

    def learn(self, scored: Sequence[Scored]) -> None:  # noqa: B027 - most have no use for them
        """Hears of programs that it has not asked for, before its first round.

        A searcher whose estimates rest on the probability that a program was proposed with has no use for
        them.

        Args:
            scored: Programs of others with their scores.
        """

    def rewritten(self, parents: Sequence[Proposal]) -> list[Proposal]:
        """Programs with other ends by the policy, each parent cut at a place that is drawn uniformly.

        The places are `cuts` of the parent: before its first token, where the policy writes all of it anew,
        and behind any but the last, from the shortest prefix on.

        Args:
            parents: The programs that are rewritten.
        """
        first, places = self.writer.shortest_prefix, []
        for parent in parents:
            place = self.random.randrange(self.cuts(parent.program_ids))
            places.append(0 if place == 0 else first + place - 1)
        prefixes = [
            parent.program_ids[:place] for parent, place in zip(parents, places, strict=True) if place
        ]
        anew = iter(self.writer.draw(places.count(0)) if 0 in places else [])
        ends = iter(self.writer.go_on(prefixes) if prefixes else [])
        return [next(ends) if place else next(anew) for place in places]

    def cuts(self, program_ids: Sequence[int]) -> int:
        """Places at which a program can be cut.

        Args:
            program_ids: Its tokens, stop token included.
        """
        return 1 + max(0, len(program_ids) - self.writer.shortest_prefix)

    @property
    def most_programs(self) -> int | None:
        """Distinct programs that it wants scored at most, whatever the budget; `None` for the budget's."""
        return None

    @abstractmethod
    def ask(self) -> list[Proposal]:
        """The next programs, repeats among them; none when the search is over."""

    @abstractmethod
    def tell(self, scored: Sequence[Scored]) -> None:
        """Takes the scores of what was asked for last, in the same order.

        Args:
            scored: All of it, or its beginning where the budget ended before the rest.
        """

    def estimate(self) -> Estimate:
        """What the scores so far say of log Z."""
        return Estimate()
