"""Environments with a binary response."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    bernoulli_log_likelihood,
)
from synthstats_lightning.tasks.simulators.balanced import balanced_rows
from synthstats_lightning.tasks.simulators.base import Simulator, Variant


class BinarySimulator(Simulator):
    """An environment whose response is 1 with a probability that latents and covariates give.

    The error of a prediction, a probability, is 1 if it is on the wrong side of one half. BoxingGym
    evaluates at points that hold as many ones as zeros. Choosing points by their response makes every log
    density improper (the true model no longer scores best), so that `corrected` draws them as they come.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        balanced: Whether evaluation points hold as many ones as zeros; by default as the variant says.
    """

    response_kind = "binary"

    def __init__(self, variant: Variant = "corrected", balanced: bool | None = None) -> None:
        super().__init__(variant)
        self.balanced = variant == "boxing_gym" if balanced is None else balanced

    @abstractmethod
    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Probability of response 1, `[size, rows]`."""

    @abstractmethod
    def evaluation_covariates(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """Covariates of `n` random evaluation points, `[n]`, before any balancing."""

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        probability = self.probability(latents, covariates)
        return (rng.random(probability.shape) < probability).astype(np.int64)

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        return bernoulli_log_likelihood(response, self.probability(latents, covariates))

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        return self.probability(latents, covariates)

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws evaluation points of the instance.

        Raises:
            UnbalancedError: If they are to be balanced and one response is too rare.
        """

        def draw(count: int) -> dict[str, Array]:
            rows = self.evaluation_covariates(count, rng)
            return {**rows, self.response: self.simulate(self.latents_batch, rows, rng)[0]}

        return balanced_rows(draw, self.response, n) if self.balanced else draw(n)
