"""A model without a latent of independent elements: a target over the other parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.base import GroupTarget, in_parts, packed, with_latent
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.nodes import REACHES, STEP
from synthstats_lightning.scoring.marginals.groups.quadrature import CHUNK, Quadrature
from synthstats_lightning.scoring.score import Integration

TOLERANCE = 0.01
"""Largest accepted difference between the rule and a finer one, in nats."""
MORE, FINEST = (2.0, 4.0), 4.0
"""How many times as many nodes are tried where the check fails, and how many times the usual number at
most: of latents with an end, such as a half-normal, seen in one row each."""
CHECK_WORK = 20.0
"""How many times as many nodes the check takes: finer, wider and around more modes."""
FORM_SHARE = 0.25
"""Work of a row's known form at a node over that of its density."""
THINNED = 2
"""Every so many of the draws of a check are looked at."""
FINER = 8.0
"""How many times as many nodes draws of the latent are chosen from as integrals take."""


class GroupIntegrated(GroupTarget[Quadrature]):
    """A model with one latent integrated out by quadrature, given the other parameters.

    Args:
        density: The whole model.
        outer: The same model with the latent held constant: its prior is that of the other parameters.
        quadrature: How the latent is integrated out.
        check: What `checked_at` found; NaN before.
    """

    @property
    def integration(self) -> Integration:
        """What was integrated out, and how well."""
        size = self.quadrature.integrand.parameter.size
        return Integration("quadrature", size, self.check)

    @property
    def densities_each(self) -> int:
        """Densities of a row for each draw: one at every node, or of a form that takes a few operations."""
        nodes = 2 * math.ceil(self.quadrature.fineness * REACHES[self.quadrature.first] / STEP) + 1
        return nodes if self.quadrature.form is None else max(1, round(FORM_SHARE * nodes))

    def complete(
        self,
        theta: Float[Tensor, "particles outer"],
        generator: torch.Generator,
        given: Bool[Tensor, " rows"],
    ) -> Float[Tensor, "particles dim"]:
        """Parameters of the whole model, the latent drawn given the others and the given rows.

        A draw is exact up to the width of a cell of a grid with `FINER` times as many nodes as the integrals
        take, within which it is uniform.

        Args:
            theta: Unconstrained values of the parameters that are left.
            generator: Source of the latent's draws.
            given: Which rows are given.
        """
        latent = self._each(theta, lambda outer: self._draw(outer, generator, given), FINER)
        return with_latent(self, theta, latent)

    def checked_at(self, theta: Float[Tensor, "particles dim"]) -> GroupIntegrated | None:
        """The same with what a check found, or with more nodes and not checked, or `None` if it failed.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """
        check = self._error(theta)
        if check < TOLERANCE:
            return type(self)(self.density, self.others, self.quadrature, check)
        finer = [self.quadrature.finer(times) for times in MORE if times * self.quadrature.fineness <= FINEST]
        others = (type(self)(self.density, self.others, each) for each in finer)
        return next((other for other in others if other._error(theta) < TOLERANCE), None)

    def _error(self, theta: Tensor) -> float:
        """Largest difference between the rule and a finer one at some draws; infinite without a value."""
        with torch.no_grad():
            usual, refined = (self._checks(theta[::THINNED], fine) for fine in (False, True))
        known = usual.isfinite()
        return float((usual - refined)[known].abs().max()) if bool(known.any()) else math.inf

    def _checks(self, theta: Tensor, refined: bool) -> Tensor:
        """Log densities of all rows together, and sums of those of each given all others `[2, particles]`."""
        everything = torch.ones(self.num_observations, dtype=torch.bool)
        finer = CHECK_WORK if refined else 1.0
        if not self.coupled:
            return self._each(theta, lambda outer: self._total(outer, everything, refined), finer)[None]
        found = self._each(theta, lambda outer: packed(self._marginals(outer, everything, refined)), finer)
        return torch.stack([found[:, 0], (found[:, :1] - found[:, 1:]).sum(1)])

    def _each(self, theta: Tensor, function: Callable[[Outer], Tensor], finer: float = 1.0) -> Tensor:
        """A function of particles, of as many at once as memory allows."""
        modes = self.quadrature.reference.centre.shape[1]
        nodes = finer * self.quadrature.fineness * modes * 2 * REACHES[self.quadrature.first] / STEP
        return in_parts(self.outer(theta), function, int(CHUNK / (nodes * self.quadrature.width)))

    def _draw(self, outer: Outer, generator: torch.Generator, given: Tensor) -> Tensor:
        """Draws of the latent, unconstrained `[particles, elements]`."""
        nodes = self.quadrature.posterior(outer, given, FINER)
        uniform = torch.rand(nodes.u.shape, generator=generator, dtype=nodes.u.dtype)
        noise = -torch.log(-torch.log(uniform.clamp(2.0**-54, 1.0 - 2.0**-53)))
        chosen = (nodes.log_weight + noise).argmax(1, keepdim=True)
        low = nodes.u.gather(1, (chosen - 1).clamp(min=0))[:, 0]
        high = nodes.u.gather(1, (chosen + 1).clamp(max=nodes.u.shape[1] - 1))[:, 0]
        within = torch.rand(low.shape, generator=generator, dtype=low.dtype)
        return 0.5 * (nodes.u.gather(1, chosen)[:, 0] + low + (high - low) * within)
