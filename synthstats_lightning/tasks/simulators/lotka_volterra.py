"""Populations of predators and prey."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    normal_log_density,
)
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal
from synthstats_lightning.tasks.simulators.predator_prey import populations

RATES = ("alpha", "beta", "gamma", "delta")


class LotkaVolterraSimulator(Simulator):
    """Numbers of prey and predators over time, after Lotka and Volterra.

    Latents: `alpha ~ N(0.1, 0.01)`, `beta ~ N(0.02, 0.01)`, `gamma ~ N(0.4, 0.04)`, `delta ~ N(0.01,
    0.001)`, with `prey' = alpha prey - beta prey predators` and `predators' = delta prey predators - gamma
    predators`, from 40 prey and 9 predators. Designs are times from 0 to 50, evaluation times `round(4
    Beta(2, 5), 1)`. An observation is two rows, of species 0 (prey) and 1 (predators). The error is
    absolute.

    `boxing_gym`: populations are rounded to whole numbers and there is no noise, so that no program with
    noise can be right and one without has no density (whole numbers count as rounded ones, so that a program
    with little noise scores well); in one of 44 instances `beta` is negative and the
    populations explode (here they stop at 10^6). `corrected`: rates are truncated to positive values, and a
    population is observed with log-normal noise of standard deviation 0.1.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        means: Prior means of `alpha`, `beta`, `gamma`, `delta`, per unit of time.
        sds: Their prior standard deviations.
        initial: Prey and predators at time 0.
        max_time: Largest time that can be observed.
        noise: Standard deviation of the log population, in the variant `corrected`.
    """

    name: ClassVar[str] = "lotka_volterra"
    description = "Numbers of prey (species 0) and predators (species 1) of one habitat over time."
    plain_description = "Two positive responses, numbered 0 and 1, that depend on one positive number."
    question: ClassVar[str] = "How many prey and predators are there at given times?"
    columns = ("time", "species", "population")
    rows_per_design: ClassVar[int] = 2
    index_column: ClassVar[str | None] = "species"

    def __init__(
        self,
        variant: Variant = "corrected",
        means: tuple[float, float, float, float] = (0.1, 0.02, 0.4, 0.01),
        sds: tuple[float, float, float, float] = (0.01, 0.01, 0.04, 0.001),
        initial: tuple[float, float] = (40.0, 9.0),
        max_time: float = 50.0,
        noise: float = 0.1,
    ) -> None:
        super().__init__(variant)
        self.means, self.sds = tuple(means), tuple(sds)
        self.initial = (float(initial[0]), float(initial[1]))
        self.noise = noise
        self.response_kind = "continuous"
        # without noise whole numbers have no distribution of their own: they are rounded populations
        self.rounding = 1.0 if variant == "boxing_gym" else None
        self.units = {}
        self.fields = (DesignField("time", "continuous", 0.0, max_time),)

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        means, sds = np.array(self.means), np.array(self.sds)
        if self.variant == "boxing_gym":
            rates = rng.normal(means, sds, (size, 4))
        else:
            # by the upper tail, so that a far truncation loses no digits
            rates = means - sds * ndtri(rng.uniform(0.0, 1.0, (size, 4)) * ndtr(means / sds))
        return dict(zip(RATES, rates.T.copy(), strict=True))

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"time": np.full(2, design["time"]), "species": np.arange(2)}

    def trajectory(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Population of each row's species without noise or rounding, `[size, rows]`."""
        rates = np.stack([np.asarray(latents[name], dtype=np.float64) for name in RATES], axis=-1)
        time = np.asarray(covariates["time"], dtype=np.float64)
        shape = (len(rates), time.shape[-1])
        both = populations(rates, self.initial, np.broadcast_to(time, shape))
        prey = np.broadcast_to(covariates["species"], shape) == 0
        return np.asarray(np.where(prey, both[0], both[1]))

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        exact = self.trajectory(latents, covariates)
        if self.variant == "boxing_gym":
            return np.rint(np.maximum(exact, 0.0)).astype(np.int64)
        return np.asarray(exact * np.exp(self.noise * rng.standard_normal(exact.shape)))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`; in `boxing_gym` zero for the one possible value."""
        exact = self.trajectory(latents, covariates)
        response = np.asarray(response)
        if self.variant == "boxing_gym":
            return np.where(np.rint(np.maximum(exact, 0.0)) == response, 0.0, -np.inf)
        positive = response > 0.0
        logs = np.log(np.where(positive, response, 1.0))
        return np.where(positive, normal_log_density(logs, np.log(exact), self.noise) - logs, -np.inf)

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        exact = self.trajectory(latents, covariates)
        if self.variant == "boxing_gym":
            return np.rint(np.maximum(exact, 0.0))
        return exact * float(np.exp(0.5 * self.noise**2))

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        time = np.round(4.0 * rng.beta(2.0, 5.0, n), 1)
        rows: dict[str, Array] = {"time": np.repeat(time, 2), "species": np.tile(np.arange(2), n)}
        return {**rows, "population": self.simulate(self.latents_batch, rows, rng)[0]}

    def errors(self, prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        """Absolute error."""
        return np.asarray(np.abs(np.asarray(prediction, dtype=np.float64) - np.asarray(truth)))

    def parameter_goals(self) -> list[Goal]:
        """Growth of the prey and death of the predators."""
        return [
            parameter_goal(
                "prey_growth",
                "alpha",
                "At what rate would the prey grow without predators?",
                "At what rate would response 0 grow without response 1?",
                lambda latents: np.asarray(latents["alpha"]),
            ),
            parameter_goal(
                "predator_death",
                "gamma",
                "At what rate would the predators die without prey?",
                "At what rate would response 1 shrink without response 0?",
                lambda latents: np.asarray(latents["gamma"]),
            ),
        ]
