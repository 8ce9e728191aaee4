"""A model graph by the groups that differ: the integral over a latent's element once for all of its copies.

People who gave the same answers to the same questions, sites that were visited as often with the same
findings: their rows are the same functions of the parameters and of an element that has the same prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.equal_rows import (
    WORTH,
    Along,
    Kind,
    axes_of,
    different,
    in_part,
)
from synthstats_lightning.scoring.density.structural import Shape

FEWEST_GROUPS = 24
"""Elements of a latent from which on it is worth the trouble."""
MOST_NUMBERS = 4_000_000
"""Rows of the largest group for each of the groups, at most."""


class EqualGroups(NamedTuple):
    """The same model on one of each set of equal groups, each with one of each set of its equal rows.

    Attributes:
        graph: Of as many nodes as the whole model's, the latent with fewer elements.
        covariates: Its constants under the numbers of their nodes, at the chosen rows and elements.
        axes: Of nodes of fewer entries than in the whole model, the axis and what runs along it.
        response: The response's values there `[chosen]`.
        first_row: The chosen rows `[chosen]`.
        first_group: The chosen groups `[kinds]`.
        copies: How often each chosen row is in its group `[chosen]`.
        row: Of each row, which chosen one it is a copy of `[rows]`.
        kind: Of each group, which chosen one it is a copy of `[groups]`.
    """

    graph: ModelGraph
    covariates: Mapping[str, NDArray[Any]]
    axes: Mapping[int, Along]
    response: NDArray[np.float64]
    first_row: Int[Tensor, " chosen"]
    first_group: Int[Tensor, " kinds"]
    copies: Float[Tensor, " chosen"]
    row: Int[Tensor, " rows"]
    kind: Int[Tensor, " groups"]


class Readings(NamedTuple):
    """What rows and elements read of a model's constants.

    Attributes:
        axes: Of each node that rows or elements read, what runs along which axis, as `axes_of` has it.
        along: The axes that there are.
        held: Values of the constants among their nodes.
        rows: Those that run along rows, one a matrix `[rows, numbers]`.
        own: Those that run along the latent's elements, likewise.
    """

    axes: Mapping[int, Along | None]
    along: dict[int, Along]
    held: dict[int, NDArray[Any]]
    rows: list[NDArray[Any]]
    own: list[NDArray[Any]]


def readings_of(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    count: int,
    latent: int,
    moved: frozenset[int],
    element: NDArray[np.int64],
) -> Readings | None:
    """What tells a latent's elements, and the rows that read them, apart; `None` where that is not known.

    Args:
        graph: The model graph, without discrete parameters.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
        count: Number of rows.
        latent: Node of the latent whose elements the rows read.
        moved: Nodes whose values depend on it.
        element: The element that each row reads, negative for none `[rows]`.
    """
    groups, *rest = shapes[latent] or (1,)
    if groups < FEWEST_GROUPS or rest or len(shapes[graph.response]) != 1 or bool((element < 0).any()):
        return None
    axes = axes_of(graph, shapes, constants, latent, moved)
    if axes is None:
        return None
    along = {i: need for i, need in axes.items() if need is not None}
    if along[latent].kind is Kind.ROWS and not np.array_equal(element, np.arange(count)):
        return None
    held = {i: np.asarray(constants[i]) for i in along if constants[i] is not None}
    rows, own = (
        [np.moveaxis(x, along[i].axis, 0).reshape(n, -1) for i, x in held.items() if along[i].kind is kind]
        for kind, n in ((Kind.ROWS, count), (Kind.ELEMENTS, groups))
    )
    return Readings(axes, along, held, rows, own)


def find_equal_groups(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    response: NDArray[np.float64],
    latent: int,
    moved: frozenset[int],
    element: NDArray[np.int64],
) -> EqualGroups | None:
    """The model by the groups that differ; `None` where that cannot be known, or is not worth it.

    Args:
        graph: The model graph, without discrete parameters.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
        response: Observed values `[rows]`.
        latent: Node of the latent whose elements the groups have.
        moved: Nodes whose values depend on it.
        element: The element that each row reads, negative for none `[rows]`.
    """
    found = readings_of(graph, shapes, constants, len(response), latent, moved, element)
    if found is None:
        return None
    axes, along, held, rows, own = found
    groups, count = shapes[latent][0], len(response)
    if any(need.kind is Kind.PLACES and i not in held for i, need in along.items()):
        return None
    answers = different([response[:, None], *rows])
    sizes = np.bincount(element, minlength=groups)
    if answers is None or groups * int(sizes.max()) > MOST_NUMBERS:
        return None
    order = np.lexsort((answers[1], element))
    table = np.full((groups, int(sizes.max())), -1)
    table[element[order], np.arange(count) - (np.cumsum(sizes) - sizes)[element[order]]] = answers[1][order]
    kinds = different([table, *own])
    if kinds is None or len(kinds[0]) > WORTH * groups:
        return None
    first_group, kind = kinds
    key = kind[element] * (int(answers[1].max()) + 1) + answers[1]
    chosen = np.isin(element, first_group).nonzero()[0]
    keys, first, copies = np.unique(key[chosen], return_index=True, return_counts=True)
    first_row = chosen[first]
    kept = {Kind.ROWS: first_row, Kind.PLACES: first_row, Kind.ELEMENTS: first_group}
    smaller, named = in_part(graph, constants, axes, kept, kind)
    return EqualGroups(
        smaller,
        named,
        along,
        response[first_row],
        *map(torch.from_numpy, (first_row, first_group, copies.astype(np.float64))),
        *map(torch.from_numpy, (np.searchsorted(keys, key), kind)),
    )
