"""Deaths after surgery in twelve hospitals, from a hierarchical model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit, gammaln, log_expit

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, gather
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal

OPERATIONS = (47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360)
"""Those of BUGS volume I."""

SYNTHSTATS_OPERATIONS = (1767, 2367, 2145, 1098, 2389, 1876, 2134, 1567, 2897, 1234, 1876, 2456)


class SurgicalSimulator(Simulator):
    """Deaths after heart surgery on infants by hospital, after BUGS volume I (surgical).

    An observation is the number of operations of a hospital and its deaths; a design is a hospital,
    numbered from 0, and asked for again it gives the same numbers. Evaluation points are the deaths of
    another period at random hospitals; the error is squared.

    `boxing_gym` (here: SynthStats' own definition): `mu ~ U(-6, -4)`, `sigma ~ U(0.3, 0.8)`,
    `risk[hospital] ~ N(mu, sigma)`, and deaths are `Poisson(operations * exp(risk))`; operations are
    SynthStats' numbers (said to be those of BUGS, which they are not), each times `U(0.8, 1.2)` and cut to
    a whole number of at least 100. Deaths may exceed operations. `corrected`: the published operations,
    deaths `Binomial(operations, logistic(risk))`, `mu ~ U(-3.5, -1.5)` and `sigma ~ U(0.2, 0.8)`, around
    what the published deaths say (-2.5 and 0.4).

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        mu_range: Ends of the uniform prior of `mu`; by default as the variant says.
        sigma_range: Ends of the uniform prior of `sigma`; by default as the variant says.
    """

    name: ClassVar[str] = "surgical_simulator"
    description = "Deaths after heart surgery on infants by hospital."
    plain_description = "Counts in groups of known size."
    question: ClassVar[str] = "How many deaths will there be at given hospitals in another period?"
    columns = ("hospital", "operations", "deaths")
    response_kind = "count"
    repeatable: ClassVar[bool] = False
    independent_latents: ClassVar[bool] = False

    def __init__(
        self,
        variant: Variant = "corrected",
        mu_range: tuple[float, float] | None = None,
        sigma_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(variant)
        published = variant == "corrected"
        self.mu_range = mu_range or ((-3.5, -1.5) if published else (-6.0, -4.0))
        self.sigma_range = sigma_range or ((0.2, 0.8) if published else (0.3, 0.8))
        self.total = "operations" if published else None
        self.units = {}
        self.fields = (
            DesignField("hospital", "integer", 0.0, float(len(OPERATIONS) - 1), "", "number of a hospital"),
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`; `risk` is `[size, hospitals]`."""
        mu, sigma = rng.uniform(*self.mu_range, size), rng.uniform(*self.sigma_range, size)
        z = rng.standard_normal((size, len(OPERATIONS)))
        return {"mu": mu, "sigma": sigma, "risk": mu[:, None] + sigma[:, None] * z}

    def start(self, rng: np.random.Generator) -> None:
        """Draws operations and deaths of the instance."""
        self.operations = np.array(OPERATIONS)
        if self.variant == "boxing_gym":
            varied = np.array(SYNTHSTATS_OPERATIONS) * rng.uniform(0.8, 1.2, len(OPERATIONS))
            self.operations = np.maximum(varied.astype(np.int64), 100)
        self.deaths = self.simulate(self.latents_batch, self._rows(np.arange(len(OPERATIONS))), rng)[0]

    def _rows(self, hospital: Array) -> dict[str, Array]:
        return {"hospital": hospital, "operations": self.operations[hospital]}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return self._rows(np.array([design["hospital"]]))

    def respond(self, design: Design, covariates: dict[str, Array], rng: np.random.Generator) -> Array:
        """The deaths of the hospital."""
        deaths: Array = self.deaths[[design["hospital"]]]
        return deaths

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        risk = gather(latents["risk"], covariates["hospital"])
        share = np.exp(risk) if self.variant == "boxing_gym" else expit(risk)
        return np.asarray(covariates["operations"] * share)

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        if self.variant == "boxing_gym":
            return rng.poisson(self.mean(latents, covariates))
        return rng.binomial(covariates["operations"], expit(gather(latents["risk"], covariates["hospital"])))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        deaths = np.asarray(response, dtype=np.float64)
        risk = gather(latents["risk"], covariates["hospital"])
        operations = np.asarray(covariates["operations"], dtype=np.float64)
        if self.variant == "boxing_gym":
            log_mean = np.log(operations) + risk
            return np.asarray(deaths * log_mean - np.exp(log_mean) - gammaln(deaths + 1.0))
        inside = (deaths >= 0) & (deaths <= operations)
        deaths = np.where(inside, deaths, 0.0)
        ways = gammaln(operations + 1.0) - gammaln(deaths + 1.0) - gammaln(operations - deaths + 1.0)
        value = ways + deaths * log_expit(risk) + (operations - deaths) * log_expit(-risk)
        return np.where(inside, value, -np.inf)

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        rows = self._rows(rng.integers(0, len(OPERATIONS), n))
        return {**rows, "deaths": self.simulate(self.latents_batch, rows, rng)[0]}

    def parameter_goals(self) -> list[Goal]:
        """Centre and spread of the hospitals' risks."""
        scale = "log risks" if self.variant == "boxing_gym" else "log odds"
        return [
            parameter_goal(
                "mean_risk",
                "mu",
                f"What is the mean of the hospitals' {scale} of death?",
                f"What is the mean of the groups' {scale}?",
                lambda latents: np.asarray(latents["mu"]),
            ),
            parameter_goal(
                "spread",
                "sigma",
                f"What is the standard deviation of the hospitals' {scale} of death?",
                f"What is the standard deviation of the groups' {scale}?",
                lambda latents: np.asarray(latents["sigma"]),
            ),
        ]
