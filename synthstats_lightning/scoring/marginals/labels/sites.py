"""Discrete parameters of a model and the states that they are summed over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs import composites
from synthstats_lightning.programs.distribution import Distribution, Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.marginals.labels.dependence import Dependence

MAX_STATES = 1024
"""Most values of a discrete parameter, and most joint states where each has a density of its own."""

MOST_SHARED = 20_000
"""Most joint states of parameters that sort rows into few kinds, as change points do."""


COUNTS = {Support.NATURAL: 0, Support.POSITIVE_COUNT: 1}
"""Supports without a largest value, and their smallest."""


class Site(NamedTuple):
    """A discrete parameter.

    Attributes:
        node: Its index in the graph.
        name: Name by which it is known.
        shape: Shape of its value.
        values: Its elements in every state `[states, elements]`.
        units: Which unit each element belongs to, of the parameter's shape: an element of its own where all
            elements go through their values side by side, 0 for all where they do so jointly.
        endless: Whether its distribution has values beyond these, as a Poisson count has.
    """

    node: int
    name: str
    shape: tuple[int, ...]
    values: Float[Tensor, "states elements"]
    units: Dependence
    endless: bool = False

    @property
    def num_states(self) -> int:
        """States of each unit."""
        return self.values.shape[0]

    @property
    def num_units(self) -> int:
        """Units, each of which is in a state of its own."""
        return int(self.units.max()) + 1

    @property
    def separate(self) -> bool:
        """Whether it has several units."""
        return self.num_units > 1


def find_sites(
    graph: ModelGraph,
    shapes: Sequence[tuple[int, ...]],
    constants: Sequence[Tensor | None],
    most_counted: int,
) -> list[Site]:
    """Every discrete random node but the response, elements side by side.

    Args:
        graph: The model graph.
        shapes: Shape of every node.
        constants: Value of every node that depends on no random node.
        most_counted: Largest value of a parameter without a largest value, see `labels.counts`.

    Raises:
        ProgramFailure: `UNSUPPORTED` for a support that is not known beforehand, or larger than `MAX_STATES`.
    """
    sites: list[Site] = []
    for index, node in enumerate(graph.nodes):
        if node.op != "random" or index == graph.response:
            continue
        entry = composites.distribution_of(node.attributes)
        if not entry.discrete:
            continue
        name, shape = str(node.attributes["name"]), tuple(node.attributes["shape"])
        first = shapes[node.inputs[0]]
        known = [_known(graph, i, constants, sites) for i in node.inputs]
        endless = entry.support in COUNTS
        if endless:
            low, high = COUNTS[entry.support], most_counted
        else:
            low, high = _ends(entry, name, known, categories=first[-1] if first else 1)
        if high - low >= MAX_STATES:
            cannot(name, entry.name, f"has {high - low + 1} values, more than {MAX_STATES}")
        count = math.prod(shape)
        values = torch.arange(low, high + 1, dtype=torch.float64)[:, None].expand(-1, count)
        sites.append(Site(index, name, shape, values, np.arange(count).reshape(shape), endless))
    return sites


def joined(site: Site) -> Site | None:
    """The same parameter with its elements in joint states; `None` if there are more than `MOST_SHARED`."""
    each, count = site.num_states, site.values.shape[1]
    if count * math.log(each) > math.log(MOST_SHARED) + 1e-9:
        return None
    digits = np.stack(np.unravel_index(np.arange(each**count), (each,) * count), axis=1)
    values = site.values[:, 0][torch.from_numpy(digits)]
    return site._replace(values=values, units=np.zeros(site.shape, dtype=np.int64))


def cannot(name: str, distribution: str, why: str) -> NoReturn:
    """Raises the failure of a discrete parameter that is not summed out, in one line."""
    raise ProgramFailure(
        FailureCategory.UNSUPPORTED,
        f"{name}: a discrete latent ({distribution}) that cannot be summed out: it {why}",
    )


def _known(
    graph: ModelGraph, index: int, constants: Sequence[Tensor | None], sites: Sequence[Site]
) -> Tensor | None:
    """All values that a node may take; `None` if it depends on more than some discrete parameters."""
    found = constants[index]
    by_node = {site.node: site for site in sites if len(site.shape) == 0}
    inside = {index} if found is None else set()
    for i in range(index, -1, -1):
        if i in inside and i not in by_node:
            if graph.nodes[i].op == "random":
                return None
            inside.update(j for j in graph.nodes[i].inputs if constants[j] is None)
    own = [by_node[i] for i in sorted(inside & by_node.keys())]
    if not own or math.prod(site.num_states for site in own) > MAX_STATES:
        return found
    values: dict[int, Any] = {}
    for site, each in zip(own, np.meshgrid(*[s.values[:, 0].numpy() for s in own]), strict=True):
        values[site.node] = each.reshape(-1).astype(np.int64)
    for i in sorted(inside - by_node.keys()):
        node = graph.nodes[i]
        if not OPERATIONS[node.op].elementwise:
            return None
        inputs = [values[j] if c is None else c.numpy() for j, c in ((j, constants[j]) for j in node.inputs)]
        if any(np.ndim(x) and constants[j] is not None for j, x in zip(node.inputs, inputs, strict=True)):
            return None
        with np.errstate(all="ignore"):
            values[i] = OPERATIONS[node.op].evaluate(inputs, node.attributes)
    return torch.as_tensor(values[index]) if bool(np.isfinite(values[index]).all()) else None


def _ends(
    entry: Distribution, name: str, parameters: Sequence[Tensor | None], categories: int
) -> tuple[int, int]:
    """Smallest and largest value of any element."""
    if entry.support is Support.BINARY:
        return 0, 1
    if entry.support is Support.CATEGORIES:
        return 0, categories - 1
    if entry.support not in (Support.COUNT_TO, Support.INTEGER_RANGE):
        cannot(name, entry.name, "has one value, or values that are vectors")
    ends = [0, 0]
    for side, bound in enumerate(entry.bounds):
        if bound is None:
            continue
        known = parameters[entry.parameters.index(bound)]
        if known is None:
            cannot(name, entry.name, f"has values up to {bound}, which depends on another parameter")
        ends[side] = int(known.min() if side == 0 else known.max())
    if ends[1] < ends[0]:
        cannot(name, entry.name, "has no values")
    return ends[0], ends[1]
