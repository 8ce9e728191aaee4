"""A model without a latent that common nodes suit: a target over the other parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.equal_answers import find_equal_answers
from synthstats_lightning.scoring.marginals.curved import Curve, climbed, curve_at
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.groups.base import GroupTarget, in_parts, packed
from synthstats_lightning.scoring.marginals.groups.common import (
    CHUNK,
    DRAWN,
    REACHES,
    STEPS,
    CommonQuadrature,
    is_common,
)
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping, find_groupings, row_groups
from synthstats_lightning.scoring.marginals.groups.integrand import Outer, without_latent
from synthstats_lightning.scoring.marginals.groups.repeated import DifferentGroups
from synthstats_lightning.scoring.marginals.groups.target import TOLERANCE
from synthstats_lightning.scoring.score import Integration

FEW_LEFT = 8
"""Dimensions that may be left where a normal approximation of more of them could be taken instead."""
MOST_LEFT = 64
"""Dimensions that may be left where there is nothing else."""
DEAR = 12
"""Integrands at common nodes, for each row of a model, from which on elements are better given their own."""
SCOUTED = 32
"""Prior draws of the other parameters, at the best of which nodes are counted."""
FEWEST_CURVED = 9
"""Dimensions from which on these are straightened: proposals fit bent posteriors of fewer well enough."""
SCOUTS = 128
"""Prior draws of the other parameters, of which the best is where the search for their mode begins."""
THINNED = 2
"""Every so many of the draws of a check are looked at."""


def integrate_in_common(density: Density) -> CommonIntegrated | None:
    """A model without its largest latent of elements that are alike, where few dimensions are left.

    Where elements hold so much data that common nodes are many, `None`: nodes of their own are fewer.

    Args:
        density: The model with its data.
    """
    found = _integrated(density, FEW_LEFT)
    return None if found is not None and found.numbers_each > DEAR * density.num_observations else found


def integrate_in_common_of_many(density: Density) -> CommonIntegrated | None:
    """As `integrate_in_common`, with more dimensions left.

    Args:
        density: The model with its data.
    """
    return _integrated(density, MOST_LEFT)


def _integrated(density: Density, most_left: int) -> CommonIntegrated | None:
    for grouping in find_groupings(density.compiled):
        if density.dimension - grouping.size > most_left or not is_common(grouping):
            continue
        try:
            if (found := in_common(density, grouping)) is not None:
                return found
        except ProgramFailure as failure:
            # what is constant without the latent need not have a value at the one that stands in for it
            if failure.category is not FailureCategory.RAISED:
                raise
    return None


def in_common(density: Density, grouping: Grouping) -> CommonIntegrated | None:
    """A model without one latent; `None` where its rows' answers are too many.

    Args:
        density: The model with its data.
        grouping: The latent, with what depends on it.
    """
    compiled, node = density.compiled, grouping.parameter.node
    term = compiled.response_term
    # what a continuous response was rounded to is no part of a compiled model
    if term.value is None or term.view is not None or not term.distribution.discrete:
        return None
    response, element = term.value.numpy().reshape(-1), grouping.element.numpy()
    found = find_equal_answers(
        compiled.graph, compiled.shapes, compiled.constants, response, node, grouping.dependent, element
    )
    if found is None:
        return None
    few = build_density(found.graph, found.covariates, found.response)
    (parameter,) = [p for p in few.parameters if p.node == node]
    # all read nodes that are the same for every element
    own = Grouping(parameter, torch.zeros_like(found.first_row), grouping.dependent)
    rule = CommonQuadrature(
        DifferentGroups(found, few.compiled, own), row_groups(grouping.element, grouping.size)
    )
    others = density.of_graph(without_latent(compiled.graph, grouping.parameter, 0.5))
    fewer = few.of_graph(without_latent(few.compiled.graph, parameter, 0.5))
    if others.dimension != fewer.dimension:
        return None
    target = CommonIntegrated(density, others, rule, grouping=grouping, fewer=fewer)
    return target.straightened() if target.dimension >= FEWEST_CURVED else target


class Left(NamedTuple):
    """The parameters that are left at some coordinates.

    Attributes:
        theta: Their unconstrained values `[particles, dim]`.
        log_jacobian: Log of the volume that they take over that of the coordinates `[particles]`.
    """

    theta: Float[Tensor, "particles dim"]
    log_jacobian: Float[Tensor, " particles"]


class CommonIntegrated(GroupTarget[CommonQuadrature]):
    """A model with one latent integrated out at nodes that its elements share, given the other parameters.

    Args:
        density: The whole model.
        outer: The same model with the latent held constant: its prior is that of the other parameters.
        quadrature: How the latent is integrated out.
        check: What `checked_at` found; NaN before.
        grouping: The latent in the whole model.
        fewer: The other parameters' model of the answers that differ.
        curve: From coordinates to the parameters that are left; `None` where these are the coordinates.
    """

    def __init__(
        self,
        density: Density,
        outer: Density,
        quadrature: CommonQuadrature,
        check: float = math.nan,
        *,
        grouping: Grouping,
        fewer: Density,
        curve: Curve | None = None,
    ) -> None:
        super().__init__(density, outer, quadrature, check)
        self.grouping = grouping
        self.fewer = fewer
        self.curve = curve

    @property
    def integration(self) -> Integration:
        """What was integrated out, and how well."""
        return Integration("quadrature", self.grouping.size, self.check)

    @property
    def densities_each(self) -> int:
        """Densities of a row for each draw: far fewer than one."""
        return 0

    @property
    def numbers_each(self) -> int:
        """Integrands times nodes for each draw, where the others are about as the data have them."""
        everything = torch.ones(self.num_observations, dtype=torch.bool)
        with torch.no_grad():
            outer = self.outer(self.sample_prior(SCOUTED, torch.Generator().manual_seed(0)))
            return self.quadrature.numbers_at_best(outer, everything)

    def outer(self, theta: Float[Tensor, "particles dim"]) -> Outer:
        """What the latent's prior and the answers read of the parameters that are left.

        Args:
            theta: Coordinates of these.
        """
        return self.quadrature.integrand.outer(self.fewer.node_values(self._left(theta).theta), len(theta))

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density of the coordinates, in nats.

        Args:
            theta: Coordinates of the parameters that are left.
        """
        left = self._left(theta)
        return self.others.log_prior(left.theta) + left.log_jacobian

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "n dim"]:
        """Independent draws from the prior.

        Args:
            n: Number of draws.
            generator: Source of all randomness.
        """
        found = self.others.sample_prior(n, generator)
        return found if self.curve is None else self.curve.coordinates(found)

    @property
    def alike(self) -> Int[Tensor, " rows"]:
        """A number for each row, the same for those that are alike in all that is given."""
        return self.quadrature.patterns(torch.ones(self.num_observations, dtype=torch.bool)).pair

    @property
    def straight(self) -> bool:
        """Whether coordinates are such that the posterior is nearly normal in them."""
        return self.curve is not None

    @property
    def funnels(self) -> Sequence[object]:
        """What is worth standardising among the parameters that are left."""
        return self.others.funnels if self.curve is None else ()

    def straightened(self) -> CommonIntegrated:
        """The same in coordinates that follow the bends of the posterior, where a mode of it is found."""
        apart = self.standardised()
        with torch.inference_mode(False):
            draws = apart.sample_prior(SCOUTS, torch.Generator().manual_seed(0))

            def log_density(theta: Tensor) -> Tensor:
                return apart.log_prior(theta) + apart.marginal_likelihood(theta)

            with torch.no_grad():
                value = log_density(draws).nan_to_num(nan=-torch.inf)
            peak = climbed(log_density, draws[value.argmax()])
            curve = None if peak is None else curve_at(log_density, peak.theta, peak.precision)
        return self if curve is None else apart._with(apart.check, curve=curve)

    def _left(self, theta: Tensor) -> Left:
        """The parameters that are left at some coordinates."""
        if self.curve is None:
            return Left(theta, theta.new_zeros(len(theta)))
        return Left(*self.curve.parameters(theta))

    def standardised(
        self, theta: Float[Tensor, " dim"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> CommonIntegrated:
        """The same model with the parameters that are left non-centred.

        Args:
            theta: A point; the likelihood's curvature there is not used.
            given: Which rows count; not used.
        """
        if not self.others.funnels or theta is not None:
            return self
        return self._with(self.check, others=self.others.standardised(), fewer=self.fewer.standardised())

    def complete(
        self,
        theta: Float[Tensor, "particles outer"],
        generator: torch.Generator,
        given: Bool[Tensor, " rows"],
    ) -> Float[Tensor, "particles dim"]:
        """Parameters of the whole model, the latent drawn given the others and the given rows.

        Args:
            theta: Unconstrained values of the parameters that are left.
            generator: Source of the latent's draws.
            given: Which rows are given.
        """
        parameter = self.grouping.parameter
        finer = REACHES[-1] / REACHES[0] * STEPS[0] / DRAWN
        found = self.others.transferred(self._left(theta).theta, self.density)
        found[:, parameter.start : parameter.stop] = self._each(
            theta, lambda outer: self.quadrature.draws(outer, given, generator), finer
        )
        return found

    def checked_at(self, theta: Float[Tensor, "particles dim"]) -> CommonIntegrated | None:
        """The same with what a check found, or `None` if it failed.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """
        with torch.no_grad():
            usual, refined = (self._checks(theta[::THINNED], fine) for fine in (False, True))
        known = usual.isfinite()
        check = float((usual - refined)[known].abs().max()) if bool(known.any()) else math.inf
        return self._with(check) if check < TOLERANCE else None

    def _with(
        self,
        check: float,
        others: Density | None = None,
        fewer: Density | None = None,
        curve: Curve | None = None,
    ) -> CommonIntegrated:
        return CommonIntegrated(
            self.density,
            others or self.others,
            self.quadrature,
            check,
            grouping=self.grouping,
            fewer=fewer or self.fewer,
            curve=curve or self.curve,
        )

    def _checks(self, theta: Tensor, refined: bool) -> Tensor:
        """Log densities of all rows together, and sums of those of each given all others `[2, particles]`."""
        everything = torch.ones(self.num_observations, dtype=torch.bool)
        finer = 2.0 * REACHES[1] / REACHES[0] if refined else 1.0
        found = self._each(theta, lambda outer: packed(self._marginals(outer, everything, refined)), finer)
        return torch.stack([found[:, 0], (found[:, :1] - found[:, 1:]).sum(1)])

    def _each(self, theta: Tensor, function: Callable[[Outer], Tensor], finer: float = 1.0) -> Tensor:
        """A function of particles, of as many at once as memory allows."""
        nodes = finer * 2 * REACHES[0] / STEPS[0]
        size = int(CHUNK / (nodes * self.quadrature.numbers))
        return in_parts(self.outer(theta), function, size)
