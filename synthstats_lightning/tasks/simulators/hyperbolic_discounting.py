"""Choices between a reward now and a larger one later."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, column
from synthstats_lightning.tasks.simulators.base import Variant
from synthstats_lightning.tasks.simulators.binary import BinarySimulator
from synthstats_lightning.tasks.simulators.design import Design, DesignError, DesignField
from synthstats_lightning.tasks.simulators.design_space import spread
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal


class HyperbolicDiscountingSimulator(BinarySimulator):
    """Whether a person prefers a delayed reward, hyperbolic discounting as in Vincent and Rainforth (2017).

    Latents: `log_k ~ N(-4.25, 0.5)`, `alpha ~ HalfNormal(2)`. With `V0 = immediate_reward` and
    `V1 = delayed_reward / (1 + k * days)`, the delayed reward is chosen (1) with probability
    `0.01 + 0.98 * Phi((V1 - V0) / alpha)`. Designs are whole numbers with `1 <= immediate_reward <
    delayed_reward` and at least one day; evaluation points have `immediate_reward = floor(U(1, 300))`,
    `delayed_reward = floor(U(immediate_reward + 1, 300))` and 1 to 364 days.

    `boxing_gym`: evaluation points hold as many ones as zeros (see `BinarySimulator`), and rewards and days
    go up to a million. `corrected`: points as they come, rewards up to 300, days up to 365.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        balanced: Whether evaluation points hold as many ones as zeros; by default as the variant says.
        log_k_mean: Prior mean of the log discount rate (k per day).
        log_k_sd: Its standard deviation.
        alpha_scale: Scale of the half-normal prior of the spread of choices, dollars.
        lapse: Probability of a choice against all reason, on either side.
    """

    name: ClassVar[str] = "hyperbolic_discounting"
    description = (
        "Choices of one person between a reward today (0) and a larger one after a number of days (1)."
    )
    plain_description = "A binary response that depends on three positive whole numbers."
    question: ClassVar[str] = "Which of two rewards does the person choose?"
    columns = ("immediate_reward", "delayed_reward", "days", "choice")

    def __init__(
        self,
        variant: Variant = "corrected",
        balanced: bool | None = None,
        log_k_mean: float = -4.25,
        log_k_sd: float = 0.5,
        alpha_scale: float = 2.0,
        lapse: float = 0.01,
    ) -> None:
        super().__init__(variant, balanced)
        self.log_k_mean, self.log_k_sd = log_k_mean, log_k_sd
        self.alpha_scale = alpha_scale
        self.lapse = lapse
        self.units = {"immediate_reward": "dollars", "delayed_reward": "dollars", "days": "days"}
        top, longest = (300.0, 365.0) if variant == "corrected" else (1e6, 1e6)
        self.fields = (
            DesignField("immediate_reward", "integer", 1.0, top, "dollars", "paid today"),
            DesignField("delayed_reward", "integer", 2.0, top, "dollars", "more than immediate_reward"),
            DesignField("days", "integer", 1.0, longest, "days", "wait for the delayed reward"),
        )

    def check(self, design: Design) -> Design:
        """The delayed reward must be the larger one.

        Raises:
            DesignError: If it is not.
        """
        now, later = design["immediate_reward"], design["delayed_reward"]
        if later <= now:
            raise DesignError(f"delayed_reward must be larger than immediate_reward, {now}, got {later}")
        return design

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        log_k = rng.normal(self.log_k_mean, self.log_k_sd, size)
        return {"log_k": log_k, "alpha": np.abs(rng.normal(0.0, self.alpha_scale, size))}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {name: np.array([design[name]]) for name in self.columns[:-1]}

    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `BinarySimulator.probability`."""
        discount = 1.0 + np.exp(column(latents["log_k"])) * covariates["days"]
        gain = covariates["delayed_reward"] / discount - covariates["immediate_reward"]
        return np.asarray(self.lapse + (1.0 - 2.0 * self.lapse) * ndtr(gain / column(latents["alpha"])))

    def random_design(self, rng: np.random.Generator) -> Design:
        """BoxingGym's random designs: rewards from 1 to 199 and up to 299, 1 to 364 days."""
        now = int(rng.integers(1, 200))
        return {
            "immediate_reward": now,
            "delayed_reward": int(rng.integers(now + 1, 300)),
            "days": int(rng.integers(1, 365)),
        }

    def grid(self, n: int) -> list[Design]:
        """Even steps of the immediate reward, of the gain over it and of the days."""
        if n < 1:
            raise ValueError(f"a grid needs at least one design, got {n}")
        side = math.ceil(round(n ** (1.0 / 3.0), 9))
        shares: list[Any] = ((np.arange(side) + 0.5) / side).tolist()
        points = [
            {
                "immediate_reward": (now := round(1 + 198 * a)),
                "delayed_reward": round(now + 1 + (298 - now) * b),
                "days": round(1 + 363 * c),
            }
            for a in shares
            for b in shares
            for c in shares
        ]
        return [points[index] for index in spread(len(points), n)]

    def evaluation_covariates(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `BinarySimulator.evaluation_covariates`."""
        now = np.floor(rng.uniform(1.0, 300.0, n))
        later = np.floor(rng.uniform(now + 1.0, 300.0))
        return {
            "immediate_reward": now.astype(np.int64),
            "delayed_reward": later.astype(np.int64),
            "days": rng.integers(1, 365, n),
        }

    def parameter_goals(self) -> list[Goal]:
        """The discount rate."""
        return [
            parameter_goal(
                "discount",
                "k",
                "What is the person's discount rate k, if a delayed reward R is worth R / (1 + k * days)?",
                "What is k, if the second input counts as x2 / (1 + k * x3)?",
                lambda latents: np.exp(latents["log_k"]),
            )
        ]
