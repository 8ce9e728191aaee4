"""Emotions that an observer expects of somebody who has spun a wheel of fortune."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    gather,
    normal_interval_log_probability,
)
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignError, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal

EMOTIONS = ("happiness", "sadness", "anger", "surprise", "fear", "disgust", "contentment", "disappointment")

PRIOR_MEANS = {
    "intercept": (4.5, 3.5, 1.7, 3.3, 1.4, 1.8, 3.7, 2.0),
    "win_slope": (0.04, -0.025, -0.005, 0.02, 0.0, -0.005, 0.03, -0.03),
    "surprise_slope": (0.035, -0.02, -0.025, 0.01, 0.0, -0.02, 0.02, -0.045),
    "size_slope": (-0.015, 0.025, 0.025, 0.035, 0.005, 0.02, -0.01, 0.02),
}
"""Means of the normal priors, by emotion."""

PRIOR_SDS = {"intercept": 0.1, "win_slope": 0.01, "surprise_slope": 0.01, "size_slope": 0.01}

LOW, HIGH = 1, 9
SUM_TOLERANCE = 0.02


class EmotionSimulator(Simulator):
    """Ratings from 1 to 9 of eight emotions after a win, after Ong, Zaki and Goodman (2015).

    A wheel has three prizes with probabilities, and stops at one. With `win` the prize won and `error = win -
    expected prize`, emotion `e` is `N(intercept_e + win_slope_e win + surprise_slope_e error + size_slope_e
    |error|, sigma_e)`, cut to a whole number and to 1 to 9. Latents: normal coefficients (`PRIOR_MEANS`,
    `PRIOR_SDS`) and `sigma_e ~ HalfNormal(1)`. An observation is eight rows, one an emotion, numbered from
    0 in the order of `EMOTIONS`. Evaluation points have prizes `U(0, 100)`, probabilities `Dirichlet(1, 1,
    1)` and a uniform winner. The error is absolute.

    Probabilities of a design may miss a sum of 1 by 0.02, as rounded ones do, and are then scaled. (In
    BoxingGym a language model tells the ratings in a sentence; here they are numbers.) `boxing_gym`: at
    evaluation points the ratings come from the *number* of the winner (0, 1 or 2) in the place of the prize
    won, though the question names the prize; a program that is right about the world cannot be right there.
    `corrected`: from the prize.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        noise_scale: Scale of the half-normal prior of the noise of each emotion.
    """

    name: ClassVar[str] = "emotion"
    description = (
        "Ratings from 1 to 9 of the emotions of a player who spun a wheel with three prizes and won one;"
        f" emotions by number: {', '.join(f'{number} {name}' for number, name in enumerate(EMOTIONS))}."
    )
    plain_description = "Eight responses from 1 to 9, numbered from 0, that depend on seven numbers."
    question: ClassVar[str] = "How do players feel after given spins?"
    columns = (
        *("emotion", "prize_1", "prize_2", "prize_3", "probability_1", "probability_2", "probability_3"),
        *("win", "rating"),
    )
    response_kind = "continuous"
    rounding = 1.0
    limits: ClassVar[Mapping[str, float]] = {"lower": 1.0, "upper": 9.0}
    rows_per_design: ClassVar[int] = len(EMOTIONS)
    index_column: ClassVar[str | None] = "emotion"

    def __init__(self, variant: Variant = "corrected", noise_scale: float = 1.0) -> None:
        super().__init__(variant)
        self.noise_scale = noise_scale
        self.units = {f"prize_{number}": "dollars" for number in (1, 2, 3)} | {"win": "dollars"}
        self.fields = (
            DesignField("prizes", "continuous", 0.0, 100.0, "dollars", length=(3, 3)),
            DesignField("probabilities", "continuous", 0.0, 1.0, "", "they sum to 1", length=(3, 3)),
            DesignField("winner", "integer", 0.0, 2.0, "", "which prize is won, from 0"),
        )

    def check(self, design: Design) -> Design:
        """Probabilities must sum to one; small misses are scaled away.

        Raises:
            DesignError: If they do not.
        """
        total = sum(design["probabilities"])
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise DesignError(f"probabilities must sum to 1, got {total:.4g}")
        if abs(total - 1.0) < 1e-9:
            return design
        return {**design, "probabilities": tuple(value / total for value in design["probabilities"])}

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`; each `[size, 8]`."""
        shape = (size, len(EMOTIONS))
        latents: dict[str, Array] = {
            name: rng.normal(np.array(means), PRIOR_SDS[name], shape) for name, means in PRIOR_MEANS.items()
        }
        return {**latents, "sigma": np.abs(rng.normal(0.0, self.noise_scale, shape))}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        prizes = np.array([design["prizes"]])
        return _rows(prizes, np.array([design["probabilities"]]), prizes[:, design["winner"]])

    def feeling(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Mean of the feeling before it is cut to a rating, `[size, rows]`."""
        win = np.asarray(covariates["win"])
        expected = sum(covariates[f"prize_{i}"] * covariates[f"probability_{i}"] for i in (1, 2, 3))
        error = win - expected
        emotion = covariates["emotion"]
        return np.asarray(
            gather(latents["intercept"], emotion)
            + gather(latents["win_slope"], emotion) * win
            + gather(latents["surprise_slope"], emotion) * error
            + gather(latents["size_slope"], emotion) * np.abs(error)
        )

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        mean = self.feeling(latents, covariates)
        feeling = mean + gather(latents["sigma"], covariates["emotion"]) * rng.standard_normal(mean.shape)
        return np.clip(np.trunc(feeling), LOW, HIGH)

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """Log probability of ratings: of all feelings that are cut to them."""
        mean, sigma = self.feeling(latents, covariates), gather(latents["sigma"], covariates["emotion"])
        rating = np.asarray(response, dtype=np.float64)
        low = np.where(rating <= LOW, -np.inf, rating)
        high = np.where(rating >= HIGH, np.inf, rating + 1.0)
        value = normal_interval_log_probability(low, high, mean, sigma)
        possible = (rating >= LOW) & (rating <= HIGH) & (rating == np.round(rating))
        return np.where(possible, value, -np.inf)

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        mean, sigma = self.feeling(latents, covariates), gather(latents["sigma"], covariates["emotion"])
        above = [ndtr((mean - rating) / sigma) for rating in range(LOW + 1, HIGH + 1)]
        return np.asarray(LOW + np.sum(above, axis=0))

    def random_design(self, rng: np.random.Generator) -> Design:
        """Prizes `U(0, 100)`, probabilities `Dirichlet(1, 1, 1)`, a uniform winner."""
        return {
            "prizes": tuple(rng.uniform(0.0, 100.0, 3).tolist()),
            "probabilities": tuple(rng.dirichlet(np.ones(3)).tolist()),
            "winner": int(rng.integers(3)),
        }

    def grid(self, n: int) -> list[Design]:
        """`n` random designs, always the same."""
        if n < 1:
            raise ValueError(f"a grid needs at least one design, got {n}")
        rng = np.random.default_rng(0)
        return [self.random_design(rng) for _ in range(n)]

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        prizes, probabilities = rng.uniform(0.0, 100.0, (n, 3)), rng.dirichlet(np.ones(3), n)
        winner = rng.integers(0, 3, n)
        rows = _rows(prizes, probabilities, prizes[np.arange(n), winner])
        felt = rows
        if self.variant == "boxing_gym":
            felt = _rows(prizes, probabilities, winner.astype(np.float64))
        return {**rows, "rating": self.simulate(self.latents_batch, felt, rng)[0]}

    def errors(self, prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        """Absolute error."""
        return np.asarray(np.abs(np.asarray(prediction, dtype=np.float64) - np.asarray(truth)))

    def parameter_goals(self) -> list[Goal]:
        """How the win and the surprise move each emotion."""
        return [
            _slope_goal("win_slope", "the win", "the eighth input"),
            _slope_goal(
                "surprise_slope",
                "the win above the expected prize",
                "the eighth input above the mean of the second to fourth, with weights the fifth to seventh",
            ),
        ]


def _slope_goal(name: str, what: str, plain: str) -> Goal:
    return parameter_goal(
        name,
        name,
        f"By how much does each of the eight emotions change per dollar of {what}?",
        f"By how much does each of the eight responses change per unit of {plain}?",
        lambda latents: np.asarray(latents[name]),
        (len(EMOTIONS),),
    )


def _rows(prizes: FloatArray, probabilities: FloatArray, win: FloatArray) -> dict[str, Array]:
    count = len(EMOTIONS)
    rows: dict[str, Array] = {"emotion": np.tile(np.arange(count), len(win))}
    rows |= {f"prize_{i + 1}": np.repeat(prizes[:, i], count) for i in range(3)}
    rows |= {f"probability_{i + 1}": np.repeat(probabilities[:, i], count) for i in range(3)}
    return {**rows, "win": np.repeat(win, count)}
