"""Which normal parameters reach the response through one affine predictor, found from the graph alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
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

MOST_TRIED = 40
"""Blocks that are looked at for a larger one."""


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

    Where the response reads several such nodes, parameters that only some of them depend on leave the block:
    of a model of mean and scale those of the smaller, of a change's size and place the place.

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
    reading = _Reading(compiled, constant, locations)
    return reading.largest(frozenset(locations), reading.greedy(frozenset(locations)))


class _Reading:
    """What the response reads of blocks of some normal parameters.

    Args:
        compiled: The model, compiled.
        constant: Which nodes depend on no random node.
        locations: The parameters, to those of their own parameters that only move them.
    """

    def __init__(
        self, compiled: Compiled, constant: list[bool], locations: Mapping[int, tuple[int, ...]]
    ) -> None:
        self.compiled, self.constant, self.locations = compiled, constant, locations
        self.heads = compiled.response_term.slots
        self.steps = needed_steps(compiled.steps, self.heads)
        self.tried: set[Sources] = set()

    def edge(self, block: Sources) -> tuple[Sources, list[Use], list[int]]:
        """What is left of a block where its own densities are normal, and the last nodes affine in that."""
        graph = self.compiled.graph
        while True:
            uses = propagate(graph, self.constant, block)
            leaving = at_fault(graph, uses, {i: self.locations[i] for i in block}, graph.response)
            if not leaving:
                break
            block -= leaving
        # steps of bounds that depend on others have slots of their own, which no block moves
        read = {i for step in self.steps if _bends(uses, step.slot) for i in step.inputs} | set(self.heads)
        edge = [i for i in sorted(read) if i < len(uses) and uses[i].sources and not uses[i].culprits]
        return block, uses, edge

    def greedy(self, block: Sources) -> Predictor | None:
        """What is left when of several such nodes the largest remains."""
        block, uses, edge = self.edge(block)
        while len(edge) > 1:
            block, uses, edge = self.edge(block - _others(self.compiled, uses, edge))
        if not edge:
            return None
        element = _elements(self.compiled, edge[0])
        return None if element is None else Predictor(tuple(sorted(block)), edge[0], element)

    def largest(self, block: Sources, best: Predictor | None) -> Predictor | None:
        """The largest that is found by having one node after the other leave, in every order."""
        block, uses, edge = self.edge(block)
        size = 0 if best is None else _dimensions(self.compiled, frozenset(best.block))
        if block in self.tried or len(self.tried) == MOST_TRIED or _dimensions(self.compiled, block) <= size:
            return best
        self.tried.add(block)
        if len(edge) == 1:
            element = _elements(self.compiled, edge[0])
            return best if element is None else Predictor(tuple(sorted(block)), edge[0], element)
        for one in edge:
            others = NOTHING.union(*(uses[i].sources for i in edge if i != one))
            best = self.largest(block - ((uses[one].sources - others) or uses[one].sources), best)
        return best


def _bends(uses: list[Use], slot: int) -> bool:
    return slot < len(uses) and bool(uses[slot].culprits)


def _others(compiled: Compiled, uses: list[Use], edge: list[int]) -> Sources:
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
