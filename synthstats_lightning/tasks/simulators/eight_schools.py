"""Effects of coaching in eight schools, from their hierarchical model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    gather,
    normal_log_density,
)
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal

STANDARD_ERRORS = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)
"""Those of Rubin (1981)."""


class EightSchoolsSimulator(Simulator):
    """Estimated effects of coaching, after Rubin (1981), as SynthStats simulates them.

    Latents: `mu ~ N(0, 10)`, `tau ~ HalfNormal(10)`, `effects[school] ~ N(mu, tau)`. The estimate of a
    school is `N(effects[school], standard_errors[school])`. A design is a school, numbered from 0; asked
    for again, its estimate is the same. Evaluation points are estimates of new studies at random schools;
    the error is squared.

    `boxing_gym` (here: SynthStats' own definition): `tau` is at least 0.1 when effects are drawn.
    `corrected`: as it is.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        mu_sd: Prior standard deviation of the mean effect, points.
        tau_scale: Scale of the half-normal prior of the spread between schools, points.
        standard_errors: Known standard error of each school's estimate, points.
    """

    name: ClassVar[str] = "eight_schools_simulator"
    description = "Effects of coaching on test scores in schools, with known standard errors."
    plain_description = "A response of groups, with known standard errors."
    question: ClassVar[str] = "What would new studies at given schools estimate?"
    columns = ("school", "standard_error", "effect")
    response_kind = "continuous"
    repeatable: ClassVar[bool] = False
    independent_latents: ClassVar[bool] = False

    def __init__(
        self,
        variant: Variant = "corrected",
        mu_sd: float = 10.0,
        tau_scale: float = 10.0,
        standard_errors: tuple[float, ...] = STANDARD_ERRORS,
    ) -> None:
        super().__init__(variant)
        self.mu_sd, self.tau_scale = mu_sd, tau_scale
        self.standard_errors = np.array(standard_errors, dtype=np.float64)
        self.units = {"standard_error": "points", "effect": "points"}
        self.fields = (
            DesignField("school", "integer", 0.0, float(len(standard_errors) - 1), "", "number of a school"),
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`; `effects` is `[size, schools]`."""
        mu, tau = rng.normal(0.0, self.mu_sd, size), np.abs(rng.normal(0.0, self.tau_scale, size))
        spread = np.maximum(tau, 0.1) if self.variant == "boxing_gym" else tau
        z = rng.standard_normal((size, len(self.standard_errors)))
        return {"mu": mu, "tau": tau, "effects": mu[:, None] + spread[:, None] * z}

    def start(self, rng: np.random.Generator) -> None:
        """Draws the estimates of the instance."""
        schools = np.arange(len(self.standard_errors))
        self.estimates = self.simulate(self.latents_batch, self._rows(schools), rng)[0]

    def _rows(self, school: Array) -> dict[str, Array]:
        return {"school": school, "standard_error": self.standard_errors[school]}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return self._rows(np.array([design["school"]]))

    def respond(self, design: Design, covariates: dict[str, Array], rng: np.random.Generator) -> Array:
        """The estimate of the school."""
        estimate: Array = self.estimates[[design["school"]]]
        return estimate

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        mean = self.mean(latents, covariates)
        return np.asarray(mean + covariates["standard_error"] * rng.standard_normal(mean.shape))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        return normal_log_density(response, self.mean(latents, covariates), covariates["standard_error"])

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        return np.asarray(gather(latents["effects"], covariates["school"]))

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        rows = self._rows(rng.integers(0, len(self.standard_errors), n))
        return {**rows, "effect": self.simulate(self.latents_batch, rows, rng)[0]}

    def parameter_goals(self) -> list[Goal]:
        """Mean and spread of the effects."""
        return [
            parameter_goal(
                "mean_effect",
                "mu",
                "What is the mean effect over all schools, in points?",
                "What is the mean of the group means?",
                lambda latents: np.asarray(latents["mu"]),
            ),
            parameter_goal(
                "spread",
                "tau",
                "What is the standard deviation of effects between schools, in points?",
                "What is the standard deviation of the group means?",
                lambda latents: np.asarray(latents["tau"]),
            ),
        ]
