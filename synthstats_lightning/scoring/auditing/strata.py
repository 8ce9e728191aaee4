"""Where to evaluate a function over data sets so that its integral is known: strata of simulated ones.

Simulated data sets split the box around them into cells of equal probability (a k-d tree), and within each
cell they shape the density from which points are drawn; a few cells more cover all space outside of the box.
The integral of a function close to the density of the simulated ones then has little variance, and one that
differs anywhere is still integrated without bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_TAIL_LEVELS = tuple(0.5**k for k in range(10, 1, -1))
LEVELS = (0.0, *_TAIL_LEVELS, 3 / 8, 1 / 2, 5 / 8, *(1 - level for level in reversed(_TAIL_LEVELS)), 1.0)
"""Shares of a cell's points between which the density of a coordinate is constant: fine where it is steep."""
STEP_DRAWS = 4
"""Fewest points beyond a level that is used: fewer would not tell where it lies."""
TAIL = 0.1
"""Share of a coordinate's draws beyond all simulated ones, on either side, outside of the box."""
TAIL_SCALE = 0.125
"""Median distance of these from the simulated ones, relative to the latters' range."""
LARGEST = 600.0
"""Stretched coordinates beyond it are infinite."""
SMALLEST = 1e-200
"""Below that share of their median, positive draws are not stretched further."""

Vector = Float[np.ndarray, " rows"]


class Axis(NamedTuple):
    """A density of one coordinate: constant on each of some steps, with tails beyond them.

    Attributes:
        knots: Ends of the steps, increasing.
        levels: Probability below each of them, from 0 to 1, of what lies on steps.
        below: Probability of less than all of them.
        above: Probability of more.
    """

    knots: Float[np.ndarray, " knots"]
    levels: Float[np.ndarray, " knots"]
    below: float = 0.0
    above: float = 0.0

    def draw(self, generator: np.random.Generator) -> tuple[float, float]:
        """A coordinate and its log-density."""
        side, u = generator.random(2)
        first, last = self.knots[0], self.knots[-1]
        scale = TAIL_SCALE * (last - first)
        if side < self.below + self.above:
            share, end, sign = (self.below, first, -1) if side < self.below else (self.above, last, 1)
            return end + sign * scale * u / (1.0 - u), np.log(share) + 2.0 * np.log1p(-u) - np.log(scale)
        step = int(np.searchsorted(self.levels, u, side="right")) - 1
        height = (self.levels[step + 1] - self.levels[step]) / (self.knots[step + 1] - self.knots[step])
        inside = np.log1p(-self.below - self.above) + np.log(height)
        return self.knots[step] + (u - self.levels[step]) / height, inside

    @classmethod
    def of(
        cls,
        draws: Float[np.ndarray, " draws"],
        lower: float,
        upper: float,
        below: float = 0.0,
        above: float = 0.0,
    ) -> Axis:
        """The density of some draws between two ends."""
        known = [level for level in LEVELS[1:-1] if min(level, 1.0 - level) * len(draws) >= STEP_DRAWS]
        levels = np.array([0.0, *known, 1.0])
        quantiles = np.quantile(draws, levels)
        quantiles[0], quantiles[-1] = lower, upper
        knots, first = np.unique(quantiles, return_index=True)
        levels = levels[first]
        levels[-1] = 1.0
        return cls(knots, levels, below, above)


class Cell(NamedTuple):
    """A part of space with a density on it, a product over coordinates."""

    axes: tuple[Axis, ...]

    def draw(self, generator: np.random.Generator) -> tuple[Vector, float]:
        """A point of the cell and the log-density with which it was drawn."""
        point, log_densities = np.array([axis.draw(generator) for axis in self.axes]).T
        return point, float(log_densities.sum())


@dataclass(frozen=True, slots=True)
class Scale:
    """A stretched coordinate `asinh((x - centre) / width)` in which long tails are short.

    Attributes:
        centre: Where nothing is stretched.
        width: Up to where from there.
    """

    centre: float
    width: float

    @classmethod
    def of(cls, draws: Float[np.ndarray, " draws"]) -> Scale:
        """A scale for some draws: that of their logarithms if all are positive."""
        if (draws > 0).all():
            return cls(0.0, float(max(draws.min(), SMALLEST * np.median(draws))))
        low, middle, high = np.quantile(draws, (0.25, 0.5, 0.75))
        return cls(float(middle), float(high - low) / 2 or 1.0)

    def forward(self, x: Float[np.ndarray, " draws"]) -> Float[np.ndarray, " draws"]:
        """Stretched coordinates."""
        return np.arcsinh((x - self.centre) / self.width)

    def backward(self, t: float) -> tuple[float, float]:
        """A value and the log of its derivative; infinite where float64 ends."""
        if abs(t) > LARGEST:
            return np.copysign(np.inf, t), np.inf
        return float(self.centre + self.width * np.sinh(t)), float(np.log(self.width) + np.log(np.cosh(t)))


class Coordinates:
    """Coordinates in which data sets are neither long-tailed nor correlated: stretched, then sheared.

    Args:
        points: Simulated data sets.
    """

    def __init__(self, points: Float[np.ndarray, "draws rows"]) -> None:
        self.scales = [Scale.of(column) for column in points.T]
        columns = zip(self.scales, points.T, strict=True)
        stretched = np.stack([scale.forward(column) for scale, column in columns], 1)
        covariance = np.atleast_2d(np.cov(stretched.T))
        # unit lower triangular: each row's regression on those before it
        factor = np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))
        self.shear = factor / np.diag(factor)
        self.points: Float[np.ndarray, "draws rows"] = np.linalg.solve(self.shear, stretched.T).T

    def backward(self, t: Vector) -> tuple[Vector, float]:
        """A data set and the log of the volume that it stands for; both infinite where float64 ends."""
        found = [scale.backward(x) for scale, x in zip(self.scales, self.shear @ t, strict=True)]
        point, log_derivatives = np.array(found).T
        return point, float(log_derivatives.sum())


def stratify(points: Float[np.ndarray, "draws rows"], count: int) -> list[Cell]:
    """Cells that cover all of space once, about equally many simulated points in each but the outer ones.

    Args:
        points: Simulated data sets, distinct in every coordinate; at least 4 for each cell.
        count: Cells to aim for.

    Returns:
        A power of 2 of cells in the box around the points, then two for each coordinate outside of it.

    Raises:
        ValueError: If there are too few points.
    """
    rows = points.shape[1]
    halvings = max(rows, int(np.log2(max(count, 1))))
    if len(points) < 4 * 2**halvings:
        raise ValueError(
            f"points must be at least {4 * 2**halvings} for {2**halvings} cells, got {len(points)}"
        )
    boxes = [_Box(points, points.min(0), points.max(0))]
    for halving in range(halvings):
        boxes = [half for box in boxes for half in box.halves(halving % rows)]
    return [box.cell() for box in boxes] + _outside(points)


class _Box(NamedTuple):
    points: Float[np.ndarray, "draws rows"]
    lower: Vector
    upper: Vector

    def halves(self, axis: int) -> list[_Box]:
        """The box cut at the median of a coordinate."""
        middle = np.median(self.points[:, axis])
        low = self.points[:, axis] <= middle
        below, above = self.upper.copy(), self.lower.copy()
        below[axis] = above[axis] = middle
        return [_Box(self.points[low], self.lower, below), _Box(self.points[~low], above, self.upper)]

    def cell(self) -> Cell:
        """The box with the density of its points."""
        columns = zip(self.points.T, self.lower, self.upper, strict=True)
        return Cell(tuple(Axis.of(column, low, high) for column, low, high in columns))


def _outside(points: Float[np.ndarray, "draws rows"]) -> list[Cell]:
    """Below and above the box in one coordinate, within it in those before, anywhere in those after."""
    within = [Axis.of(column, column.min(), column.max()) for column in points.T]
    cells = []
    for number, axis in enumerate(within):
        before = within[:number]
        after = [other._replace(below=TAIL, above=TAIL) for other in within[number + 1 :]]
        for below, above in ((1.0, 0.0), (0.0, 1.0)):
            cells.append(Cell((*before, axis._replace(below=below, above=above), *after)))
    return cells
