"""Which of a model's random variables is which, told by their roles alone (colour refinement).

Two `Normal(0, 1)` priors, one an intercept and one a slope, are told apart by who reads them, never by name
or position in the source. Each round gives a random node the colour of what it is made of (a Merkle hash of
its parameters) and of how it is read: the sum over all paths to readers of the product of the edges' hashes
in a prime field. A sum over paths does not change when two readers share a common expression or spell it
twice, so roles do not depend on whether two constants happen to be equal.

Weisfeiler and Leman (1968), as refinement with individualisation (McKay and Piperno, 2014,
"Practical graph isomorphism, II"), but following one branch only: on ties that refinement cannot break but
that are no symmetry, equal models may get different orders. They are then scored twice; nothing else follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import pairwise

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.programs.shapes import Shape

_PRIME = 2**255 - 19


def digest(*parts: object) -> str:
    """A stable hash of strings, numbers and tuples of them."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def node_label(node: Node, shape: Shape, dtype: str, *, values: bool) -> str:
    """What a node is apart from its inputs and its name; without `values` a constant shows only its type."""
    attributes = dict(node.attributes)
    if node.op == "random":
        del attributes["name"]
    if node.op == "constant" and not values:
        del attributes["value"]
    return json.dumps([node.op, shape, dtype, sorted(attributes.items())])


def is_commutative(node: Node) -> bool:
    """Whether the order of a node's inputs does not matter."""
    return node.op in OPERATIONS and OPERATIONS[node.op].commutative


def merkle(graph: ModelGraph, labels: list[str], ranks: Mapping[int, int]) -> list[str]:
    """A hash per node of the whole expression below it.

    Random nodes count as leaves, told apart by `ranks`, when they are read.

    Args:
        graph: Nodes in topological order.
        labels: One per node, from `node_label`.
        ranks: Rank of every random node.

    Returns:
        One hash per node; for a random node that of its definition, not of its rank.
    """
    hashes: list[str] = []
    for index, node in enumerate(graph.nodes):
        below = [f"rank {ranks[i]}" if graph.nodes[i].op == "random" else hashes[i] for i in node.inputs]
        hashes.append(digest(labels[index], sorted(below) if is_commutative(node) else below))
    return hashes


def rank_random_nodes(graph: ModelGraph, structure: list[str], full: list[str]) -> dict[int, int]:
    """A rank per random node that depends on the model only, not on the order or names of its nodes.

    Roles that differ in structure decide first; constants decide among nodes of equal structural role; a
    tie that is left is a symmetry of the model and any choice gives the same result.

    Args:
        graph: A simplified graph (`programs.simplify`).
        structure: A label per node, from `node_label` without `values`.
        full: The colours with `values`.

    Returns:
        Random node index to rank 0, 1, ...; all distinct.
    """
    random = [index for index, node in enumerate(graph.nodes) if node.op == "random"]
    ranks = dict.fromkeys(random, 0)
    for labels in (structure, full):
        ranks = _refine(graph, labels, ranks)
    while len(set(ranks.values())) < len(random):
        members = sorted(random, key=ranks.__getitem__)
        chosen = next(a for a, b in pairwise(members) if ranks[a] == ranks[b])
        split = {index: (rank, 0 if index == chosen else 1) for index, rank in ranks.items()}
        ranks = _refine(graph, full, _compress(split))
    return ranks


def _refine(graph: ModelGraph, labels: list[str], ranks: dict[int, int]) -> dict[int, int]:
    """Split classes of equal rank by their roles until no round splits any."""
    while True:
        finer = _compress(
            {index: (ranks[index], role) for index, role in _roles(graph, labels, ranks).items()}
        )
        if len(set(finer.values())) == len(set(ranks.values())):
            return finer
        ranks = finer


def _roles(graph: ModelGraph, labels: list[str], ranks: dict[int, int]) -> dict[int, str]:
    """One hash per random node: its definition and the sum over paths to its readers."""
    hashes = merkle(graph, labels, ranks)
    read = [0] * len(graph.nodes)
    roles = {}
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        onward = read[index]
        if node.op == "random":
            roles[index] = digest(hashes[index], onward, index == graph.response)
            onward = 1
        own = (hashes[index], ranks.get(index))
        weights: dict[object, int] = {}
        for position, source in enumerate(node.inputs):
            slot = None if is_commutative(node) else position
            if slot not in weights:
                weights[slot] = int(digest(own, slot), 16) % _PRIME
            read[source] = (read[source] + weights[slot] * onward) % _PRIME
    return roles


def _compress(keys: Mapping[int, tuple[object, ...]]) -> dict[int, int]:
    order = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    return {index: order[key] for index, key in keys.items()}
