"""In what order a model's discrete parameters are summed out, and which of their elements jointly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synthstats_lightning.programs import composites
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.marginals.labels.chain import find_chain
from synthstats_lightning.scoring.marginals.labels.dependence import (
    MANY,
    NONE,
    Dependence,
    of_factor,
    propagate,
)
from synthstats_lightning.scoring.marginals.labels.elimination import ByLevels, Elimination, Level
from synthstats_lightning.scoring.marginals.labels.sites import (
    MAX_STATES,
    MOST_SHARED,
    Site,
    cannot,
    find_sites,
    joined,
)

FEWEST_STEPS = 2
"""Parameters that follow each other of which pairs of states are as many as joint states."""
MAX_TABLE = 200_000
"""Most joint states times factors where each has a density of its own: what one particle costs."""


class Plan(NamedTuple):
    """How the discrete parameters of a model are summed out.

    Attributes:
        sites: The parameters, in the order in which they are summed out.
        elimination: The way in which they are summed out of a table of factors.
        factors: Random nodes whose log-densities depend on them, the response first.
        dependent: Nodes whose values depend on them.
        row_unit: Final unit of each row of the response `[rows]`.
    """

    sites: tuple[Site, ...]
    elimination: Elimination
    factors: tuple[int, ...]
    dependent: frozenset[int]
    row_unit: NDArray[np.int64]

    @property
    def independent_rows(self) -> bool:
        """Whether rows of the response are independent given the other parameters."""
        return len(np.unique(self.row_unit)) == len(self.row_unit)


def make_plan(
    graph: ModelGraph,
    shapes: Sequence[tuple[int, ...]],
    constants: Sequence[torch.Tensor | None],
    most_counted: int,
) -> Plan | None:
    """How to sum a model's discrete parameters out; `None` if it has none.

    Elements of one parameter are summed side by side where every row of the response (and every prior that
    they enter) depends on one of them at most, jointly otherwise. Parameters that follow each other are
    summed out step by step.

    Args:
        graph: The model graph.
        shapes: Shape of every node.
        constants: Value of every node that depends on no random node.
        most_counted: Largest value of a parameter without a largest value, see `labels.counts`.

    Raises:
        ProgramFailure: `UNSUPPORTED` for discrete parameters whose values are not known beforehand, or couple
            more than `MOST_SHARED` joint states.
    """
    sites = find_sites(graph, shapes, constants, most_counted)
    if not sites:
        return None
    if composites.distribution_of(graph.nodes[graph.response].attributes).event_rank:
        site = sites[0]
        cannot(site.name, _law(graph, site), "enters a response whose rows follow one multivariate law")
    known = {i: c.numpy() for i, c in enumerate(constants) if c is not None and c.dtype is torch.int64}
    while True:
        values = [propagate(graph, shapes, known, site.node, site.units) for site in sites]
        dependent = frozenset(i for found in values for i, part in enumerate(found) if part is not None)
        factors = _factors(graph, sites, dependent)
        table = _dependences(graph, shapes, sites, values, factors)
        chain = find_chain(sites, table) if len(sites) > FEWEST_STEPS else None
        if chain is not None:
            own = chain.elimination.unit[: shapes[graph.response][0]].numpy()
            return Plan(chain.sites, chain.elimination, factors, dependent, own)
        # one unit couples everything: whether a factor depends on it makes no difference
        table = np.where([[site.separate] for site in sites], table, 0)
        order = sorted(range(len(sites)), key=lambda i: (-sites[i].num_units, i))
        result = _levels([sites[i] for i in order], table[order])
        if isinstance(result, tuple):
            levels, row_unit = result
            break
        site = sites[order[result]]
        joint = joined(site) if site.separate else None
        if joint is None:
            states = f"{site.num_states}^{site.values.shape[1]}"
            cannot(
                site.name, _law(graph, site), f"couples rows: {states} joint states, more than {MOST_SHARED}"
            )
        sites[order[result]] = joint
    ordered = tuple(sites[i] for i in order)
    _check_count(ordered, "joint states", math.prod(site.num_states for site in ordered), MOST_SHARED)
    rows = shapes[graph.response][0]
    return Plan(ordered, ByLevels(tuple(levels)), factors, dependent, row_unit[:rows])


def _law(graph: ModelGraph, site: Site) -> str:
    return composites.distribution_of(graph.nodes[site.node].attributes).name


def _factors(graph: ModelGraph, sites: Sequence[Site], dependent: frozenset[int]) -> tuple[int, ...]:
    own = {site.node for site in sites}
    others = [
        index
        for index, node in enumerate(graph.nodes)
        if node.op == "random"
        and index != graph.response
        and (index in own or any(i in dependent for i in node.inputs))
    ]
    return (graph.response, *others)


def _dependences(
    graph: ModelGraph,
    shapes: Sequence[tuple[int, ...]],
    sites: Sequence[Site],
    values: Sequence[Sequence[Dependence | None]],
    factors: Sequence[int],
) -> NDArray[np.int64]:
    """Dependence of every element of every factor on every parameter `[parameters, elements]`."""
    rows = []
    for site, found in zip(sites, values, strict=True):
        parts = []
        for index in factors:
            node = graph.nodes[index]
            entry = composites.distribution_of(node.attributes)
            batch = shapes[index][: len(shapes[index]) - entry.event_rank]
            part = of_factor([found[i] for i in node.inputs], entry.ranks, batch)
            if index == site.node:
                part = site.units
            parts.append(np.full(math.prod(batch), NONE) if part is None else part.reshape(-1))
        rows.append(np.concatenate(parts))
    return np.stack(rows)


def _levels(sites: Sequence[Site], table: NDArray[np.int64]) -> tuple[list[Level], NDArray[np.int64]] | int:
    """Levels and the final unit of every element, or the position of a parameter that must go jointly."""
    levels = []
    unit = np.arange(table.shape[1])
    for position, site in enumerate(sites):
        own = table[position]
        if (own == MANY).any():
            return position
        alone = own == NONE
        parent = np.where(alone, site.num_units + np.cumsum(alone) - 1, own)
        groups = site.num_units + int(alone.sum())
        identity = groups == len(parent) and bool((parent == np.arange(groups)).all())
        levels.append(Level(torch.from_numpy(parent), groups, site.num_units, identity))
        table = _grouped(table, parent, groups)
        unit = parent[unit]
    return levels, unit


def _grouped(table: NDArray[np.int64], parent: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Dependence of units, from that of their elements."""
    order = np.argsort(parent, kind="stable")
    present, starts = np.unique(parent[order], return_index=True)
    result = np.full((len(table), groups), NONE)
    sorted_table = table[:, order]
    many = np.logical_or.reduceat(sorted_table == MANY, starts, axis=1)
    high = np.maximum.reduceat(sorted_table, starts, axis=1)
    largest = np.iinfo(np.int64).max
    low = np.minimum.reduceat(np.where(sorted_table < 0, largest, sorted_table), starts, axis=1)
    several = many | ((high >= 0) & (high != low))
    result[:, present] = np.where(several, MANY, np.maximum(high, NONE))
    return result


def check_size(plan: Plan, elements: int) -> None:
    """Refuses what would take too long state by state.

    Args:
        plan: What is summed in which order.
        elements: Log-densities of one state.

    Raises:
        ProgramFailure: `UNSUPPORTED`, with the number of states.
    """
    states = math.prod(plan.elimination.counts(plan.sites))
    _check_count(plan.sites, "joint states", states, MAX_STATES)
    _check_count(plan.sites, "joint states times rows", states * elements, MAX_TABLE)


def _check_count(sites: Sequence[Site], what: str, count: int, most: int) -> None:
    if count > most:
        names = ", ".join(f"{site.name} ({site.num_states})" for site in sites[:6])
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"discrete latents that cannot be summed out: {names} have {count} {what}, more than {most}",
        )
