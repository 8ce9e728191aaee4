"""The likelihood as a term among others, so that it can have another weight than 1."""

from __future__ import annotations

from synthstats_lightning.scoring.terms.term import RewardTerm, ScoredProgram


class Likelihood(RewardTerm):
    """The score above the task's baseline, in nats; the reward's `beta` tempers it.

    Args:
        weight: Nats for each nat of the score, 0 or more.

    Raises:
        ValueError: If the weight is below 0.
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)
        if weight < 0:
            raise ValueError(f"weight of Likelihood must be 0 or more, got {weight}")

    def value(self, program: ScoredProgram) -> float:
        """See `RewardTerm`."""
        return program.gained
