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
        "RandomWalk(MvNormal, MvNormal)": (0, 2),
        "AR(Normal)": (0, 3),
    }
)
"""Distributions that are normal given their parameters, and which of these only move them."""
RESPONSES: Mapping[str, int] = MappingProxyType({"Normal": 0, "LogNormal": 0, "Hurdle(LogNormal)": 1})
"""Distributions of a response that is normal, or whose logarithm is, in all rows or, of a hurdle, in those
above zero; to the place of its mean, which the scale follows."""

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
    response = graph.nodes[graph.response]
    place = RESPONSES.get(distribution_of(response.attributes).name)
    if place is None:
        return ()
    locations: dict[int, tuple[int, ...]] = {
        index: LOCATIONS[name]
        for index, node in enumerate(graph.nodes)
        if node.op == "random" and (name := distribution_of(node.attributes).name) in LOCATIONS
    }
    locations[graph.response] = (place,)
    block = frozenset(locations) - {graph.response}
    while block:
        uses = propagate(graph, constant, block)
        leaving = at_fault(graph, uses, {i: locations[i] for i in (*block, graph.response)})
        if not leaving:
            mean = uses[response.inputs[place]]
            return tuple(sorted(block)) if mean.sources else ()
        block -= leaving
    return ()


def is_hard(graph: ModelGraph, constant: Sequence[bool], block: Collection[int]) -> bool:
    """Whether other parameters scale a block: its distributions' widths, or what multiplies it.

    Then the posterior is a funnel or a banana, also of few dimensions.

    Args:
        graph: A validated model graph.
        constant: Which nodes depend on no random node.
        block: What `find_block` found.
    """
    uses = propagate(graph, constant, frozenset(block))
    return any(_is_widened(graph, constant, uses, index) for index in block) or any(
        _is_multiplied(graph, constant, uses, index) for index in range(len(graph.nodes))
    )


def is_multiplied(graph: ModelGraph, constant: Sequence[bool], block: Collection[int]) -> bool:
    """Whether other parameters multiply a block where what it moves is affine in it, as in a product of both.

    Args:
        graph: A validated model graph.
        constant: Which nodes depend on no random node.
        block: What `find_block` found.
    """
    uses = propagate(graph, constant, frozenset(block))
    affine = [index for index, use in enumerate(uses) if use.sources and not use.culprits]
    return any(_is_multiplied(graph, constant, uses, index) for index in affine)


def _is_widened(graph: ModelGraph, constant: Sequence[bool], uses: Sequence[Use], index: int) -> bool:
    """Whether more than the mean of a block's distribution depends on other parameters."""
    node = graph.nodes[index]
    moving = LOCATIONS.get(distribution_of(node.attributes).name, ())
    return any(not uses[i].sources and not constant[i] for k, i in enumerate(node.inputs) if k not in moving)


def _is_multiplied(graph: ModelGraph, constant: Sequence[bool], uses: Sequence[Use], index: int) -> bool:
    """Whether an operation has both the block and other parameters, and is no sum."""
    node = graph.nodes[index]
    if node.op == "random" or node.op in _LINEAR:
        return False
    moved = [bool(uses[i].sources) for i in node.inputs]
    others = [not moves and not constant[i] for i, moves in zip(node.inputs, moved, strict=True)]
    return any(moved) and any(others)


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
