"""Which normal parameters of a model graph enter a normal response affinely, found from the graph alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node

LOCATIONS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "Normal": (0,),
        "MvNormal": (0,),
        "CAR": (0,),
        "ICAR": (),
        "RandomWalk(Normal, Normal)": (0, 2),
        "AR(Normal)": (0, 3),
    }
)
"""Distributions that are normal given their parameters, and which of these only move them."""
RESPONSES = frozenset({"Normal", "LogNormal"})
"""Distributions of a response that is normal, or whose logarithm is, with the first parameter as its mean."""

_LINEAR = frozenset(
    {
        "identity",
        "index",
        "reshape",
        "transpose",
        "broadcast_to",
        "stack",
        "concatenate",
        "add",
        "sub",
        "neg",
        "sum",
        "mean",
        "cumsum",
    }
)
_PRODUCTS = frozenset({"mul", "dot"})
_LINEAR_IN: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"div": (0,), "take": (0,), "solve": (1,), "solve_triangular": (1,), "switch": (1, 2)}
)
"""Operations that are linear in some of their inputs, whatever the others."""

Sources = frozenset[int]
NOTHING: Sources = frozenset()


class Use(NamedTuple):
    """How a node's value depends on the block.

    Attributes:
        sources: The parameters that it depends on.
        culprits: Empty if it does so affinely; otherwise those without which the first node that is not
            affine would be.
    """

    sources: Sources = NOTHING
    culprits: Sources = NOTHING


def find_block(graph: ModelGraph, constant: Sequence[bool]) -> tuple[int, ...]:
    """The largest set of parameters, about, that the response's mean is affine in and that are normal.

    Where something must be affine in the set, or constant, and is not, the parameters at fault leave it: of
    two that multiply each other the smaller.

    Args:
        graph: A validated model graph.
        constant: Which nodes depend on no random node.

    Returns:
        Nodes in topological order; none unless the response depends on one of them.
    """
    if distribution_of(graph.nodes[graph.response].attributes).name not in RESPONSES:
        return ()
    locations: dict[int, tuple[int, ...]] = {
        index: LOCATIONS[name]
        for index, node in enumerate(graph.nodes)
        if node.op == "random" and (name := distribution_of(node.attributes).name) in LOCATIONS
    }
    locations[graph.response] = (0,)
    block = frozenset(locations) - {graph.response}
    while block:
        uses = propagate(graph, constant, block)
        leaving = at_fault(graph, uses, {i: locations[i] for i in (*block, graph.response)})
        if not leaving:
            mean = uses[graph.nodes[graph.response].inputs[0]]
            return tuple(sorted(block)) if mean.sources else ()
        block -= leaving
    return ()


def is_hard(graph: ModelGraph, constant: Sequence[bool], block: Collection[int]) -> bool:
    """Whether other parameters scale a block: its distributions' widths, or what multiplies it in a mean.

    Then the posterior is a funnel or a banana, also of few dimensions.

    Args:
        graph: A validated model graph.
        constant: Which nodes depend on no random node.
        block: What `find_block` found.
    """
    uses = propagate(graph, constant, frozenset(block))
    for index, node in enumerate(graph.nodes):
        moved = [bool(uses[i].sources) for i in node.inputs]
        others = [i for i, moves in zip(node.inputs, moved, strict=True) if not moves and not constant[i]]
        if node.op == "random":
            moving = LOCATIONS.get(distribution_of(node.attributes).name, ()) if index in block else ()
            if index in block and any(i in others for k, i in enumerate(node.inputs) if k not in moving):
                return True
        elif any(moved) and others and node.op not in _LINEAR:
            return True
    return False


def propagate(graph: ModelGraph, constant: Sequence[bool], block: Sources) -> list[Use]:
    """How every node depends on a block; other random nodes do not, since they are given.

    Args:
        graph: A validated model graph.
        constant: Which nodes depend on no random node.
        block: The random nodes that are meant.
    """
    uses: list[Use] = []
    for index, node in enumerate(graph.nodes):
        if index in block:
            uses.append(Use(frozenset({index})))
        elif node.op == "random" or constant[index]:
            uses.append(Use())
        else:
            uses.append(_of_operation(graph, node, [uses[i] for i in node.inputs]))
    return uses


def _of_operation(graph: ModelGraph, node: Node, inputs: Sequence[Use]) -> Use:
    sources = NOTHING.union(*(use.sources for use in inputs))
    if not sources:
        return Use()
    for use in inputs:
        if use.culprits:
            return Use(sources, use.culprits)
    if node.op in _LINEAR or (node.op == "cast" and node.attributes["dtype"] == "float64"):
        return Use(sources)
    if node.op in _PRODUCTS:
        factors = [use.sources for use in inputs if use.sources]
        if len(factors) == 1:
            return Use(sources)
        # all but the largest factor
        largest = max(range(len(factors)), key=lambda i: (_elements(graph, factors[i]), -i))
        others = NOTHING.union(*(each for i, each in enumerate(factors) if i != largest))
        return Use(sources, others)
    if node.op in _LINEAR_IN:
        linear = _LINEAR_IN[node.op]
        others = NOTHING.union(*(use.sources for i, use in enumerate(inputs) if i not in linear))
        return Use(sources, others)
    return Use(sources, sources)


def _elements(graph: ModelGraph, sources: Sources) -> int:
    return sum(math.prod(graph.nodes[i].attributes["shape"]) for i in sources)


def at_fault(
    graph: ModelGraph,
    uses: Sequence[Use],
    normal: Mapping[int, tuple[int, ...]],
    free: int | None = None,
) -> Sources:
    """The parameters that must leave a block because of the first violation; none if there is none.

    Args:
        graph: A validated model graph.
        uses: How every node depends on the block.
        normal: Nodes that may depend on it, to the places of the parameters that may, affinely.
        free: A node that may depend on it in any way.
    """
    for index, node in enumerate(graph.nodes):
        if node.op != "random" or index == free:
            continue
        moving = normal.get(index, ())
        for place, i in enumerate(node.inputs):
            leaving = uses[i].culprits if place in moving else uses[i].sources
            if leaving:
                return leaving
    return NOTHING
