"""Spread of an infection through a small population."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, ndtri, xlogy

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, column
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal


class DeathProcessSimulator(Simulator):
    """Number of infected among 50 individuals at a chosen time, the death process of Cook et al. (2008).

    Latent: `theta ~ N(1, 1)` truncated to (0, 2). Each observation is an independent run: `infected` is
    `Binomial(50, 1 - exp(-theta * time))`. Designs are times between 0 and 2, both excluded; evaluation
    times are uniform from 0.001 to 2; the error is squared.

    `boxing_gym`: predictions are cut to whole numbers before the error. `corrected`: they stay as they are.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        population: Number of individuals.
        theta_mean: Location of the truncated normal prior of the infection rate.
        theta_sd: Scale of the truncated normal prior of the infection rate.
        theta_max: Its upper end.
        max_time: Upper end of the times that can be observed.
    """

    name: ClassVar[str] = "death_process"
    plain_description = "A count that depends on one positive number."
    question: ClassVar[str] = "How many individuals are infected at given times?"
    columns = ("time", "infected")
    response_kind = "count"

    def __init__(
        self,
        variant: Variant = "corrected",
        population: int = 50,
        theta_mean: float = 1.0,
        theta_sd: float = 1.0,
        theta_max: float = 2.0,
        max_time: float = 2.0,
    ) -> None:
        super().__init__(variant)
        self.population = population
        self.theta_mean, self.theta_sd, self.theta_max = theta_mean, theta_sd, theta_max
        self.max_time = max_time
        self.description = (
            f"Infected individuals among {population} healthy ones, a given time after an infection arrived."
        )
        self.units = {"infected": "individuals"}
        self.total = population
        self.fields = (
            DesignField("time", "continuous", 0.0, max_time, "", "time of the count", open_ends=True),
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        low, high = ndtr((np.array([0.0, self.theta_max]) - self.theta_mean) / self.theta_sd)
        return {"theta": self.theta_mean + self.theta_sd * ndtri(rng.uniform(low, high, size))}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"time": np.array([design["time"]])}

    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Probability that an individual is infected, `[size, rows]`."""
        return np.asarray(-np.expm1(-column(latents["theta"]) * covariates["time"]))

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        return rng.binomial(self.population, self.probability(latents, covariates))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        infected = np.asarray(response, dtype=np.float64)
        healthy = self.population - infected
        inside = (infected >= 0) & (healthy >= 0)
        infected, healthy = np.where(inside, infected, 0.0), np.where(inside, healthy, 0.0)
        ways = gammaln(self.population + 1.0) - gammaln(infected + 1.0) - gammaln(healthy + 1.0)
        exposure = column(latents["theta"]) * covariates["time"]
        value = ways + xlogy(infected, -np.expm1(-exposure)) - healthy * exposure
        return np.where(inside, value, -np.inf)

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        return self.population * self.probability(latents, covariates)

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        rows = {"time": rng.uniform(0.001, self.max_time, n)}
        return {**rows, "infected": self.simulate(self.latents_batch, rows, rng)[0]}

    def errors(self, prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        """Squared error; `boxing_gym` first cuts predictions to whole numbers."""
        values = np.asarray(prediction, dtype=np.float64)
        return super().errors(np.trunc(values) if self.variant == "boxing_gym" else values, truth)

    def parameter_goals(self) -> list[Goal]:
        """The infection rate."""
        return [
            parameter_goal(
                "infection",
                "theta",
                "What is the infection rate theta?",
                "What is the rate at which the response approaches its maximum?",
                lambda latents: np.asarray(latents["theta"]),
            )
        ]
