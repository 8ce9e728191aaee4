"""The likelihood as a function of a block's predictor, other parameters given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps
from synthstats_lightning.scoring.marginals.groups.grouping import (
    Given,
    RowGroups,
    counted,
    row_groups,
    summed,
)
from synthstats_lightning.scoring.marginals.groups.integrand import STILL
from synthstats_lightning.scoring.marginals.laplace.predictor import Predictor
from synthstats_lightning.scoring.numerics.picks import pick_last


class Outer(NamedTuple):
    """What the likelihood reads of the other parameters.

    Attributes:
        particles: Number of particles.
        values: Slot to its value in the padded layout, a particle an entry of the first axis.
    """

    particles: int
    values: dict[int, Tensor]

    def select(self, index: Int[Tensor, " chosen"] | Bool[Tensor, " particles"]) -> Outer:
        """Some of the particles."""
        values = {slot: value[index] for slot, value in self.values.items()}
        return Outer(int(index.sum()) if index.dtype is torch.bool else len(index), values)


class Sites(NamedTuple):
    """The log-likelihood of what reads each element of the predictor, and its derivatives there.

    Attributes:
        value: The log-likelihood itself `[particles, elements]`.
        slope: First derivative `[particles, elements]`.
        curvature: Minus the second, no less than 0 `[particles, elements]`.
    """

    value: Float[Tensor, "particles elements"]
    slope: Float[Tensor, "particles elements"]
    curvature: Float[Tensor, "particles elements"]


class Likelihood:
    """Log-likelihood of rows at values of the predictor.

    Args:
        compiled: The whole model.
        predictor: The node and what reads it.
        copied: Whether rows may count several times.

    Attributes:
        slots: What must be evaluated before.
        groups: Rows by the element that they read.
        elements: Elements of the predictor.
        kinked: Whether rows' densities are, so that their bend is taken to be what it is on average.
        shared: Whether what reads an element may be several rows, or one several times.
    """

    def __init__(self, compiled: Compiled, predictor: Predictor, copied: bool = False) -> None:
        self._compiled = compiled
        self._node = predictor.node
        self._shape = compiled.shapes[predictor.node]
        moved, steps = {predictor.node}, []
        for step in needed_steps(compiled.steps, compiled.response_term.slots):
            if step.slot != predictor.node and not moved.isdisjoint(step.inputs):
                moved.add(step.slot)
                steps.append(step)
        self._steps = needed_steps(steps, compiled.response_term.slots)
        self._splits = compiled.response_term.splits(moved)
        self.kinked: bool = compiled.response_term.distribution.name in KINKED
        read = {i for step in self._steps for i in step.inputs} | set(compiled.response_term.slots)
        constants = compiled.constants
        self.slots: tuple[int, ...] = tuple(
            sorted(i for i in read - moved if i >= len(constants) or constants[i] is None)
        )
        self.elements: int = int(torch.tensor(self._shape).prod()) if self._shape else 1
        self.groups: RowGroups = row_groups(predictor.element, self.elements)
        self.shared: bool = copied or self.groups.shared

    def outer(self, values: Sequence[Tensor | None], particles: int) -> Outer:
        """What is read of an evaluation of the other parameters.

        Args:
            values: Values of an evaluation, with `slots` filled.
            particles: Number of particles.
        """
        found = {slot: cast(Tensor, values[slot]) for slot in self.slots}
        if self._splits:
            found[STILL] = self._by_row(self._compiled.response_term.still(values), particles)
        return Outer(
            particles, {slot: value.expand(particles, *value.shape[1:]) for slot, value in found.items()}
        )

    def rows(
        self, outer: Outer, predictor: Float[Tensor, "particles points elements"]
    ) -> Float[Tensor, "particles points rows"]:
        """Log-likelihood of each row at some points.

        Args:
            outer: What is read of the other parameters.
            predictor: Values of the node's elements.
        """
        compiled, (particles, points, _) = self._compiled, predictor.shape
        values: list[Tensor | None] = [None] * compiled.num_slots
        for slot, value in outer.values.items():
            if slot == STILL:
                continue
            repeated = value[:, None].expand(-1, points, *value.shape[1:])
            values[slot] = repeated.flatten(0, 1) if points > 1 else value
        flat = predictor.reshape(particles * points, *pad(self._shape, compiled.rank))
        values[self._node] = flat
        for slot, function, inputs in self._steps:
            values[slot] = function(*[values[i] for i in inputs])
        found = compiled.response_term.log_prob(values, moving=self._splits)
        found = self._by_row(found, particles * points).reshape(particles, points, -1)
        if self._splits:
            found = found + outer.values[STILL][:, None]
        return found.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)

    def _by_row(self, values: Tensor, particles: int) -> Tensor:
        shape = (particles, self._compiled.num_observations)
        if values.shape == shape:
            return values
        return values.expand(particles, *pad(shape[1:], self._compiled.rank)).reshape(shape)

    def summed(self, rows: Float[Tensor, "... rows"], given: Given) -> Float[Tensor, "... elements"]:
        """Log-likelihood of what reads each element.

        Args:
            rows: That of each row.
            given: Which rows count, or how many times each does.
        """
        return summed(counted(rows, given), self.groups)

    def alone(self, rows: Float[Tensor, "... rows"], given: Given) -> Float[Tensor, ...]:
        """Log-likelihood of the rows that read no element.

        Args:
            rows: That of each row.
            given: Which rows count, or how many times each does.
        """
        return torch.where(self.groups.alone, counted(rows, given), 0.0).sum(-1)

    def sites(self, outer: Outer, predictor: Float[Tensor, "particles elements"], given: Given) -> Sites:
        """Value and derivatives at one point of each particle.

        Args:
            outer: What is read of the other parameters.
            predictor: Values of the node's elements.
            given: Which rows count, or how many times each does.
        """
        leaf = predictor.detach().requires_grad_(True)
        with torch.enable_grad():
            found = self.followed(outer, leaf, given, further=False)
        return Sites(*(part.detach() for part in found))

    def followed(
        self,
        outer: Outer,
        predictor: Float[Tensor, "particles elements"],
        given: Given,
        further: bool = True,
    ) -> Sites:
        """As `sites`, which autograd can follow through the predictor and the other parameters.

        Args:
            outer: What is read of the other parameters.
            predictor: Values of the node's elements.
            given: Which rows count, or how many times each does.
            further: Whether the curvature is to be followed, too.
        """
        if not predictor.requires_grad:
            predictor = predictor.detach().requires_grad_(True)
        value = self.summed(self.rows(outer, predictor[:, None]), given)[:, 0]
        (slope,) = torch.autograd.grad(_finite(value).sum(), predictor, create_graph=True)
        second = torch.zeros_like(predictor)
        if self.kinked:
            second = -self._information(outer, predictor, given)
            second = second if further else second.detach()
        elif slope.requires_grad:
            (found,) = torch.autograd.grad(
                _finite(slope).sum(), predictor, create_graph=further, allow_unused=True
            )
            second = second if found is None else found
        curvature = (-second).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(LEAST_CURVATURE, 1e12)
        return Sites(value, _finite(slope), curvature)

    def _information(self, outer: Outer, predictor: Tensor, given: Given) -> Tensor:
        """Squares of rows' slopes: what minus the second derivative is on average over responses.

        Each row reads one element, so that moving all of them moves it by its own.
        """
        step = SHORT * (1.0 + predictor.detach().abs())
        here = predictor.detach()
        either = self.rows(outer, torch.stack([here - step, here + step], 1))
        apart = 2.0 * pick_last(step, self.groups.element)
        return self.summed((_finite(either[:, 1] - either[:, 0]) / apart).square(), given)

    def averaged(
        self,
        outer: Outer,
        predictor: Float[Tensor, "particles elements"],
        variance: Float[Tensor, "particles elements"],
        sites: Sites,
        given: Given,
    ) -> Sites:
        """Derivatives on average over normal predictors, by integration by parts from values at a few nodes.

        Args:
            outer: What is read of the other parameters.
            predictor: Means of the predictor.
            variance: How far predictors spread around these.
            sites: Value and derivatives at the means, which stay where averages are not known.
            given: Which rows count, or how many times each does.
        """
        scale = variance.clamp_min(torch.finfo(torch.float64).tiny).sqrt()
        at = predictor[:, None] + scale[:, None] * NODES[:, None]
        away = self.summed(self.rows(outer, at), given) - sites.value[:, None]
        slope = torch.einsum("n,pne->pe", WEIGHTS * NODES, away) / scale
        curvature = torch.einsum("n,pne->pe", WEIGHTS * (1.0 - NODES.square()), away) / scale.square()
        known = slope.isfinite() & curvature.isfinite()
        # as far as the curvature may grow, and the slope in proportion
        share = ((MOST_BENT - 1.0) * sites.curvature / (curvature - sites.curvature)).nan_to_num(nan=1.0)
        share = torch.where(curvature > MOST_BENT * sites.curvature, share, 1.0)
        slope, curvature = (
            here + share * (mean - here)
            for here, mean in ((sites.slope, slope), (sites.curvature, curvature))
        )
        return Sites(
            sites.value,
            torch.where(known, slope, sites.slope),
            torch.where(known, curvature.clamp(LEAST_CURVATURE, 1e12), sites.curvature),
        )


def _gauss_hermite(order: int) -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


NODES, WEIGHTS = _gauss_hermite(5)
"""Of averages over a standard normal number."""
MOST_BENT = 1.5
"""Curvature on average over that at the mode beyond which one step goes too far: of a count of 0 under a wide
prior it would make the proposal half as wide as the posterior."""
KINKED = frozenset({"Laplace", "AsymmetricLaplace"})
"""Distributions whose log-density is straight on both sides of a kink: second derivatives say nothing."""
SHORT = 1e-6
"""Step of a difference, relative."""
LEAST_CURVATURE = 1e-10
"""Where the log-likelihood is less concave than this, or convex, a proposal takes it for this."""


def _finite(values: Tensor) -> Tensor:
    return torch.where(values.isfinite(), values, 0.0)
