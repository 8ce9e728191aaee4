"""The structure of a model as a tree, and how far two structures are apart."""

from __future__ import annotations

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.edit_distance import Tree, edit_distance, normalised_edit_distance
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import read_law

MAX_NODES = 300
"""Most nodes of a tree; what is beyond is one leaf. Real models have a tenth of it."""
MAX_DEPTH = 60
"""Most nodes on top of each other."""
CONSTANT = "constant"
"""Label of every constant: a structure has no values."""
ELSEWHERE = "…"
"""Label of what a tree has no room for."""

# Attributes of a random node that are no part of its structure.
_NAMES = frozenset({"name", "distribution", "components", "bounds"})


def structure_tree(graph: ModelGraph) -> Tree:
    """A model as a tree without the values of its constants.

    Below the root stand the response and then the parameters, each with the expressions of its own
    parameters; where an expression reads a parameter there is a leaf that names its distribution. Models of
    equal `structure_hash` have equal trees.

    Args:
        graph: The graph, from `programs.validation.parse_graph` or canonical.
    """
    canonical = canonicalise(graph)
    builder = _Builder(canonical)
    parameters = [index for index, node in enumerate(canonical.nodes) if node.op == "random"]
    parameters.sort(key=lambda index: (index != canonical.response, index))
    return Tree("model", tuple(builder.definition(index) for index in parameters))


def structure_distance(first: ModelGraph, second: ModelGraph, *, normalised: bool = False) -> float:
    """How many edits of one node make one model's structure the other's.

    Args:
        first: One of the two models.
        second: The other of the two.
        normalised: Whether to give it on a scale from 0 (equal) to 1.
    """
    measure = normalised_edit_distance if normalised else edit_distance
    return float(measure(structure_tree(first), structure_tree(second)))


class _Builder:
    def __init__(self, graph: ModelGraph) -> None:
        self.graph = graph
        self.left = MAX_NODES

    def definition(self, index: int) -> Tree:
        """A random node with its parameters."""
        self.left -= 1
        return Tree(self._label(index), tuple(self._read(i, 2) for i in self.graph.nodes[index].inputs))

    def _read(self, index: int, depth: int) -> Tree:
        node = self.graph.nodes[index]
        if self.left <= 0 or depth >= MAX_DEPTH:
            return Tree(ELSEWHERE)
        self.left -= 1
        if node.op == "random":
            return Tree(f"read {read_law(node.attributes).text()}")
        return Tree(self._label(index), tuple(self._read(i, depth + 1) for i in node.inputs))

    def _label(self, index: int) -> str:
        node = self.graph.nodes[index]
        shape = self.graph.shapes[index]
        if node.op == "constant":
            return CONSTANT if not shape else f"{CONSTANT} {shape}"
        if node.op == "random":
            own = "" if index == self.graph.response or not shape else f" {shape}"
            return f"{read_law(node.attributes).text()}{own}"
        return f"{node.op}{_attributes(node)}"


def _attributes(node: Node) -> str:
    shown = [f" {key}={value}" for key, value in sorted(node.attributes.items()) if key not in _NAMES]
    name = node.attributes.get("name")
    return (f" {name}" if node.op == "covariate" else "") + "".join(shown)
