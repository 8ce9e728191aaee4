"""A model without the latents of groups: what targets of one latent a group and of several have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.many_rows import pieces
from synthstats_lightning.scoring.density.target import Marginals, leave_one_out_sums
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.grouping import RowGroups, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.quadrature import Integrals
from synthstats_lightning.scoring.numerics.picks import pick_last
from synthstats_lightning.scoring.score import Integration


@runtime_checkable
class Rule(Protocol):
    """How the latents of every group are integrated out."""

    integrand: Any
    groups: RowGroups

    def integrals(
        self, outer: Outer, given: Bool[Tensor, " rows"], *, changes: bool, refined: bool = False
    ) -> Integrals:
        """The integrals of some rows, and of these with one less or more."""
        ...


AnyRule = TypeVar("AnyRule", bound=Rule)


class GroupTarget(ABC, Generic[AnyRule]):
    """A model with the latents of groups integrated out, given the other parameters.

    Rows that read the same group depend on each other given the other parameters. `log_likelihood` then
    has only a sum over rows.

    Args:
        density: The whole model.
        outer: The same model with the latents held constant: its prior is that of the other parameters.
        quadrature: How the latents are integrated out.
        check: What `checked_at` found; NaN before.
    """

    def __init__(
        self, density: Density, outer: Density, quadrature: AnyRule, check: float = math.nan
    ) -> None:
        self.density = density
        self.others = outer
        self.quadrature = quadrature
        self.check = check

    @property
    @abstractmethod
    def integration(self) -> Integration:
        """What was integrated out, and how well."""

    @abstractmethod
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

    @abstractmethod
    def checked_at(self, theta: Float[Tensor, "particles dim"]) -> GroupTarget[AnyRule] | None:
        """The same with what a check found, or `None` if it failed.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """

    @abstractmethod
    def _each(self, theta: Tensor, function: Callable[[Outer], Tensor], finer: float = 1.0) -> Tensor:
        """A function of particles, of as many at once as memory allows."""

    @property
    def dimension(self) -> int:
        """Unconstrained parameters that are left."""
        return self.others.dimension

    @property
    def num_observations(self) -> int:
        """Rows of the response."""
        return self.density.num_observations

    @property
    def coupled(self) -> bool:
        """Whether two rows read one element."""
        return self.quadrature.groups.shared

    @property
    def funnels(self) -> Sequence[object]:
        """What is worth standardising among the parameters that are left."""
        return self.others.funnels

    def standardised(
        self, theta: Float[Tensor, " dim"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> GroupTarget[AnyRule]:
        """The same model with the parameters that are left non-centred.

        Args:
            theta: A point; the likelihood's curvature there is not used.
            given: Which rows count; not used.
        """
        if not self.others.funnels or theta is not None:
            return self
        return type(self)(self.density, self.others.standardised(), self.quadrature, self.check)

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density of the parameters that are left, in nats.

        Args:
            theta: Their unconstrained values.
        """
        return self.others.log_prior(theta)

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "n dim"]:
        """Independent draws from their prior.

        Args:
            n: Number of draws.
            generator: Source of all randomness.
        """
        return self.others.sample_prior(n, generator)

    def log_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles rows"]:
        """Log-likelihood of each row; the whole in equal shares where rows depend on each other.

        Args:
            theta: Unconstrained values of the parameters that are left.
        """
        if not self.coupled:
            return self._each(theta, self._rows)
        total = self.marginal_likelihood(theta)
        return (total / self.num_observations)[:, None].expand(-1, self.num_observations)

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Both.

        Args:
            theta: Unconstrained values of the parameters that are left.
        """
        return self.log_prior(theta), self.log_likelihood(theta)

    def marginal_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log density of all rows together.

        Args:
            theta: Unconstrained values of the parameters that are left.
        """
        return self.log_likelihood_given(theta, torch.ones(self.num_observations, dtype=torch.bool))

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
        found = self._each(theta, lambda outer: packed(self._marginals(outer, given)))
        return Marginals(found[:, 0], found[:, 1:])

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log-likelihood of some rows together, as in `marginals`.

        Args:
            theta: Unconstrained values of the parameters that are left.
            given: Which rows count.
        """
        return self._each(theta, lambda outer: self._total(outer, given))

    @property
    def checked(self) -> bool:
        """Whether the rule was checked at draws from the posterior."""
        return not math.isnan(self.check)

    def outer(self, theta: Float[Tensor, "particles dim"]) -> Outer:
        """What the latent's prior and the likelihood read of the parameters that are left."""
        found: Outer = self.quadrature.integrand.outer(self.others.node_values(theta), len(theta))
        return found

    def _rows(self, outer: Outer) -> Tensor:
        """Log-likelihood of rows of which no two read one element."""
        groups = self.quadrature.groups
        everything = torch.ones(self.num_observations, dtype=torch.bool)
        found = self.quadrature.integrals(outer, everything, changes=False)
        return torch.where(groups.alone, found.alone, pick_last(found.given, groups.element))

    def _total(self, outer: Outer, given: Tensor, refined: bool = False) -> Tensor:
        found = self.quadrature.integrals(outer, given, changes=False, refined=refined)
        return self._factors(found, given).sum(1)

    def _factors(self, found: Integrals, given: Tensor) -> Tensor:
        """Independent parts of the likelihood: elements, then rows that read none."""
        groups = self.quadrature.groups
        read = summed(given.to(torch.float64), groups) > 0
        elements = torch.where(read, found.given, 0.0)
        return torch.cat([elements, torch.where(given & groups.alone, found.alone, 0.0)], 1)

    def _marginals(self, outer: Outer, given: Tensor, refined: bool = False) -> Marginals:
        groups = self.quadrature.groups
        read = summed(given.to(torch.float64), groups) > 0
        # an element that no given row reads: each of its rows is integrated by itself
        fresh = ~given & ~groups.alone & ~read[groups.element]
        rounds = int(groups.rank[fresh].max()) + 1 if bool(fresh.any()) else 1
        base = given | (fresh & (groups.rank == 0))
        first = self.quadrature.integrals(outer, base, changes=True, refined=refined)
        factors = self._factors(first, given)
        rest = leave_one_out_sums(factors)
        others = pick_last(rest, groups.element)
        count = summed(given.to(torch.float64), groups)
        changed = others + torch.where(given & (count[groups.element] == 1), 0.0, first.changed)
        by_itself = pick_last(first.given, groups.element)
        for position in range(1, rounds):
            chosen = fresh & (groups.rank == position)
            found = self.quadrature.integrals(outer, chosen, changes=False)
            by_itself = torch.where(chosen, pick_last(found.given, groups.element), by_itself)
        changed = torch.where(fresh, others + by_itself, changed)
        total = factors.sum(1)
        lonely = rest[:, read.shape[0] :]
        changed = torch.where(groups.alone, torch.where(given, lonely, total[:, None] + first.alone), changed)
        return Marginals(total, changed)


def in_parts(outer: Outer, function: Callable[[Outer], Tensor], size: int) -> Tensor:
    """A function of particles, of so many at once.

    Args:
        outer: What is read of all of them.
        function: Acts on each particle by itself.
        size: Most particles at once; at least one is taken.
    """
    if outer.particles <= size:
        return function(outer)
    parts = pieces(torch.arange(outer.particles), size)
    return torch.cat([function(outer.select(part)) for part in parts])


def with_latent(
    target: GroupTarget[Any], theta: Float[Tensor, "particles outer"], latent: Float[Tensor, "particles size"]
) -> Float[Tensor, "particles dim"]:
    """Parameters of the whole model, out of the others and of the one latent that was integrated out.

    Args:
        target: The model without the latent.
        theta: Unconstrained values of the parameters that are left.
        latent: Those of the latent.
    """
    found = target.others.transferred(theta, target.density)
    parameter = target.quadrature.integrand.parameter
    found[:, parameter.start : parameter.stop] = latent
    return found


def packed(found: Marginals) -> Tensor:
    """Both tables side by side, the whole first.

    Args:
        found: Totals and changed totals, of the same particles.
    """
    return torch.cat([found.given[:, None], found.changed], 1)
