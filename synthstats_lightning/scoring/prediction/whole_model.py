"""Predictions by the whole model where those by a block's weighted draws are not sure.

Evidence over a block that is integrated out by weighted draws may be accurate while some row cannot be left
out: without it the other parameters' posterior is far wider, and weights have no gradient to anneal by. The
whole model, its block sampled, has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from synthstats_lightning.programs.failure import OUT_OF_TIME, FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import is_noisy
from synthstats_lightning.scoring.estimators.ladder import Posterior, climb
from synthstats_lightning.scoring.marginals.integration import given_up
from synthstats_lightning.scoring.prediction.diagnostics import Scored
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

MOST_ERRORS = 3.0
"""Joint standard errors by which the two evidences of a model may differ, beside `max_drift`."""


class WithWholeModel:
    """A posterior, and that of the whole model from the first score on that it cannot give.

    Args:
        posterior: What evidence was estimated by.
        settings: Work and acceptance.
        generator: Source of randomness.
        deadline: The running time limit.
    """

    def __init__(
        self, posterior: Posterior, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
    ) -> None:
        self.posterior = posterior
        self._settings, self._generator, self._deadline = settings, generator, deadline

    def score(self, by: Callable[[Posterior], Scored]) -> Scored:
        """A score by the posterior, by the whole model's where that fails.

        The whole model is trusted only where its evidence is the same.

        Args:
            by: Computes the score from a posterior.

        Raises:
            ProgramFailure: What the score raises, or raised before the whole model did not help either.
        """
        try:
            return by(self.posterior)
        except ProgramFailure as failure:
            beyond = failure.category is not FailureCategory.SCORER_LIMIT
            if beyond or failure.message.startswith(OUT_OF_TIME) or not is_noisy(self.posterior.target):
                raise
            try:
                self.posterior = self._whole()
                return by(self.posterior)
            except ProgramFailure as second:
                raise failure from second

    def _whole(self) -> Posterior:
        before = self.posterior.particles
        whole = climb(given_up(self.posterior.target), self._settings, self._generator, self._deadline)
        after = whole.particles
        error = math.hypot(before.log_evidence_se, after.log_evidence_se)
        difference = abs(before.log_evidence - after.log_evidence)
        if not difference <= max(self._settings.max_drift, MOST_ERRORS * error):
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"the whole model's evidence is {after.log_evidence:.2f} nats, not {before.log_evidence:.2f}",
            )
        return whole
