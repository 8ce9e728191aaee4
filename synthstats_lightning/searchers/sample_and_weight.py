"""Programs from the prior, weighted by their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from synthstats_lightning.metrics import importance_log_z
from synthstats_lightning.searchers.proposal import Proposal, Scored
from synthstats_lightning.searchers.searcher import Estimate, Searcher


class SampleAndWeight(Searcher):
    """Draws programs from the policy as it is, with weights of prior times evidence over their probability.

    With a policy that is the prior, as before any training, weights are evidences: Large Language Bayes
    (Domke, arXiv 2504.14025). Log Z, its standard error and shares are those of importance sampling.

    Args:
        programs_per_round: Programs that are drawn before any of them is scored.

    Raises:
        ValueError: If that is below 1.
    """

    independent: ClassVar[bool] = True
    log_z_from: ClassVar[str] = (
        "the mean importance weight of all draws, repeats too: unbiased but for the end of the search, which"
        " comes with a new program"
    )
    shares_from: ClassVar[str] = (
        "every distinct program by prior times evidence, and what none has met from programs drawn once (Good"
        " and Turing)"
    )

    def __init__(self, programs_per_round: int = 128) -> None:
        if programs_per_round < 1:
            raise ValueError(f"programs_per_round must be at least 1, got {programs_per_round}")
        self.programs_per_round = programs_per_round
        self._log_weight: list[float] = []

    def ask(self) -> list[Proposal]:
        """Independent draws."""
        return self.writer.draw(self.programs_per_round)

    def tell(self, scored: Sequence[Scored]) -> None:
        """Takes weights.

        Args:
            scored: What was drawn.
        """
        self._log_weight += [each.log_target - each.proposal.log_prob for each in scored]

    def estimate(self) -> Estimate:
        """The importance estimate of log Z."""
        if not self._log_weight:
            return Estimate()
        found = importance_log_z(np.array(self._log_weight))
        if not np.isfinite(found.value):
            return Estimate()
        error = found.standard_error if np.isfinite(found.standard_error) else None
        return Estimate(found.value, error, found.effective_sample_size)
