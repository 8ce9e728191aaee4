"""A model's likelihood and its latents' prior at many values of every group's latents at once."""

from __future__ import annotations

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.marginals.clusters.clustering import Clustering
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping
from synthstats_lightning.scoring.marginals.groups.integrand import (
    STILL,
    Integrand,
    Outer,
    Terms,
    plain,
    repeated,
    with_still,
    without_latent,
)
from synthstats_lightning.scoring.numerics.picks import pick_last
from synthstats_lightning.scoring.numerics.sums import sum_last


class ClusterIntegrand:
    """Prior of the latents of groups and likelihood of the response at many values of the latents.

    Every group is at a node of its own: rows read one group at most, so that one evaluation of the model
    serves all groups.

    Args:
        compiled: The whole model.
        clustering: The latents, with what depends on them.
    """

    def __init__(self, compiled: Compiled, clustering: Clustering) -> None:
        self.compiled = compiled
        self.clustering = clustering
        self.parts = [
            Integrand(compiled, Grouping(member.parameter, clustering.group, clustering.dependent))
            for member in clustering.members
        ]
        self.places = [self._entries(number) for number in range(len(clustering.members))]

    def _entries(self, number: int) -> Tensor:
        """Of each entry of a member, its place among all latents, groups first `[size]`."""
        member = self.clustering.members[number]
        before = sum(earlier.each for earlier in self.clustering.members[:number])
        shape = member.parameter.shape
        group = torch.arange(member.groups).reshape(
            [-1 if a == member.axis else 1 for a in range(len(shape))]
        )
        rest = [n for axis, n in enumerate(shape) if axis != member.axis]
        within = torch.arange(math.prod(rest)).reshape(rest).unsqueeze(member.axis)
        return (group * self.clustering.dimensions + before + within).reshape(-1)

    def outer(self, values: list[Tensor | None], particles: int) -> Outer:
        """What is read of an evaluation of the other parameters.

        Args:
            values: Value of every node of the model without the latents.
            particles: Number of particles.
        """
        found: dict[int, Tensor] = {}
        for part in reversed(self.parts):
            found |= part.outer(values, particles).values
        return Outer(particles, found)

    def __call__(self, outer: Outer, u: Float[Tensor, "particles nodes groups dims"]) -> Terms:
        """Log-densities at some nodes, the prior's of each group's latents together.

        Args:
            outer: What is read of the other parameters.
            u: Unconstrained values of the latents.
        """
        compiled, first = self.compiled, self.parts[0]
        particles, nodes, groups, dims = u.shape
        values: list[Tensor | None] = [None] * (compiled.num_slots + len(first.combined))
        for node, value in outer.values.items():
            if node != STILL:
                values[node] = repeated(value, nodes)
        flat = u.reshape(particles * nodes, groups * dims)
        prior = torch.zeros(particles * nodes, groups * dims, dtype=u.dtype)
        for part, places in zip(self.parts, self.places, strict=True):
            coordinate = pick_last(flat, places).reshape(-1, *part.padded)
            found = part.prior_at(values, coordinate).reshape(particles * nodes, -1)
            prior = prior.index_add(1, places, found)
        for slot, function, inputs in first.steps:
            values[slot] = function(*[values[i] for i in inputs])
        rows = compiled.response_term.log_prob(values, moving=first.splits)
        shape = (particles * nodes, compiled.num_observations)
        if rows.shape != shape:
            rows = rows.expand(shape[0], *pad(shape[1:], compiled.rank)).reshape(shape)
        return Terms(
            plain(sum_last(prior.reshape(particles, nodes, groups, dims))),
            plain(with_still(rows.reshape(particles, nodes, -1), outer)),
        )

    def prior_draws(
        self, outer: Outer, count: int, generator: torch.Generator
    ) -> Float[Tensor, "particles draws groups dims"]:
        """Draws of the latents from their prior, unconstrained.

        Args:
            outer: What is read of the other parameters.
            count: Draws for each particle.
            generator: Source of all randomness.
        """
        size = self.clustering.size * self.clustering.dimensions
        u = torch.zeros(outer.particles, count, size, dtype=torch.float64)
        for part, places in zip(self.parts, self.places, strict=True):
            u[..., places] = part.prior_draws(outer, count, generator)
        return u.reshape(outer.particles, count, self.clustering.size, self.clustering.dimensions)


def without_latents(graph: ModelGraph, clustering: Clustering, value: float) -> ModelGraph:
    """A model graph in which the latents are constants: what is left has the other parameters' prior.

    Args:
        graph: The model graph.
        clustering: The latents that are replaced by constants.
        value: What stands in for their entries.
    """
    parameters = [member.parameter for member in clustering.members]
    return reduce(lambda found, parameter: without_latent(found, parameter, value), parameters, graph)
