"""Every distribution and composite with parameters from anywhere in their admitted ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.distribution import Distribution, Domain, Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS

SPANS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0, 300.0)
"""Decades around 1 from which a case draws its parameters: admitted ranges are as different."""
CORNERS = (5e-324, 1e-300, 1e-150, 1e-16, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e15, 1e19, 1e150, 1e300)
OFF = 9e-6
"""How far weights may be from summing to one."""
LENGTH = 3
"""Entries of vectors."""
PARTS = ("Normal", "StudentT", "Gamma", "Poisson")

Point = dict[str, float]
"""Where a case's parameters are: a number for each of their entries, on a scale that suits the domain."""


@dataclass(frozen=True)
class Family:
    """A distribution with what its parameters may be.

    Attributes:
        name: What tables call it.
        attributes: Of a random node that follows it.
        entry: Its entry of the table.
        fixed: Parameters that are not drawn, by name.
        shape: Shape of one draw.
    """

    name: str
    attributes: dict[str, Any]
    entry: Distribution
    fixed: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()

    @property
    def may_be_latent(self) -> bool:
        """Whether a continuous latent may follow it."""
        return not self.entry.discrete and self.entry.support is not Support.MIXED

    def _parameters(self) -> Iterator[tuple[str, Domain, int]]:
        yield from zip(self.entry.parameters, self.entry.domains, self.entry.ranks, strict=True)

    def coordinates(self) -> list[tuple[str, Domain]]:
        """Name and domain of each free number among its parameters."""
        found = []
        for name, domain, rank in zip(
            self.entry.parameters, self.entry.domains, self.entry.ranks, strict=True
        ):
            if name in self.fixed or name in self.entry.fixed:
                continue
            count = LENGTH if rank == 1 else 2 * LENGTH if rank == 2 else 1
            found += [(f"{name}#{number}", domain) for number in range(count)]
        return found

    def inputs(self, point: Point) -> list[Any]:
        """The distribution's parameters at a point."""
        inputs: list[Any] = []
        for name, domain, rank in zip(
            self.entry.parameters, self.entry.domains, self.entry.ranks, strict=True
        ):
            if name in self.entry.fixed or name in self.fixed:
                inputs.append(self.entry.fixed.get(name, self.fixed.get(name)))
                continue
            raw = [value for key, value in point.items() if key.split("#")[0] == name]
            if rank == 0:
                inputs.append(decode(domain, raw[0], name in self.entry.integer_parameters))
            elif rank == 2:
                inputs.append(matrix(self.name, name, raw))
            elif domain is Domain.SIMPLEX:
                inputs.append(simplex(raw))
            else:
                inputs.append([decode(domain, value, False) for value in raw])
        return inputs


def decode(domain: Domain, z: float, integer: bool) -> float | int:
    """A parameter from its number in decades: signed for real ones, of the odds for probabilities."""
    magnitude = 10.0 ** min(max(abs(z) if domain in _SIGNED else z, -323.0), 308.0)
    if domain in (Domain.REAL, Domain.INTEGER):
        value = float(np.sign(z) * (magnitude - 1.0 if magnitude < 2.0 else magnitude))
    elif domain in (Domain.UNIT, Domain.OPEN_UNIT):
        value = magnitude / (1.0 + magnitude) if magnitude < 1e17 else 1.0 - 2.0**-53
    elif domain is Domain.WITHIN_ONE:
        value = float(np.sign(z)) * (1.0 - 1.0 / magnitude)
    else:
        value = magnitude
    if integer or domain in (Domain.COUNT, Domain.INTEGER):
        whole = int(min(max(value, -(2.0**62)), 2.0**62))
        return whole if integer else float(whole)
    return value


_SIGNED = (Domain.REAL, Domain.INTEGER, Domain.WITHIN_ONE)


def simplex(raw: list[float]) -> list[float]:
    """Weights whose sum is off by as much as is let pass, on either side."""
    weight = np.array([10.0 ** min(max(z, -300.0), 300.0) for z in raw])
    weight = weight / weight.sum()
    return [float(w) for w in weight * (1.0 + OFF * np.sign(raw[0]))]


def matrix(law: str, name: str, raw: list[float]) -> list[list[float]]:
    """A covariance, a factor of one, or which entries are neighbours."""
    if name == "W":
        return [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    scale = np.diag([10.0 ** min(max(z / 2.0, -100.0), 100.0) for z in raw[:LENGTH]])
    below = np.tanh(np.array(raw[LENGTH:]))
    factor = np.array([[1.0, 0, 0], [below[0], 1.0, 0], [below[1], below[2], 1.0]])
    factor = scale @ (factor / np.sqrt((factor**2).sum(1, keepdims=True)))
    found = factor if name.endswith("chol") else factor @ factor.T
    return [[float(entry) for entry in row] for row in found]


def families() -> Iterator[Family]:
    """Every distribution of the table, and composites of them."""
    for name, entry in DISTRIBUTIONS.items():
        yield Family(name, {"law": name}, entry, *_special(name))
    for name, entry in DISTRIBUTIONS.items():
        if entry.has_cdf:
            for bounds in (["lower"], ["upper"], ["lower", "upper"]):
                yield _composite("Truncated", [name], bounds=bounds)
            yield _composite("Censored", [name], bounds=["lower", "upper"])
    for name in ("Gamma", "LogNormal", "Poisson", "NegativeBinomial"):
        yield _composite("Hurdle", [name])
    yield _composite("Mixture", ["Normal", "StudentT", "Gumbel"])
    yield _composite("Mixture", ["Gamma", "LogNormal", "HalfNormal"])
    yield _composite("Mixture", ["Poisson", "NegativeBinomial", "Geometric"])
    for name in PARTS:
        yield _composite("Mixture", [name])
    yield _composite("Ordered", ["Normal"], shape=(LENGTH,))
    yield _composite("RandomWalk", ["Normal", "Normal"], shape=(LENGTH + 1,))
    yield _composite("RandomWalk", ["Normal", "StudentT"], shape=(LENGTH + 1,))
    yield _composite("AR", ["Normal"], shape=(LENGTH + 1,))
    yield _composite("LKJCholeskyCov", ["HalfNormal"], shape=(6,))


def _composite(
    law: str, components: list[str], bounds: list[str] | None = None, shape: tuple[int, ...] = ()
) -> Family:
    more = {"components": components} | ({} if bounds is None else {"bounds": bounds})
    entry = distribution_of({"distribution": law, **more})
    return Family(entry.name, {"law": law, **more}, entry, {}, shape)


_SHAPES = {
    "LKJCorr": (3,),
    "LKJCorrCholesky": (3, 3),
    "ZeroSumMatrix": (LENGTH, LENGTH),
    "MatrixNormal": (LENGTH, LENGTH),
    "Wishart": (LENGTH, LENGTH),
    "GARCH11": (LENGTH + 1,),
}


def _special(name: str) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Parameters that cannot be drawn one by one, and the shape of a draw."""
    entry = DISTRIBUTIONS[name]
    fixed: dict[str, Any] = {}
    if name == "Interpolated":
        fixed = {"x_points": [-3.0, 0.0, 1e-3, 5.0], "pdf_points": [0.0, 1e-9, 1e5, 0.3]}
        fixed["cdf_points"] = [0.0, 0.2, 0.5, 1.0]
    shape = _SHAPES.get(name, (LENGTH,) * entry.event_rank)
    return fixed, shape


def random_point(family: Family, generator: np.random.Generator) -> Point:
    """Parameters log-uniform over some decades, each in its own span or all in one."""
    span = float(generator.choice(SPANS))
    own = generator.random() < 0.5
    return {
        name: float(generator.uniform(-1, 1)) * (float(generator.choice(SPANS)) if own else span)
        for name, _ in family.coordinates()
    }


def corner_points(family: Family, generator: np.random.Generator, count: int) -> Iterator[Point]:
    """Some of the corners of the admitted range."""
    names = [name for name, _ in family.coordinates()]
    ends = np.log10(CORNERS)
    for _ in range(count if names else min(count, 1)):
        yield {name: float(generator.choice([-1.0, 1.0]) * generator.choice(ends)) for name in names}
