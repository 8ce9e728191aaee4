"""Growth of dugongs: length against age, levelling off."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    column,
    normal_log_density,
)
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal


class DugongsSimulator(Simulator):
    """Lengths of dugongs (sea cows) by age, after the growth curve of BUGS volume II.

    Latents: `alpha ~ N(2, 0.2)`, `beta ~ N(1.5, 0.5)`, `rate ~ N(0.4, 0.5)`. The curve is
    `m = alpha - beta * |rate| ** age` with noise of standard deviation 0.25. Designs are ages from 0 to 5
    years, evaluation ages `4 * Beta(2, 5)`, the error is squared.

    `boxing_gym`: the length is `|N(m, 0.25)|`, and `|rate|` may exceed one, so that growth explodes in an
    eighth of the instances and errors have no stable spread. `corrected`: `rate` is truncated to (0, 1),
    where the curve levels off, and the length is `N(m, 0.25)` truncated below at 0.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        alpha_mean: Prior mean of the asymptote, metres.
        alpha_sd: Its standard deviation.
        beta_mean: Prior mean of the growth still to come at age 0, metres.
        beta_sd: Its standard deviation.
        rate_mean: Prior mean of the factor by which the missing growth shrinks in a year.
        rate_sd: Its standard deviation.
        noise: Standard deviation of a length, metres.
        max_age: Largest age that can be observed, years.
    """

    name: ClassVar[str] = "dugongs_simulator"
    description = "Lengths of dugongs (sea cows) of known age."
    plain_description = "A positive number that depends on one positive number."
    question: ClassVar[str] = "How long are dugongs of given ages?"
    columns = ("age", "length")
    response_kind = "continuous"

    def __init__(
        self,
        variant: Variant = "corrected",
        alpha_mean: float = 2.0,
        alpha_sd: float = 0.2,
        beta_mean: float = 1.5,
        beta_sd: float = 0.5,
        rate_mean: float = 0.4,
        rate_sd: float = 0.5,
        noise: float = 0.25,
        max_age: float = 5.0,
    ) -> None:
        super().__init__(variant)
        self.alpha_mean, self.alpha_sd = alpha_mean, alpha_sd
        self.beta_mean, self.beta_sd = beta_mean, beta_sd
        self.rate_mean, self.rate_sd = rate_mean, rate_sd
        self.noise = noise
        self.units = {"age": "years", "length": "metres"}
        self.fields = (DesignField("age", "continuous", 0.0, max_age, "years", "age of the dugong"),)

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        alpha = rng.normal(self.alpha_mean, self.alpha_sd, size)
        beta = rng.normal(self.beta_mean, self.beta_sd, size)
        if self.variant == "boxing_gym":
            rate = rng.normal(self.rate_mean, self.rate_sd, size)
        else:
            low, high = ndtr((np.array([0.0, 1.0]) - self.rate_mean) / self.rate_sd)
            rate = self.rate_mean + self.rate_sd * ndtri(rng.uniform(low, high, size))
        return {"alpha": alpha, "beta": beta, "rate": rate}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"age": np.array([design["age"]])}

    def curve(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Length without noise, `[size, rows]`."""
        shrink = np.abs(column(latents["rate"])) ** covariates["age"]
        return np.asarray(column(latents["alpha"]) - column(latents["beta"]) * shrink)

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        curve = self.curve(latents, covariates)
        if self.variant == "boxing_gym":
            return np.abs(curve + self.noise * rng.standard_normal(curve.shape))
        # from the upper tail, where the probability of being positive may be tiny
        tail = rng.uniform(0.0, 1.0, curve.shape) * ndtr(curve / self.noise)
        return np.asarray(np.maximum(curve - self.noise * ndtri(np.maximum(tail, 1e-300)), 0.0))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        curve = self.curve(latents, covariates)
        inside = normal_log_density(response, curve, self.noise)
        if self.variant == "boxing_gym":
            density = np.logaddexp(inside, normal_log_density(-np.asarray(response), curve, self.noise))
        else:
            density = inside - log_ndtr(curve / self.noise)
        return np.where(np.asarray(response) >= 0.0, density, -np.inf)

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        curve = self.curve(latents, covariates)
        z = curve / self.noise
        if self.variant == "boxing_gym":
            spike = 2.0 * self.noise * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
            return np.asarray(spike + curve * (1.0 - 2.0 * ndtr(-z)))
        hazard = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
        return np.asarray(curve + self.noise * hazard)

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        rows = {"age": 4.0 * rng.beta(2.0, 5.0, n)}
        return {**rows, "length": self.simulate(self.latents_batch, rows, rng)[0]}

    def parameter_goals(self) -> list[Goal]:
        """The asymptote and the yearly factor of the missing growth."""
        return [
            parameter_goal(
                "asymptote",
                "asymptote",
                "At what length, in metres, do dugongs stop growing?",
                "What does the response tend to as the input grows?",
                lambda latents: np.asarray(latents["alpha"]),
            ),
            parameter_goal(
                "growth_rate",
                "rate",
                "By what factor does the growth still to come shrink in a year?",
                "By what factor does the distance to the limit shrink per unit of the input?",
                lambda latents: np.abs(latents["rate"]),
            ),
        ]
