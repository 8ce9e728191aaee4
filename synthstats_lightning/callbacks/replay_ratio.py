"""How many trajectories training takes per scored program, and the bound on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthstats_lightning.runtime.distributed import rank_and_size

WORTH_SAYING = 10.0
"""Seconds that training waits before it says so."""


class ReplayRatio:
    """Trajectories that this rank has trained on per program that it has scored, since the run began.

    What a run learns depends on this ratio: the more often programs are replayed, the less training sees of
    what the policy would write now. The schedule of sampling rounds sets it, and slow scoring raises it,
    through rounds that a full queue costs. With the bound, training waits instead.

    Args:
        limit: The most that the ratio may be, warm-up counted. By default the schedule's own, counted since
            the warm-up and with the programs that may be on their way as leeway: no round is lost for good.

    Attributes:
        trained: Trajectories so far, each time that one is in a batch.
        scored: Programs so far that have a score or a failure, warm-up included.
        warmup: How many of them were scored before the first step.

    Raises:
        ValueError: If `limit` is not positive.
    """

    def __init__(self, limit: float | None = None) -> None:
        if limit is not None and not limit > 0:
            raise ValueError(
                f"max_replay_ratio must be a positive number of trajectories per program or None, got {limit}"
            )
        self.limit = limit
        self.trained = 0
        self.scored = 0
        self.warmup = 0
        self._batch = 0
        self._waited = 0.0

    def train(self, trajectories: int) -> None:
        """Counts a batch.

        Args:
            trajectories: Number of trajectories in the batch.
        """
        self.trained += trajectories
        # the batch of a rank without programs is empty
        self._batch = max(self._batch, trajectories)

    def bound(self, programs_per_batch: float) -> float:
        """The most that the ratio may be; with the default limit, in the long run.

        Args:
            programs_per_batch: Programs that the schedule samples per batch.
        """
        return self._batch / programs_per_batch if self.limit is None else self.limit

    def ahead(self, programs_per_batch: float, leeway: int) -> bool:
        """Whether another batch like those before would break the bound.

        Args:
            programs_per_batch: Programs that the schedule samples per batch.
            leeway: Programs by which scores may be behind the schedule; a given limit has none.
        """
        bound = self.bound(programs_per_batch)
        counted = self.scored if self.limit is not None else self.scored - self.warmup + leeway
        return not math.isinf(bound) and self.trained + self._batch > bound * counted

    def waited(self, seconds: float, programs_per_batch: float) -> str | None:
        """Counts what training has waited.

        Args:
            seconds: Since the last call.
            programs_per_batch: Programs that the schedule has sampled per batch.

        Returns:
            What the user is to be told: once, when it has become long.
        """
        before, self._waited = self._waited, self._waited + seconds
        if not before < WORTH_SAYING <= self._waited:
            return None
        return (
            f"training has waited {WORTH_SAYING:g} seconds for scores: it takes at most"
            f" {self.bound(programs_per_batch):.3g} trajectories per scored program (max_replay_ratio), and"
            " scoring is slower than that; perf/waiting_share is logged"
        )

    def state(self) -> tuple[int, int, int]:
        """All three counts."""
        return self.trained, self.scored, self.warmup

    def restore(self, ranks: Sequence[tuple[int, int, int]]) -> None:
        """Takes up where a checkpoint left off; with other processes than before, each has an equal share.

        Args:
            ranks: `state` of every rank that saved.
        """
        rank, size = rank_and_size()
        if len(ranks) == size:
            self.trained, self.scored, self.warmup = ranks[rank]
        else:
            shares = [sum(column) // size for column in zip(*ranks, strict=True)]
            self.trained, self.scored, self.warmup = shares
