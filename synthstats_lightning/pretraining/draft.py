"""A program while the grammar writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from synthstats_lightning.pretraining.datasets import MadeUpData
from synthstats_lightning.pretraining.numbers import coarse, location, text
from synthstats_lightning.pretraining.priors import positive_prior, real_prior, unit_prior
from synthstats_lightning.tasks.columns import Column

STYLES = (
    (("a", "b", "c", "d", "e", "f", "g", "h"), "s", "mu"),
    (("alpha", "beta", "gamma", "delta", "eta", "kappa", "theta", "phi"), "sigma", "mu"),
    (("b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"), "sigma", "mu"),
    (("p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"), "scale_", "mean_"),
)
"""Parameter names in order of use, the noise scale's and the mean's; the last style is for clashes."""


@dataclass(frozen=True)
class Range:
    """Where a quantity is expected to lie.

    Attributes:
        low: Lower end of the range.
        high: Upper end, above `low`.
    """

    low: float
    high: float

    @property
    def span(self) -> float:
        """Length of the range."""
        return self.high - self.low

    @property
    def size(self) -> float:
        """Largest absolute value."""
        return max(abs(self.low), abs(self.high))


@dataclass
class Draft:
    """Statements written so far and the names still free.

    Attributes:
        rng: Source of randomness.
        data: The made-up data set.
        target: Where the mean (or the linear predictor) is expected to lie.
        statements: Source lines without indentation.
    """

    rng: Random
    data: MadeUpData
    target: Range
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = {column.name for column in (*self.data.covariates, self.data.response)}
        free = [style for style in STYLES[:3] if columns.isdisjoint((*style[0], *style[1:]))]
        weights = {"a": 45, "alpha": 35, "b0": 20}
        chosen = self.rng.choices(free, [weights[style[0][0]] for style in free])[0] if free else STYLES[3]
        names, self.noise_name, self.mean_name = chosen
        self._names = iter(names)

    def _state(self, name: str, prior: str) -> str:
        self.statements.append(f"{name} = {prior}")
        return name

    def real(self, centre: float, scale: float) -> str:
        """States a parameter of either sign and returns its name."""
        name = next(self._names)
        return self._state(name, real_prior(self.rng, name, centre, scale))

    def positive(self, scale: float, spread: float = 0.6) -> str:
        """States a positive parameter and returns its name."""
        name = next(self._names)
        return self._state(name, positive_prior(self.rng, name, scale, spread))

    def unit(self) -> str:
        """States a parameter between zero and one and returns its name."""
        name = next(self._names)
        return self._state(name, unit_prior(self.rng, name))

    def noise(self, scale: float, spread: float = 0.6) -> str:
        """States the noise scale and returns its name."""
        return self._state(self.noise_name, positive_prior(self.rng, self.noise_name, scale, spread))

    def level(self) -> str:
        """States a parameter that is a value of the mean."""
        if self.rng.random() < 0.2:
            return self.real(0.0, self.target.size)
        return self.real(location(self.rng, self.target.low, self.target.high), 0.7 * self.target.span)

    def change(self, per: float = 1.0) -> str:
        """States a slope of either sign: the mean's span over `per` units."""
        return self.real(0.0, self.target.span / per)

    def rise(self) -> str:
        """States a positive amplitude, about the mean's span."""
        return self.positive(self.target.span)

    def mean(self, expression: str) -> str:
        """States the mean under its own name and returns that."""
        self.statements.append(f"{self.mean_name} = {expression}")
        return self.mean_name


@dataclass(frozen=True)
class Axis:
    """A covariate as a mean function uses it.

    Attributes:
        expression: Source of the covariate, perhaps shifted and scaled; safe inside a product.
        low: Its smallest value.
        high: Its largest value.
    """

    expression: str
    low: float
    high: float

    @property
    def span(self) -> float:
        """Length of the covariate's range."""
        return self.high - self.low

    @property
    def positive(self) -> bool:
        """Whether logarithms and negative powers exist."""
        return self.low > 0

    @property
    def remote(self) -> bool:
        """Whether zero lies far outside the range, so that an intercept there means little."""
        return min(abs(self.low), abs(self.high)) > 1.5 * self.span and self.low * self.high > 0


def raw_axis(column: Column) -> Axis:
    """The covariate as it is."""
    return Axis(column.name, float(column.low), float(column.high))


def centred_axis(rng: Random, column: Column, scaled: bool) -> Axis:
    """The covariate minus a coarse centre, perhaps over a coarse scale."""
    centre = location(rng, column.low + 0.25 * (column.high - column.low), column.high)
    low, high = column.low - centre, column.high - centre
    shift = (
        column.name if centre == 0 else f"({column.name} {'-' if centre > 0 else '+'} {text(abs(centre))})"
    )
    if not scaled:
        return Axis(shift, low, high)
    scale = coarse_span(column)
    return Axis(f"({shift}/{text(scale)})", low / scale, high / scale)


def coarse_span(column: Column) -> float:
    """A coarse third of a column's range."""
    return coarse((column.high - column.low) / 3.0)
