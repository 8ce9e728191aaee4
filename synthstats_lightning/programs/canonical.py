"""One spelling per model: equal models share a canonical form, equal structures a structure hash.

Stable across processes and platforms (SHA-256 of JSON, no `hash()`), and across versions of the package with
the same graph format, unless the changelog says otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.programs.colours import (
    digest,
    is_commutative,
    merkle,
    node_label,
    rank_random_nodes,
)
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.simplify import simplify

HASH_LENGTH = 32
"""Hexadecimal digits of a hash."""
RESPONSE_NAME = "response"
"""Name of the response's random node in a canonical graph."""

# Order among the inputs of a sum or product, for reading: parameters, expressions, covariates, constants.
_KINDS = {"random": 0, "covariate": 2, "constant": 3}


def canonicalise(graph: ModelGraph) -> ModelGraph:
    """The canonical spelling of a model.

    Renaming variables, reordering statements, commuting or re-associating sums and products, naming an
    expression or repeating it, folding constants, and nodes that the response does not depend on make no
    difference. Two spellings of the same function (`a - b` and `a + (-b)`) do.

    Args:
        graph: The graph, from `programs.validation.parse_graph` or canonical already (the result is then
            equal to it).

    Returns:
        A graph with latents named v0, v1, ... in the order in which the response's expression meets
        them, the response last and named `RESPONSE_NAME`, shapes and dtypes filled, and no
        deterministics: their names are the author's, and they are read from the graph that validation
        returned. An expression of constants that has no finite value stays unfolded.

    Raises:
        ValueError: If `graph` has no shapes or dtypes.
    """
    if graph.is_canonical:
        return graph
    if not len(graph.shapes) == len(graph.dtypes) == len(graph.nodes):
        raise ValueError("graph.shapes and graph.dtypes are not filled: pass a graph from parse_graph")
    return _ordered(simplify(graph))


class CanonicalModel(NamedTuple):
    """Everything by which models are told apart, from one canonicalisation.

    Attributes:
        graph: The canonical graph.
        form: It as one line of JSON.
        hash: The hash of the form: equal for equal models, whatever their spelling.
        structure: Hash of the model without the values of its constants.
    """

    graph: ModelGraph
    form: str
    hash: str
    structure: str


def canonical_model(graph: ModelGraph) -> CanonicalModel:
    """Canonicalises a model once for cache, deduplication and structure.

    Args:
        graph: The graph, as `canonicalise` takes it.

    Raises:
        ValueError: If `graph` has no shapes or dtypes.
    """
    canonical = canonicalise(graph)
    form = canonical.to_json()
    return CanonicalModel(canonical, form, _hash_of(form), structure_hash(canonical))


def canonical_form(graph: ModelGraph) -> str:
    """The canonical graph as one line of JSON, equal for equal models and only for them."""
    return canonicalise(graph).to_json()


def canonical_hash(graph: ModelGraph) -> str:
    """SHA-256 of the canonical form, 32 hexadecimal digits."""
    return _hash_of(canonical_form(graph))


def _hash_of(form: str) -> str:
    return hashlib.sha256(form.encode()).hexdigest()[:HASH_LENGTH]


def structure_hash(graph: ModelGraph) -> str:
    """Hash of the model without the values of its constants, 32 hexadecimal digits.

    Constants keep their shape and dtype only. Whether two constants are equal, and whether a repeated
    expression is shared, makes no difference; covariates, indices, axes and shapes do.
    """
    canonical = canonicalise(graph)
    random = [index for index, node in enumerate(canonical.nodes) if node.op == "random"]
    ranks = {index: rank for rank, index in enumerate(random)}
    hashes = merkle(canonical, _labels(canonical, values=False), ranks)
    return digest(*(hashes[index] for index in random))[:HASH_LENGTH]


def _labels(graph: ModelGraph, *, values: bool) -> list[str]:
    parts = zip(graph.nodes, graph.shapes, graph.dtypes, strict=True)
    return [node_label(*part, values=values) for part in parts]


def latent_names(graph: ModelGraph) -> dict[str, str]:
    """What the latents of a canonical graph are called in the graph that it was made of.

    Args:
        graph: A graph with its program's own names, as `canonicalise` takes it.
    """
    simple = simplify(graph)
    order, _ = _order_of(simple)
    latents = [i for i in order if simple.nodes[i].op == "random" and i != simple.response]
    return {f"v{place}": simple.nodes[index].attributes["name"] for place, index in enumerate(latents)}


def _order_of(graph: ModelGraph) -> tuple[list[int], Callable[[int], tuple[int, ...]]]:
    """A walk from the response that depends on the model only, and the inputs of each node in its order."""
    bare, labels = _labels(graph, values=False), _labels(graph, values=True)
    ranks = rank_random_nodes(graph, bare, labels)
    structure, full = merkle(graph, bare, ranks), merkle(graph, labels, ranks)

    def key(index: int) -> tuple[int, int, str, str]:
        # random nodes by rank: the definitions of two of them may be equal
        return _KINDS.get(graph.nodes[index].op, 1), ranks.get(index, 0), structure[index], full[index]

    def inputs_of(index: int) -> tuple[int, ...]:
        node = graph.nodes[index]
        return tuple(sorted(node.inputs, key=key)) if is_commutative(node) else node.inputs

    return _post_order(graph.response, inputs_of), inputs_of


def _ordered(graph: ModelGraph) -> ModelGraph:
    """The same nodes, numbered and named by that walk."""
    order, inputs_of = _order_of(graph)
    new = {old: position for position, old in enumerate(order)}
    nodes = []
    latents = 0
    for old in order:
        node = graph.nodes[old]
        attributes = dict(node.attributes)
        if node.op == "random" and old == graph.response:
            attributes["name"] = RESPONSE_NAME
        elif node.op == "random":
            attributes["name"] = f"v{latents}"
            latents += 1
        nodes.append(Node(node.op, tuple(new[i] for i in inputs_of(old)), attributes))
    return ModelGraph(
        nodes=tuple(nodes),
        response=new[graph.response],
        shapes=tuple(graph.shapes[old] for old in order),
        dtypes=tuple(graph.dtypes[old] for old in order),
        is_canonical=True,
    )


def _post_order(root: int, inputs_of: Callable[[int], tuple[int, ...]]) -> list[int]:
    """Every node below `root` once, inputs first, without recursion."""
    order: list[int] = []
    done: set[int] = set()
    stack = [(root, False)]
    while stack:
        index, visited = stack.pop()
        if index in done:
            continue
        if visited:
            done.add(index)
            order.append(index)
            continue
        stack.append((index, True))
        stack.extend((i, False) for i in reversed(inputs_of(index)))
    return order
