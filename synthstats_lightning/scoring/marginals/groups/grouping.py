"""Which latents a group quadrature can take: each row of the response reads at most one of their elements."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.programs import composites
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.labels.dependence import MANY, NONE, of_factor, propagate
from synthstats_lightning.scoring.numerics.picks import pick_last
from synthstats_lightning.scoring.numerics.sums import sum_last


class Grouping(NamedTuple):
    """A latent of conditionally independent elements, and the rows that read each.

    Attributes:
        parameter: The latent, as the model lays it out.
        element: The element that each row reads, `NONE` where it reads none `[rows]`.
        dependent: Nodes whose values depend on the latent, itself included.
    """

    parameter: Parameter
    element: Int[Tensor, " rows"]
    dependent: frozenset[int]

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.parameter.size


def find_groupings(compiled: Compiled) -> list[Grouping]:
    """Latents that can be integrated out element by element, those of most elements first.

    Given all other parameters such a latent's elements are independent in the prior, nothing but the response
    depends on them, and each row depends on one of them at most. A dependence that cannot be excluded counts
    as one.

    Args:
        compiled: The model, compiled.
    """
    response = compiled.graph.nodes[compiled.graph.response]
    entry = composites.distribution_of(response.attributes)
    if compiled.labels is not None or entry.event_rank:
        return []
    constants = compiled.constants
    known = {i: c.numpy() for i, c in enumerate(constants) if c is not None and c.dtype is torch.int64}
    found = []
    for parameter in compiled.parameters:
        if parameter.size < 2 or not independent_scalars(parameter):
            continue
        units = np.arange(parameter.size).reshape(parameter.shape)
        values = propagate(compiled.graph, compiled.shapes, known, parameter.node, units)
        dependent = frozenset(i for i, part in enumerate(values) if part is not None)
        if another_reads(compiled, dependent):
            continue
        rows = of_factor(
            [values[i] for i in response.inputs], entry.ranks, compiled.shapes[compiled.graph.response]
        )
        if rows is None or bool((rows == MANY).any()) or bool((rows == NONE).all()):
            continue
        element = torch.from_numpy(np.array(rows.reshape(-1), dtype=np.int64))
        found.append(Grouping(parameter, element, dependent))
    return sorted(found, key=lambda each: (-each.size, each.parameter.node))


def independent_scalars(parameter: Parameter) -> bool:
    """Whether a latent's entries are independent draws of a density on a line.

    Args:
        parameter: The latent, as the model lays it out.
    """
    distribution = parameter.distribution
    plain = distribution.coordinates is None and not distribution.event_rank
    return plain and distribution.support is not Support.MIXED and parameter.anchor is None


def another_reads(compiled: Compiled, dependent: frozenset[int]) -> bool:
    """Whether any latent's prior depends on some nodes.

    Args:
        compiled: The model, compiled.
        dependent: Nodes whose values depend on the latents.
    """
    return any(
        node.op == "random" and index != compiled.graph.response and not dependent.isdisjoint(node.inputs)
        for index, node in enumerate(compiled.graph.nodes)
    )


class RowGroups(NamedTuple):
    """Rows of the response by element, so that they are summed without a loop.

    Attributes:
        element: Element of each row, 0 where it reads none `[rows]`.
        alone: Rows that read none `[rows]`.
        table: Rows of each element, padded with the number of rows `[elements, largest]`.
        rank: Position of each row among those of its element `[rows]`.
        regular: Whether rows are in the order of elements, as many of each.
    """

    element: Int[Tensor, " rows"]
    alone: Bool[Tensor, " rows"]
    table: Int[Tensor, "elements largest"]
    rank: Int[Tensor, " rows"]
    regular: bool

    @property
    def shared(self) -> bool:
        """Whether two rows read one element."""
        return self.table.shape[1] > 1


def row_groups(element: Int[Tensor, " rows"], size: int) -> RowGroups:
    """Rows by element.

    Args:
        element: The element that each row reads, `NONE` where it reads none.
        size: Number of elements.
    """
    rows = len(element)
    alone = element == NONE
    counts = torch.bincount(element[~alone], minlength=size)
    table = torch.full((size, max(int(counts.max()), 1)), rows, dtype=torch.int64)
    rank = torch.zeros(rows, dtype=torch.int64)
    filled = [0] * size
    for row, unit in enumerate(element.tolist()):
        if unit == NONE:
            continue
        rank[row] = filled[unit]
        table[unit, filled[unit]] = row
        filled[unit] += 1
    regular = table.numel() == rows and bool((table.reshape(-1) == torch.arange(rows)).all())
    return RowGroups(torch.where(alone, 0, element), alone, table, rank, regular)


def summed(values: Tensor, groups: RowGroups) -> Tensor:
    """Sums of rows within each element, `[..., rows]` to `[..., elements]`; rows that read none are left out.

    Args:
        values: One number a row.
        groups: Rows by element.
    """
    size, largest = groups.table.shape
    if groups.regular:
        return sum_last(values.reshape(*values.shape[:-1], size, largest)) if largest > 1 else values
    kept = torch.where(groups.alone, 0.0, values) if bool(groups.alone.any()) else values
    zeros = values.new_zeros(math.prod(values.shape[:-1]), size)
    flat = kept.reshape(-1, values.shape[-1])
    return zeros.index_add(-1, groups.element, flat).reshape(*values.shape[:-1], size)


def spread(values: Tensor, groups: RowGroups) -> Tensor:
    """Each row's element's number, `[..., elements]` to `[..., rows]`; any for rows that read none.

    Args:
        values: One number an element.
        groups: Rows by element.
    """
    if groups.regular:
        largest = groups.table.shape[1]
        return values[..., None].expand(*values.shape, largest).flatten(-2)
    return pick_last(values, groups.element)


Given = Bool[Tensor, " rows"] | Float[Tensor, " rows"]
"""Which rows count, or how many times each does."""


def counted(values: Float[Tensor, "*batch rows"], given: Given) -> Float[Tensor, "*batch rows"]:
    """Log-likelihoods of rows as often as they count, 0 for those that do not.

    Args:
        values: One number a row.
        given: Which rows count, or how many times each does.
    """
    if given.dtype is torch.bool:
        return values if bool(given.all()) else torch.where(given, values, 0.0)
    times = values * given
    return times if bool(given.all()) else torch.where(given > 0, times, 0.0)
