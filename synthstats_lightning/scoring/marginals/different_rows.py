"""A compiled model on one of each set of equal rows, where that saves work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.scoring.density.equal_rows import find_equal_rows
from synthstats_lightning.scoring.density.standardise import Anchor
from synthstats_lightning.scoring.density.structural import Shape, pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, compile_graph
from synthstats_lightning.scoring.numerics.picks import pick_last


class DifferentRows(NamedTuple):
    """The rows of a response that differ from each other in what a model reads of them.

    Attributes:
        compiled: The same model with these rows for its response; parameters are at the same nodes.
        axes: Of nodes that it has fewer entries of, the axis of rows.
        first: One row of the whole response for each of them `[different]`.
        row: Of each row of the whole response, which of them it is a copy of `[rows]`.
    """

    compiled: Compiled
    axes: Mapping[int, int]
    first: Int[Tensor, " different"]
    row: Int[Tensor, " rows"]

    @property
    def number(self) -> int:
        """How many there are."""
        return self.compiled.num_observations

    def copies(self, given: Tensor) -> Float[Tensor, " different"]:
        """How many of each are among some rows.

        Args:
            given: Which rows count, as booleans, or how often each does `[rows]`.
        """
        return torch.zeros(self.number, dtype=torch.float64).index_add(0, self.row, given.to(torch.float64))

    def spread(self, values: Float[Tensor, "*batch different"]) -> Float[Tensor, "*batch rows"]:
        """What each row has as a copy.

        Args:
            values: One number for each row that differs.
        """
        return pick_last(values, self.row)

    def value(self, node: int, value: Tensor, shape: Shape) -> Tensor:
        """A node's value in this model.

        Args:
            node: One of the graph's nodes, by its index.
            value: Its value in the whole model, a particle an entry of the first axis.
            shape: Its shape there.
        """
        if node not in self.axes:
            return value
        found = torch.index_select(value.reshape(len(value), *shape), 1 + self.axes[node], self.first)
        return found.reshape(len(value), *pad(tuple(found.shape[1:]), self.compiled.rank))


def different_rows(
    compiled: Compiled,
    response: NDArray[Any],
    anchors: Mapping[int, Anchor],
    rounding: float | None,
) -> DifferentRows | None:
    """The rows that differ; `None` where most do, or which are equal cannot be known.

    Args:
        compiled: The whole model.
        response: Observed values `[rows]`.
        anchors: Nodes of parameters that are standardised given their hyperparameters.
        rounding: Spacing of the values that the response was recorded to, `None` for exact values.
    """
    if compiled.labels is not None or compiled.response_term.distribution.event_rank:
        return None
    found = find_equal_rows(compiled.graph, compiled.shapes, compiled.constants, response)
    if found is None:
        return None
    chosen = response[found.first]
    smaller = compile_graph(found.graph, found.covariates, chosen, anchors, rounding, compiled.rank)
    return DifferentRows(smaller, found.axes, torch.from_numpy(found.first), found.row)
