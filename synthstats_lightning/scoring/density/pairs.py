"""Matrices of pairs of rows, evaluated once for each pair that differs from all others.

A covariance function's matrix is symmetric, and of rows at equal distances it has as many different entries
as there are distances. What is elementwise between constant matrices and numbers is therefore evaluated for
one of each set of equal entries, and spread where something reads the matrix as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.structural import Shape, pad
from synthstats_lightning.scoring.numerics.picks import pick_last

FEWEST_ROWS = 8
"""Rows from which on it is worth the trouble."""
FEWEST_NODES = 3
WORTH = 0.7
"""Largest share of the entries that may differ."""
BITS = 44
"""Significant binary digits, of each entry's own, to which entries of one pair and another are equal."""

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Pairs:
    """Nodes that are evaluated for some entries of a matrix only.

    Attributes:
        members: The nodes that are evaluated so.
        roots: Those that something else reads, as whole matrices.
        shapes: Shape of every node of the graph, that of members by entries.
        constants: Constants of the graph, those that members read by entries.
        entry: Which of the evaluated entries stands at each place of the matrix, flat.
        first: Where each of the evaluated entries stands first.
    """

    members: frozenset[int]
    roots: frozenset[int]
    shapes: tuple[Shape, ...]
    constants: tuple[Tensor | None, ...]
    entry: Tensor
    first: Tensor

    def node(self, node: Node) -> Node:
        """A member's operation by entries: what only turns the matrix does nothing.

        Args:
            node: A member of the graph.
        """
        if node.op == "sum":
            return Node("sum", node.inputs, {"axis": [1]})
        return node if OPERATIONS[node.op].elementwise else Node("reshape", node.inputs, {"shape": [-1]})

    def spread(self, function: Function, shape: Shape, rank: int) -> Function:
        """A root's function with its result as a matrix.

        Args:
            function: Gives the entries.
            shape: Shape of the matrix.
            rank: Axes of every padded value after the particle axis.
        """
        entry, padded = self.entry, pad(shape, rank)

        def whole(*inputs: Tensor) -> Tensor:
            found = function(*inputs)
            return pick_last(found.flatten(1), entry).reshape(len(found), *padded)

        return whole

    def gathered(self, function: Function, inputs: Sequence[int]) -> Function:
        """A member's function where some of what it reads is there as a matrix already.

        Args:
            function: What takes entries and gives entries.
            inputs: Nodes of its inputs that depend on parameters.
        """
        whole = [i in self.roots for i in inputs]
        if not any(whole):
            return function
        first = self.first

        def entries(*values: Tensor) -> Tensor:
            found = zip(values, whole, strict=True)
            return function(*(pick_last(x.flatten(1), first)[:, None] if w else x for x, w in found))

        return entries


def find_pairs(
    graph: ModelGraph, shapes: Sequence[Shape], constants: Sequence[Tensor | None]
) -> Pairs | None:
    """The elementwise part of a response's covariance; `None` where there is none worth it.

    Args:
        graph: A model graph whose response is one draw of a multivariate distribution.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
    """
    rows = shapes[graph.response][-1]
    if rows < FEWEST_ROWS:
        return None
    square = [s[:2] == (rows, rows) and len(s) <= 3 for s in shapes]
    members: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if constants[index] is not None or node.op == "random" or not square[index]:
            continue
        if _fits(graph, index, members, shapes, constants, square):
            members.add(index)
    # what is made of numbers alone is no matrix of pairs
    used = {i for index in members for i in graph.nodes[index].inputs if constants[i] is not None}
    matrices = [i for i in used if square[i]]
    if len(members) < FEWEST_NODES or not matrices:
        return None
    columns = [np.asarray(constants[i], dtype=np.float64).reshape(rows**2, -1) for i in matrices]
    first, entry = _different(np.concatenate(columns, 1))
    if len(first) > WORTH * len(entry):
        return None
    read = {i for index, node in enumerate(graph.nodes) if index not in members for i in node.inputs}
    roots = members & (read | set(graph.deterministics.values()))
    by_entry, chosen = list(constants), torch.from_numpy(first)
    for i in used:
        by_entry[i] = _by_entry(constants[i], chosen, square[i])
    of_entries = {*members, *matrices}
    return Pairs(
        frozenset(members),
        frozenset(roots),
        tuple((len(first), *s[2:]) if i in of_entries else _number(s) for i, s in enumerate(shapes)),
        tuple(by_entry),
        torch.from_numpy(entry),
        chosen,
    )


def _fits(
    graph: ModelGraph,
    index: int,
    members: set[int],
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    square: Sequence[bool],
) -> bool:
    """Whether a node's entries are made of the same entries of others, and of numbers."""
    node, shape = graph.nodes[index], shapes[index]
    matrices = [i for i in node.inputs if i in members or (constants[i] is not None and square[i])]
    for i in node.inputs:
        single = constants[i] is not None and int(np.prod(shapes[i])) == 1
        column = len(shape) == 3 and shapes[i] in (shape[2:], (1, *shape[2:])) and constants[i] is None
        if i not in matrices and not single and shapes[i] != () and not column:
            return False
    if node.op == "sum":
        return len(shapes[node.inputs[0]]) == 3 and list(node.attributes["axis"]) == [2]
    if node.op == "reshape":
        return len(shape) == 2
    # of different ranks a row of one would meet a column of the other
    ranks = {len(shapes[i]) for i in matrices}
    return OPERATIONS[node.op].elementwise and ranks == {len(shape)}


def _by_entry(constant: Tensor | None, chosen: Tensor, is_matrix: bool) -> Tensor | None:
    if constant is None:
        return None
    if not is_matrix:
        return constant.reshape(())
    return constant.reshape(constant.shape[0] ** 2, *constant.shape[2:])[chosen]


def _number(shape: Shape) -> Shape:
    return () if int(np.prod(shape)) == 1 else shape


def _different(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of rows that differ from each other, and for every row which of them it is."""
    fraction, exponent = np.frexp(entries)
    rounded = np.concatenate([np.round(np.ldexp(fraction, BITS)), exponent], 1)
    _, first, entry = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return first, entry.reshape(-1)
