"""A model graph in the making, of another one some of whose nodes are written differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.structural import Shape


class Rewriting:
    """A graph in the making.

    Args:
        graph: The model graph that it is made of.
        shapes: Shape of every node of that.

    Attributes:
        graph: The model graph that it is made of.
        old_shapes: Shape of every node of that.
        nodes: Its own nodes so far.
        shapes: Shapes of its own nodes so far.
        place: Node of the other graph to the one that has its value here.
        derived: Name of a parameter that has become a derived quantity to the node of that.
    """

    def __init__(self, graph: ModelGraph, shapes: Sequence[Shape]) -> None:
        self.graph = graph
        self.old_shapes = shapes
        self.nodes: list[Node] = []
        self.shapes: list[Shape] = []
        self.place: dict[int, int] = {}
        self.derived: dict[str, int] = {}

    def keep(self, index: int, node: Node) -> None:
        """Takes a node as it is."""
        inputs = tuple(self.place[i] for i in node.inputs)
        self.place[index] = self.add(replace(node, inputs=inputs), self.old_shapes[index])

    def finished(self) -> ModelGraph:
        """The graph."""
        graph, inferred = self.graph, bool(self.graph.dtypes)
        dtypes = ["int64" if n.attributes.get("dtype") == "int64" else "float64" for n in self.nodes]
        for index, dtype in enumerate(graph.dtypes):
            dtypes[self.place[index]] = dtype
        derived = {name: self.place[index] for name, index in graph.deterministics.items()}
        return replace(
            graph,
            nodes=tuple(self.nodes),
            response=self.place[graph.response],
            deterministics=derived | self.derived,
            # where validation has not run they are inferred later
            shapes=tuple(self.shapes) if inferred else (),
            dtypes=tuple(dtypes) if inferred else (),
        )

    def constant(self, value: Any, shape: Shape) -> int:
        """Adds whole numbers.

        Args:
            value: One number, or lists of them.
            shape: The shape that they have.
        """
        return self.add(Node("constant", (), {"value": value, "dtype": "int64"}), shape)

    def op(self, op: str, *inputs: int) -> int:
        """Adds an elementwise operation.

        Args:
            op: The operation's name.
            *inputs: Nodes of this graph that it reads.
        """
        shape = np.broadcast_shapes(*(self.shapes[i] for i in inputs))
        return self.add(Node(op, inputs), shape)

    def add(self, node: Node, shape: Shape) -> int:
        """Adds any node and tells its place.

        Args:
            node: One that reads nodes of this graph.
            shape: The shape of its value.
        """
        self.nodes.append(node)
        self.shapes.append(shape)
        return len(self.nodes) - 1
