"""Which latents belong to groups: each row of the response reads those of one group at most."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from synthstats_lightning.programs import composites
from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.groups.grouping import another_reads, independent_scalars
from synthstats_lightning.scoring.marginals.labels.dependence import MANY, NONE, of_factor, propagate

DIMENSIONS = 3
"""Most latents of a group: nodes grow exponentially with them."""


class Member(NamedTuple):
    """A parameter with some entries for each group.

    Attributes:
        parameter: It, as the model lays it out.
        axis: The axis of its shape along which groups lie.
        dependent: Nodes whose values depend on it, itself included.
    """

    parameter: Parameter
    axis: int
    dependent: frozenset[int]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.parameter.shape[self.axis]

    @property
    def each(self) -> int:
        """Entries of each group."""
        return self.parameter.size // self.groups


class Clustering(NamedTuple):
    """Latents of groups that are independent given all other parameters.

    Attributes:
        members: The parameters, which all have entries for the same groups.
        group: The group that each row reads, `NONE` where it reads none `[rows]`.
    """

    members: tuple[Member, ...]
    group: Int[Tensor, " rows"]

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.members[0].groups

    @property
    def dimensions(self) -> int:
        """Latents of each group."""
        return sum(member.each for member in self.members)

    @property
    def dependent(self) -> frozenset[int]:
        """Nodes whose values depend on the latents."""
        return frozenset[int]().union(*(member.dependent for member in self.members))


def find_clustering(compiled: Compiled) -> Clustering | None:
    """Latents of two or three entries a group that can be integrated out group by group.

    Given all other parameters the groups are independent in the prior, nothing but the response depends on
    them, and each row depends on one of them at most. A dependence that cannot be excluded counts as one.

    Args:
        compiled: The model, compiled.

    Returns:
        The clustering of most entries, `None` where there is none.
    """
    response = compiled.graph.nodes[compiled.graph.response]
    entry = composites.distribution_of(response.attributes)
    if compiled.labels is not None or entry.event_rank:
        return None
    candidates = [found for parameter in compiled.parameters for found in _of_parameter(compiled, parameter)]
    joined = [_joined(start, candidates) for start in candidates]
    several = [found for found in joined if found.dimensions > 1]
    return max(several, key=lambda found: (found.size * found.dimensions, found.size), default=None)


def _of_parameter(compiled: Compiled, parameter: Parameter) -> Iterable[Clustering]:
    """What a parameter by itself has for groups, along the first axis that does."""
    if parameter.size < 2 or not independent_scalars(parameter):
        return
    graph, constants = compiled.graph, compiled.constants
    response = graph.nodes[graph.response]
    ranks = composites.distribution_of(response.attributes).ranks
    known = {i: c.numpy() for i, c in enumerate(constants) if c is not None and c.dtype is torch.int64}
    for axis, count in enumerate(parameter.shape):
        if count < 2 or parameter.size // count > DIMENSIONS:
            continue
        place = np.arange(count).reshape([-1 if a == axis else 1 for a in range(len(parameter.shape))])
        units = np.broadcast_to(place, parameter.shape).copy()
        values = propagate(graph, compiled.shapes, known, parameter.node, units)
        dependent = frozenset(i for i, part in enumerate(values) if part is not None)
        if another_reads(compiled, dependent):
            return
        rows = of_factor([values[i] for i in response.inputs], ranks, compiled.shapes[graph.response])
        if rows is None or bool((rows == MANY).any()) or bool((rows == NONE).all()):
            continue
        group = torch.from_numpy(np.array(rows.reshape(-1), dtype=np.int64))
        yield Clustering((Member(parameter, axis, dependent),), group)
        return


def _joined(start: Clustering, candidates: Iterable[Clustering]) -> Clustering:
    """A clustering with all others of the same groups, as far as there is room."""
    for other in candidates:
        both = (start.group != NONE) & (other.group != NONE)
        same = other.size == start.size and bool((start.group == other.group)[both].all())
        here = {member.parameter.node for member in start.members}
        new = other.members[0].parameter.node not in here
        if same and new and start.dimensions + other.dimensions <= DIMENSIONS:
            group = torch.where(start.group == NONE, other.group, start.group)
            start = Clustering((*start.members, *other.members), group)
    return start


def num_latents(clustering: Clustering) -> int:
    """Entries of all groups together.

    Args:
        clustering: Latents of groups, with what depends on them.
    """
    return math.prod((clustering.size, clustering.dimensions))
