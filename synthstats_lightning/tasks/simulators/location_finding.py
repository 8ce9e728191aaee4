"""Finding hidden sources from the signal strength at places of one's choice."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from synthstats_lightning.tasks.simulators.arrays import (
    Array,
    FloatArray,
    Latents,
    Rows,
    normal_interval_log_probability,
    normal_log_density,
)
from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.design_space import grid
from synthstats_lightning.tasks.simulators.goal import Goal, squared_errors, weighted_mean

REACH = 2.0
"""Random designs and grids lie within this distance of zero in each coordinate."""


class LocationFindingSimulator(Simulator):
    """Signal of three hidden sources in the plane, after Foster et al. (2021, section 6.1).

    Latents: `sources[k] ~ N(0, I)`, shape `[3, 2]`. The intensity at `x` is
    `I(x) = 0.1 + sum_k 1 / (1e-4 + |x - sources[k]|^2)`. Random designs are uniform on the square from -2
    to 2, evaluation points are `N(0, I)`; the error is squared.

    `boxing_gym`: the response is `N(I(x), 0.5)`, rounded to 0.01; designs have no bounds; evaluation
    responses are `I(x)` without noise. Near a source the intensity reaches 10^4, so that the error has no
    finite variance. `corrected`: the response is `N(log I(x), 0.5)`, the noise model of Foster et al., for
    evaluation too, and coordinates are between -5 and 5.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        num_sources: Number of hidden sources.
        background: Intensity far from all sources.
        strength: Numerator of each source.
        max_signal: Added to each squared distance, so that a source itself has a finite intensity.
        noise: Standard deviation of the response.
    """

    name: ClassVar[str] = "location_finding"
    plain_description = "A number that depends on two numbers."
    question: ClassVar[str] = "How strong is the signal at given places?"
    response_kind = "continuous"

    def __init__(
        self,
        variant: Variant = "corrected",
        num_sources: int = 3,
        background: float = 0.1,
        strength: float = 1.0,
        max_signal: float = 1e-4,
        noise: float = 0.5,
    ) -> None:
        super().__init__(variant)
        self.num_sources = num_sources
        self.background, self.strength, self.max_signal = background, strength, max_signal
        self.noise = noise
        self.logarithmic = variant == "corrected"
        self.columns = ("x1", "x2", "log_intensity" if self.logarithmic else "intensity")
        self.rounding = None if self.logarithmic else 0.01
        self.units = {}
        what = "Log intensity" if self.logarithmic else "Intensity"
        self.description = (
            f"{what} of a signal in the plane, sent by {num_sources} hidden sources of equal strength."
        )
        low, high = (-5.0, 5.0) if self.logarithmic else (-math.inf, math.inf)
        self.fields = tuple(
            DesignField(name, "continuous", low, high, "", "coordinate of a place") for name in ("x1", "x2")
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        return {"sources": rng.standard_normal((size, self.num_sources, 2))}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"x1": np.array([design["x1"]]), "x2": np.array([design["x2"]])}

    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `Simulator.mean`."""
        sources = np.asarray(latents["sources"])
        total = np.asarray(self.background)
        for source in range(self.num_sources):
            across = sources[:, source, 0, None] - covariates["x1"]
            along = sources[:, source, 1, None] - covariates["x2"]
            total = total + self.strength / (self.max_signal + across**2 + along**2)
        return np.log(total) if self.logarithmic else total

    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """See `Simulator.simulate`."""
        mean = self.mean(latents, covariates)
        values = mean + self.noise * rng.standard_normal(mean.shape)
        return np.asarray(values if self.rounding is None else np.round(values, 2))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`; of the interval that rounds to the response, if it is rounded."""
        mean = self.mean(latents, covariates)
        if self.rounding is None:
            return normal_log_density(response, mean, self.noise)
        half = self.rounding / 2.0
        response = np.asarray(response)
        return normal_interval_log_probability(response - half, response + half, mean, self.noise)

    def random_design(self, rng: np.random.Generator) -> Design:
        """Uniform on the square from -2 to 2."""
        x1, x2 = rng.uniform(-REACH, REACH, 2).tolist()
        return {"x1": x1, "x2": x2}

    def grid(self, n: int) -> list[Design]:
        """A regular grid on the square from -2 to 2."""
        if n < 1:
            raise ValueError(f"a grid needs at least one design, got {n}")
        return grid(tuple(DesignField(field.name, field.kind, -REACH, REACH) for field in self.fields), n)

    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `Simulator.evaluation_rows`."""
        x1, x2 = rng.standard_normal((2, n))
        rows = {"x1": x1, "x2": x2}
        latents = self.latents_batch
        draw = self.simulate(latents, rows, rng) if self.logarithmic else self.mean(latents, rows)
        return {**rows, self.response: draw[0]}

    def parameter_goals(self) -> list[Goal]:
        """The sources, in any order."""
        shape = (self.num_sources, 2)
        return [
            Goal(
                "source",
                f"Where are the {self.num_sources} sources? A row of two coordinates for each, in any order.",
                f"Near which {self.num_sources} pairs of inputs is the response largest? In any order.",
                unordered_errors,
                "sources",
                shape,
                lambda latents: np.asarray(latents["sources"]),
                aligned_mean,
            )
        ]


def unordered_errors(prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
    """Mean squared coordinate error of points `[..., points, dimensions]`, the least over their orders."""
    points = np.asarray(prediction, dtype=np.float64)
    orders = itertools.permutations(range(points.shape[-2]))
    errors = [squared_errors(points[..., list(order), :], truth, 2) for order in orders]
    return np.asarray(np.min(errors, axis=0))


def aligned_mean(draws: Array, weights: FloatArray, rounds: int = 5) -> Array:
    """Mean of draws `[draws, points, dimensions]` of points without an order.

    Every draw is put in the order that is closest to the current mean, and the mean is taken again,
    starting from the draw of largest weight. A plain mean would merge all points into one.

    Args:
        draws: Sets of points.
        weights: Weight of each draw, summing to one.
        rounds: Repetitions; they end early when nothing changes.
    """
    draws = np.asarray(draws, dtype=np.float64)
    orders = np.array(list(itertools.permutations(range(draws.shape[1]))))
    ordered = draws[:, orders]
    centre: Array = draws[np.argmax(weights)]
    for _ in range(rounds):
        best = np.argmin(((ordered - centre) ** 2).sum((2, 3)), axis=1)
        chosen = weighted_mean(ordered[np.arange(len(draws)), best], weights)
        if np.array_equal(chosen, centre):
            break
        centre = chosen
    return centre
