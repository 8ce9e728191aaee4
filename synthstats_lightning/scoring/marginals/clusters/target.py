"""A model without the latents of its groups: a target over the other parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.marginals.clusters.clustering import num_latents
from synthstats_lightning.scoring.marginals.clusters.quadrature import ClusterQuadrature
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.base import GroupTarget, in_parts, packed
from synthstats_lightning.scoring.marginals.groups.grouping import summed
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.quadrature import CHUNK
from synthstats_lightning.scoring.numerics.picks import pick_last
from synthstats_lightning.scoring.score import Integration

TOLERANCE = 0.02
"""Largest accepted difference between the rule and a finer one, in nats."""
TOGETHER = 32
"""Points of one search at which a group's integrand is evaluated at once, about."""
THINNED = 3
"""Every so many of the draws of a check are looked at: each takes long."""
LEAVE_ONE_OUT_TOLERANCE = 0.1
"""The same of the sum over rows of the log density of each given all others."""
MISPLACED = 0.5
"""Rows that differ by more than this of an equal share of that get nodes of their own."""


class ClusterIntegrated(GroupTarget[ClusterQuadrature]):
    """A model with several latents a group integrated out by quadrature, given the other parameters.

    Args:
        density: The whole model.
        outer: The same model with the latents held constant: its prior is that of the other parameters.
        quadrature: How the latents are integrated out.
        check: What `checked_at` found; NaN before.
    """

    dear = True
    """Each density is a search of its own: estimators take fewer draws."""
    most_particles = 300
    """Particles that leave-one-out is affordable for."""

    def __init__(
        self, density: Density, outer: Density, quadrature: ClusterQuadrature, check: float = math.nan
    ) -> None:
        super().__init__(density, outer, quadrature, check)
        self._last: _Last | None = None

    def marginals(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log-likelihood of some rows (all if `None`) together, and of these with one row less or more.

        Args:
            theta: Unconstrained values of the parameters that are left.
            given: Which rows count.
        """
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        last = self._last
        if last is not None and torch.equal(last.given, given) and torch.equal(last.theta, theta):
            return last.found
        found = super().marginals(theta, given)
        self._last = _Last(theta.clone(), given.clone(), found)
        return found

    def added_densities(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, "particles rows"]:
        """Log density of each row that is not given, given those that are; 0 for the given ones.

        Args:
            theta: Unconstrained values of the parameters that are left.
            given: Which rows condition.
        """
        return self._each(theta, lambda outer: self._added(outer, given))

    def _added(self, outer: Outer, given: Tensor) -> Tensor:
        groups = self.quadrature.groups
        base = self.quadrature.integrals(outer, given, changes=False)
        read = summed(given.to(torch.float64), groups) > 0
        before = pick_last(torch.where(read, base.given, 0.0), groups.element)
        own = torch.where(given | ~groups.alone, 0.0, base.alone)
        left = torch.nonzero(~given & ~groups.alone)[:, 0]
        element = groups.element[left]
        # one row of every group at a time
        rank = (element[:, None] == element).tril(-1).sum(1)
        for position in range(int(rank.max()) + 1 if len(rank) else 0):
            turned = torch.zeros_like(given)
            turned[left[rank == position]] = True
            more = self.quadrature.integrals(outer, given | turned, changes=False)
            own = torch.where(turned, pick_last(more.given, groups.element) - before, own)
        return own

    @property
    def integration(self) -> Integration:
        """What was integrated out, and how well."""
        return Integration("quadrature", num_latents(self.quadrature.integrand.clustering), self.check)

    def complete(
        self,
        theta: Float[Tensor, "particles outer"],
        generator: torch.Generator,
        given: Bool[Tensor, " rows"],
    ) -> Float[Tensor, "particles dim"]:
        """Parameters of the whole model, the latents drawn given the others and the given rows.

        Args:
            theta: Unconstrained values of the parameters that are left.
            generator: Source of the latents' draws.
            given: Which rows are given.
        """
        latents = self._each(theta, lambda outer: self.quadrature.draws(outer, given, generator).flatten(1))
        found = self.others.transferred(theta, self.density)
        integrand = self.quadrature.integrand
        for part, places in zip(integrand.parts, integrand.places, strict=True):
            found[:, part.parameter.start : part.parameter.stop] = latents[:, places]
        return found

    def checked_at(self, theta: Float[Tensor, "particles dim"]) -> ClusterIntegrated | None:
        """The same with what a check found, or `None` if it failed.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """
        with torch.no_grad():
            usual, refined = (self._tables(theta[::THINNED], finer) for finer in (False, True))
            found, check = self, _error(usual, refined)
            if math.isnan(check):
                # without a row an integrand may be too wide for nodes that the rest of the rows placed
                each = (usual[:, 1:] - refined[:, 1:]).abs().mean(0)
                wrong = each > MISPLACED * LEAVE_ONE_OUT_TOLERANCE / self.num_observations
                found = type(self)(self.density, self.others, self.quadrature.with_own_nodes(wrong))
                usual, refined = (found._tables(theta[::THINNED], finer) for finer in (False, True))
                check = _error(usual, refined)
            if math.isnan(check):
                return None
            alone = self._each(theta, lambda o: torch.tensor([float(self.quadrature.has_other_modes(o))]))
            if bool(alone.any()):
                return None
        return type(self)(self.density, self.others, found.quadrature, check)

    def _tables(self, theta: Tensor, refined: bool) -> Tensor:
        """Log densities of all rows together, then of each given all others `[particles, 1 + rows]`."""
        everything = torch.ones(self.num_observations, dtype=torch.bool)
        found = self._each(theta, lambda outer: packed(self._marginals(outer, everything, refined)))
        return torch.cat([found[:, :1], found[:, :1] - found[:, 1:]], 1)

    def outer(self, theta: Float[Tensor, "particles dim"]) -> Outer:
        """What the latents' priors and the likelihood read of the parameters that are left, and these."""
        return super().outer(theta)._replace(theta=theta)

    def _each(self, theta: Tensor, function: Callable[[Outer], Tensor], finer: float = 1.0) -> Tensor:
        """A function of particles, of as many at once as memory allows."""
        size = int(finer * CHUNK / (TOGETHER * self.num_observations))
        return in_parts(self.outer(theta), function, size)


def _error(usual: Tensor, refined: Tensor) -> float:
    """Largest difference of all rows together between two rules in nats; NaN where it is too large."""
    difference = torch.where(usual.isfinite(), usual - refined, 0.0)
    check = float(difference[:, 0].abs().max())
    # of single rows errors average out over the posterior
    mean = abs(float(difference[:, 1:].sum(1).mean()))
    return check if check < TOLERANCE and mean < LEAVE_ONE_OUT_TOLERANCE else math.nan


class _Last(NamedTuple):
    """The last marginals, which refits ask for again."""

    theta: Tensor
    given: Tensor
    found: Marginals
