"""Counts of peregrine falcons over the years: a cubic on the log scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, column
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal

STANDARDISED = 1.67
"""Forty years, less their mean and over their standard deviation, reach from minus this to this."""


class PeregrinesSimulator(Simulator):
    """Counts of peregrine falcons by year, after the Poisson regression of Kéry and Schaub (2012, chapter 3).

    Latents: `alpha ~ N(4.5, 0.1)`, `beta1 ~ N(1.2, 0.1)`, `beta2 ~ N(0.07, 0.01)`, `beta3 ~ N(-0.24,
    0.05)`. The count is Poisson with log mean `alpha + beta1 t + beta2 t^2 + beta3 t^3`. The error is
    squared.

    `boxing_gym`: designs are `t` from 0 to 5, evaluation years `round(4 Beta(2, 5), 1)`, and predictions
    are cut to whole numbers. The coefficients belong to *standardised* years, so that from `t = 3` on there
    is next to nothing to count. `corrected`: designs are standardised years from -1.67 to 1.67, the range
    of the fit, evaluation years are uniform over it, and predictions stay as they are.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        means: Prior means of `alpha`, `beta1`, `beta2`, `beta3`.
        sds: Their prior standard deviations.
    """

    name: ClassVar[str] = "peregrines_simulator"
    description = (
        "Yearly counts of peregrine falcon pairs; years are standardised (centred, in standard deviations)."
    )
    plain_description = "A count that depends on one number."
    question: ClassVar[str] = "How many falcon pairs are counted in given years?"
    columns = ("year", "pairs")
    response_kind = "count"

    def __init__(
        self,
        variant: Variant = "corrected",
        means: tuple[float, float, float, float] = (4.5, 1.2, 0.07, -0.24),
        sds: tuple[float, float, float, float] = (0.1, 0.1, 0.01, 0.05),
    ) -> None:
        super().__init__(variant)
        self.means, self.sds = tuple(means), tuple(sds)
        self.units = {"year": "standardised years", "pairs": "pairs"}
        low, high = (0.0, 5.0) if variant == "boxing_gym" else (-STANDARDISED, STANDARDISED)
        self.fields = (DesignField("year", "continuous", low, high, "standardised years"),)

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        names = ("alpha", "beta1", "beta2", "beta3")
        return {
            name: rng.normal(mean, sd, size)
            for name, mean, sd in zip(names, self.means, self.sds, strict=True)
        }

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"year": np.array([design["year"]])}

    def log_mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Log of the expected count, `[size, rows]`."""
        year = np.asarray(covariates["year"])
        alpha, beta1, beta2, beta3 = (column(latents[key]) for key in ("alpha", "beta1", "beta2", "beta3"))
        return np.asarray(alpha + year * (beta1 + year * (beta2 + year * beta3)))

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        return rng.poisson(np.exp(self.log_mean(latents, covariates)))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        log_mean = self.log_mean(latents, covariates)
        return np.asarray(response * log_mean - np.exp(log_mean) - gammaln(np.asarray(response) + 1.0))

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        return np.exp(self.log_mean(latents, covariates))

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        if self.variant == "boxing_gym":
            year = np.round(4.0 * rng.beta(2.0, 5.0, n), 1)
        else:
            year = rng.uniform(-STANDARDISED, STANDARDISED, n)
        rows = {"year": year}
        return {**rows, "pairs": self.simulate(self.latents_batch, rows, rng)[0]}

    def errors(self, prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        """Squared error; `boxing_gym` first cuts predictions to whole numbers."""
        values = np.asarray(prediction, dtype=np.float64)
        return super().errors(np.trunc(values) if self.variant == "boxing_gym" else values, truth)

    def parameter_goals(self) -> list[Goal]:
        """The expected count at year 0."""
        return [
            parameter_goal(
                "count_at_zero",
                "count_at_zero",
                "How many pairs are expected at year 0?",
                "What is the expected response where the input is 0?",
                lambda latents: np.exp(latents["alpha"]),
            )
        ]
