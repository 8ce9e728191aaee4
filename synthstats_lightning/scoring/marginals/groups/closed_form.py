"""A model without a latent whose prior is conjugate to the rows that read it: a target over the others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.base import GroupTarget, in_parts, with_latent
from synthstats_lightning.scoring.marginals.groups.conjugate import Conjugate
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.quadrature import CHUNK
from synthstats_lightning.scoring.score import Integration


class ConjugateIntegrated(GroupTarget[Conjugate]):
    """A model with one latent integrated out in closed form, given the other parameters.

    Args:
        density: The whole model.
        outer: The same model with the latent held constant: its prior is that of the other parameters.
        quadrature: The closed forms.
        check: They are exact: 0.
    """

    def __init__(self, density: Density, outer: Density, quadrature: Conjugate, check: float = 0.0) -> None:
        super().__init__(density, outer, quadrature, check)

    @property
    def integration(self) -> Integration:
        """What was integrated out."""
        return Integration("exact", self.quadrature.integrand.parameter.size, self.check)

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
        latent = self._each(theta, lambda outer: self.quadrature.draws(outer, given, generator))
        return with_latent(self, theta, latent)

    def checked_at(self, theta: Float[Tensor, "particles dim"]) -> ConjugateIntegrated:
        """The same: there is nothing to check.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """
        return self

    def _each(self, theta: Tensor, function: Callable[[Outer], Tensor], finer: float = 1.0) -> Tensor:
        """A function of particles, of as many at once as memory allows."""
        width = max(self.num_observations, self.quadrature.integrand.parameter.size)
        return in_parts(self.outer(theta), function, CHUNK // width)
