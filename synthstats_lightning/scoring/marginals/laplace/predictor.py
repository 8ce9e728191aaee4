"""Which normal parameters reach the response through one affine predictor, found from the graph alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps
from synthstats_lightning.scoring.marginals.gaussian.affine import (
    LOCATIONS,
    NOTHING,
    Sources,
    Use,
    at_fault,
    propagate,
)
from synthstats_lightning.scoring.marginals.labels import dependence


class Predictor(NamedTuple):
    """A block of normal parameters, and the node through which alone the response depends on it.

    Attributes:
        block: The block's nodes in topological order.
        node: The node, which is affine in the block.
        element: The element of the node that each row reads, `dependence.NONE` where it reads none `[rows]`.
    """

    block: tuple[int, ...]
    node: int
    element: Int[Tensor, " rows"]


def find_predictor(compiled: Compiled) -> Predictor | None:
    """The largest block, about, that reaches the response through one affine node, row by row.

    Where the response reads several such nodes, as that of a model of mean and scale does, parameters that
    only the smaller ones depend on leave the block.

    Args:
        compiled: The model, compiled.
    """
    graph = compiled.graph
    response = graph.nodes[graph.response]
    entry = distribution_of(response.attributes)
    if compiled.labels is not None or entry.event_rank:
        return None
    constant = [each is not None for each in compiled.constants]
    plain = {p.node for p in compiled.parameters if p.transform is Transform.IDENTITY and p.anchor is None}
    locations = {
        index: LOCATIONS[name]
        for index in plain
        if (name := distribution_of(graph.nodes[index].attributes).name) in LOCATIONS
    }
    heads = compiled.response_term.slots
    steps = needed_steps(compiled.steps, heads)
    block = frozenset(locations)
    while block:
        uses = propagate(graph, constant, block)
        normal = {i: locations[i] for i in block}
        leaving = at_fault(graph, uses, normal, graph.response)
        if not leaving:
            # steps of bounds that depend on others have slots of their own, which no block moves
            read = {i for step in steps if _bends(uses, step.slot) for i in step.inputs} | set(heads)
            edge = [i for i in sorted(read) if i < len(uses) and uses[i].sources and not uses[i].culprits]
            if not edge:
                return None
            if len(edge) == 1:
                element = _elements(compiled, edge[0])
                return None if element is None else Predictor(tuple(sorted(block)), edge[0], element)
            leaving = _of_smaller(compiled, uses, edge)
        block -= leaving
    return None


def _bends(uses: list[Use], slot: int) -> bool:
    return slot < len(uses) and bool(uses[slot].culprits)


def _of_smaller(compiled: Compiled, uses: list[Use], edge: list[int]) -> Sources:
    """What must leave so that one of several nodes remains: the sources of others that the largest lacks."""
    largest = max(edge, key=lambda i: (_dimensions(compiled, uses[i].sources), -i))
    others = NOTHING.union(*(uses[i].sources for i in edge if i != largest))
    return (others - uses[largest].sources) or others


def _dimensions(compiled: Compiled, sources: Sources) -> int:
    return sum(math.prod(compiled.shapes[i]) for i in sources)


def _elements(compiled: Compiled, node: int) -> Int[Tensor, " rows"] | None:
    """The one element of a node that each row reads; `None` where a row may read several."""
    graph = compiled.graph
    response = graph.nodes[graph.response]
    known = {
        i: c.numpy() for i, c in enumerate(compiled.constants) if c is not None and c.dtype is torch.int64
    }
    units = np.arange(math.prod(compiled.shapes[node])).reshape(compiled.shapes[node])
    values = dependence.propagate(graph, compiled.shapes, known, node, units)
    ranks = distribution_of(response.attributes).ranks
    rows = dependence.of_factor([values[i] for i in response.inputs], ranks, compiled.shapes[graph.response])
    if rows is None or bool((rows == dependence.MANY).any()) or bool((rows == dependence.NONE).all()):
        return None
    return torch.from_numpy(np.array(rows.reshape(-1), dtype=np.int64))
