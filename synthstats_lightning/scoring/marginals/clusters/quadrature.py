"""The integral over the latents of every group, of some rows and of these with one row less or more."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.standardise import MOMENTS
from synthstats_lightning.scoring.marginals.clusters.integrand import ClusterIntegrand
from synthstats_lightning.scoring.marginals.clusters.modes import LogDensity, Mode, climb
from synthstats_lightning.scoring.marginals.groups.grouping import RowGroups, counted, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.quadrature import CHUNK, Integrals, tables_of
from synthstats_lightning.scoring.marginals.laplace.starts import Starts
from synthstats_lightning.scoring.numerics.picks import pick_last

ORDERS = {2: (7, 11, 15), 3: (5, 7, 9)}
"""Nodes along each dimension by number of dimensions: the fewest that do are taken."""
MORE = 2
"""Nodes more along each dimension for integrals of one row less or more, which nodes are not centred on."""
FEW_ROWS = 3
"""Groups of so many rows a latent at most have nodes of their own for each row less or more."""
FINEST = {2: 25, 3: 11}
"""Nodes along each dimension for a check."""
NEGLIGIBLE = 1e-7
"""Nodes of so small a share of a normal integrand are left out."""
WIDER = 1.2
"""Draws of the latents are proposed so much wider than the curvature at the mode says."""
DRAWN = 64
"""Draws of which one stands for the posterior of a group."""
SCANNED = 200
"""Prior draws of the latents among which a check looks for other modes."""
OTHER_MODE = 0.5
"""Distance in scales from which on another mode is one."""
FAR_AWAY = 6.0
"""Starts so many standard deviations of a prior from its middle are looked at."""
RELEVANT = 8.0
"""Modes so many nats below the highest are not."""


class Rule(NamedTuple):
    """Gauss-Hermite nodes of some dimensions.

    Attributes:
        z: Where they are, in units of the roots `[nodes, dims]`.
        log_weight: Log weights for an integral over the latents in these units `[nodes]`.
    """

    z: Float[Tensor, "nodes dims"]
    log_weight: Float[Tensor, " nodes"]


@cache
def rule(order: int, dims: int) -> Rule:
    """The product rule, without the nodes that a normal integrand does not need.

    Args:
        order: Nodes along each dimension.
        dims: Dimensions of the integral, each with as many nodes.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    axes = np.meshgrid(*[nodes] * dims, indexing="ij")
    z = np.stack([axis.ravel() for axis in axes], 1)
    shares = np.stack(np.meshgrid(*[weights] * dims, indexing="ij"))
    share = shares.prod(0).ravel() / (2 * np.pi) ** (dims / 2)
    kept = share > NEGLIGIBLE
    z, share = z[kept], share[kept] / share[kept].sum()
    log_weight = np.log(share) + 0.5 * np.square(z).sum(1) + 0.5 * dims * np.log(2 * np.pi)
    with torch.inference_mode(False):
        return Rule(torch.from_numpy(z.copy()), torch.from_numpy(log_weight.copy()))


class ClusterQuadrature:
    """Integrates the latents of groups out, group by group.

    Nodes lie around the mode of each integrand, in units of the root of its curvature there, as in adaptive
    Gauss-Hermite quadrature (Pinheiro & Bates 1995, doi:10.1080/10618600.1995.10474663).

    Args:
        integrand: The latents' prior and likelihood.
        groups: The rows that read each group.
        reference: Modes at some value of the other parameters, where searches start.
        order: Nodes along each dimension.
        own: Rows that get nodes of their own where they are left out or added, beside those of small groups.
    """

    def __init__(
        self,
        integrand: ClusterIntegrand,
        groups: RowGroups,
        reference: Mode,
        order: int | None = None,
        own: Bool[Tensor, " rows"] | None = None,
    ) -> None:
        self.integrand = integrand
        self.groups = groups
        self.reference = reference
        self.dims = integrand.clustering.dimensions
        self.order = ORDERS[self.dims][0] if order is None else order
        size = summed(torch.ones(len(groups.element), dtype=torch.float64), groups)
        few = ~groups.alone & (size <= FEW_ROWS * self.dims)[groups.element]
        self.own = few if own is None else few | own
        self.starts = Starts(reference.flat())

    def log_density(self, outer: Outer, given: Bool[Tensor, " rows"]) -> LogDensity:
        """The log integrand of some rows, for a search among some of the particles.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
        """

        def evaluated(u: Tensor, chosen: Tensor) -> Tensor:
            part = outer if len(chosen) == outer.particles else outer.select(chosen)
            terms = self.integrand(part, u)
            return terms.prior + summed(counted(terms.rows, given), self.groups)

        return evaluated

    def modes(self, outer: Outer, given: Bool[Tensor, " rows"], near: Mode | None = None) -> Mode:
        """The mode of each group's integrand of the given rows.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            near: Modes of about the same rows, where searches start.
        """
        with torch.no_grad():
            log_density = self.log_density(outer, given)
            if near is None and outer.theta is not None and self.starts.known:
                near = Mode.of_flat(self.starts.near(outer.theta), self.reference)
                near = self._within_reach(outer, log_density, near)
            found = climb(log_density, self._start(outer, log_density) if near is None else near)
            if outer.theta is not None:
                flat = found.flat()
                self.starts.found(outer.theta, flat, flat.isfinite().all(1))
            return found

    def nodes(self, changes: bool, refined: bool) -> Rule:
        """The rule of an integral.

        Args:
            changes: Whether those of one row less or more are wanted.
            refined: Whether it is for a check.
        """
        if refined:
            return rule(FINEST[self.dims], self.dims)
        return rule(self.order + MORE * changes, self.dims)

    def with_own_nodes(self, rows: Bool[Tensor, " rows"]) -> ClusterQuadrature:
        """The same, with nodes of their own for some rows where they are left out or added.

        Args:
            rows: Which of the response's rows get them.
        """
        found = ClusterQuadrature(self.integrand, self.groups, self.reference, self.order, self.own | rows)
        found.starts = self.starts
        return found

    def integrals(
        self,
        outer: Outer,
        given: Bool[Tensor, " rows"],
        *,
        changes: bool,
        refined: bool = False,
        near: Mode | None = None,
    ) -> Integrals:
        """The integrals of some rows; differentiable in the other parameters, the nodes held where they are.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            changes: Whether those with one row less or more are wanted; else they are 0.
            refined: Whether to take the finest rule, for a check.
            near: Modes of about the same rows, where searches start.
        """
        fixed = outer.detached()
        mode = self.modes(fixed, given, near)
        nodes = self.nodes(changes, refined)
        size = max(1, int(CHUNK / (len(nodes.z) * len(given))))
        parts = []
        for some in torch.split(torch.arange(outer.particles), size):
            here = outer if len(some) == outer.particles else outer.select(some)
            parts.append(self._integrals(here, mode.select(some), nodes, given, changes))
        found = parts[0] if len(parts) == 1 else Integrals(*map(torch.cat, zip(*parts, strict=True)))
        return self._by_themselves(outer, given, found, mode, refined) if changes else found

    def _by_themselves(
        self, outer: Outer, given: Tensor, found: Integrals, mode: Mode, refined: bool
    ) -> Integrals:
        """Integrals of one row less or more, of some rows with nodes of their own.

        Without one of few rows an integrand may be far wider, and with another far narrower. One row of every
        group is left out or added at a time.
        """
        own = self.own & ~self.groups.alone
        changed = found.changed
        for position in range(int(self.groups.rank[own].max()) + 1 if bool(own.any()) else 0):
            turned = own & (self.groups.rank == position)
            if bool(turned.any()):
                rest = self.integrals(outer, given ^ turned, changes=False, refined=refined, near=mode)
                changed = torch.where(turned, pick_last(rest.given, self.groups.element), changed)
        return found._replace(changed=changed)

    def _integrals(self, outer: Outer, mode: Mode, nodes: Rule, given: Tensor, changes: bool) -> Integrals:
        terms = self.integrand(outer, mode.at(nodes.z))
        volume = mode.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        base = terms.prior + nodes.log_weight[:, None] + volume[:, None]
        tables = tables_of(terms.rows, base, given, self.groups, changes)
        alone = terms.rows[:, 0]
        changed = torch.zeros_like(alone) if tables.changed is None else tables.changed.logsumexp(1)
        return Integrals(tables.whole.logsumexp(1), changed, alone)

    def draws(
        self, outer: Outer, given: Bool[Tensor, " rows"], generator: torch.Generator
    ) -> Float[Tensor, "particles groups dims"]:
        """One draw of each group's latents given some rows, out of `DRAWN` weighted ones.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            generator: Source of the draws.
        """
        mode = self.modes(outer, given)
        shape = (outer.particles, DRAWN, self.integrand.clustering.size, self.dims)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        u = mode.centre[:, None] + WIDER * torch.einsum("pgij,pngj->pngi", mode.root, noise)
        log_density = self.log_density(outer, given)(u, torch.arange(outer.particles))
        weight = log_density + 0.5 * noise.square().sum(-1)
        uniform = torch.rand(weight.shape, generator=generator, dtype=weight.dtype)
        gumbel = -torch.log(-torch.log(uniform.clamp(2.0**-54, 1.0 - 2.0**-53)))
        best = (weight + gumbel).argmax(1, keepdim=True)
        return u.gather(1, best[..., None].expand(-1, -1, -1, self.dims))[:, 0]

    def has_other_modes(self, outer: Outer) -> bool:
        """Whether a search from the best draw of the prior ends at another mode that matters.

        Args:
            outer: What is read of the other parameters.
        """
        everything = torch.ones(self.integrand.compiled.num_observations, dtype=torch.bool)
        with torch.no_grad():
            log_density, every = self.log_density(outer, everything), torch.arange(outer.particles)
            known = self.modes(outer, everything)
            draws = self.integrand.prior_draws(outer, SCANNED, torch.Generator().manual_seed(0))
            value = log_density(draws, every)
            offset = torch.linalg.solve_triangular(
                known.root, (draws - known.centre[:, None]).movedim(1, -1), upper=False
            )
            # what the known mode explains is no other's
            explained = value - log_density(known.centre[:, None], every) + 0.5 * offset.square().sum(-2).mT
            best = explained.argmax(1, keepdim=True)
            start = draws.gather(1, best[..., None].expand(-1, -1, -1, self.dims))[:, 0]
            found = climb(log_density, Mode(start, known.root))
            heights = [log_density(mode.centre[:, None], every)[:, 0] for mode in (known, found)]
            apart = torch.linalg.solve_triangular(
                known.root, (found.centre - known.centre)[..., None], upper=False
            )
            far = apart[..., 0].norm(dim=-1) > OTHER_MODE
            return bool((far & (heights[1] > heights[0] - RELEVANT)).any())

    def _start(self, outer: Outer, log_density: LogDensity) -> Mode:
        """The reference, or the prior's centre, or between them: whichever is higher."""
        known = Mode(*(part.expand(outer.particles, *part.shape[1:]) for part in self.reference))
        prior = self._prior_centre(outer, known.centre)
        centre = torch.stack([known.centre, prior, 0.5 * (known.centre + prior)], 1)
        value = log_density(centre, torch.arange(outer.particles))
        best = value.nan_to_num(nan=-torch.inf).argmax(1, keepdim=True)
        return Mode(centre.gather(1, best[..., None].expand(-1, -1, -1, self.dims))[:, 0], known.root)

    def _within_reach(self, outer: Outer, log_density: LogDensity, near: Mode) -> Mode:
        """Starts whose priors are not so narrow elsewhere that no step from there leads to the mode.

        Of a start that is many prior standard deviations away each latent alone, or all of them, may be put
        into the middle of its prior, whichever is highest; no root is wider than the prior.
        """
        mean, sd = self._prior(outer, near.centre)
        away = ((near.centre - mean).abs() > FAR_AWAY * sd).flatten(1).any(1)
        chosen = torch.nonzero(away)[:, 0]
        if len(chosen) == 0:
            return near
        here, mean, sd = near.select(chosen), mean[chosen], sd[chosen]
        latents = torch.eye(self.dims, dtype=torch.bool)
        moved = [here.centre, mean, *(torch.where(latent, mean, here.centre) for latent in latents)]
        centre = torch.stack(moved, 1)
        best = log_density(centre, chosen).nan_to_num(nan=-torch.inf).argmax(1, keepdim=True)
        narrower = (sd / here.root.norm(dim=-1)).clamp_max(1.0)
        return Mode(
            near.centre.index_copy(
                0, chosen, centre.gather(1, best[..., None].expand(-1, -1, -1, self.dims))[:, 0]
            ),
            near.root.index_copy(0, chosen, here.root * narrower[..., None]),
        )

    def _prior_centre(self, outer: Outer, otherwise: Tensor) -> Tensor:
        return self._prior(outer, otherwise)[0]

    def _prior(self, outer: Outer, otherwise: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of the latents' priors `[particles, groups, dims]`, where known."""
        means, sds = otherwise.flatten(1).clone(), torch.full_like(otherwise.flatten(1), torch.inf)
        for part, places in zip(self.integrand.parts, self.integrand.places, strict=True):
            moments = MOMENTS.get(part.parameter.distribution.name)
            if moments is not None:
                mean, sd = (
                    each.expand(outer.particles, *part.padded).reshape(outer.particles, -1)
                    for each in moments(*part.hyperparameters(outer))[:2]
                )
                known = mean.isfinite() & sd.isfinite() & (sd > 0)
                means[:, places] = torch.where(known, mean, means[:, places])
                sds[:, places] = torch.where(known, sd, torch.inf)
        return means.reshape(otherwise.shape), sds.reshape(otherwise.shape)
