"""A node that reads multiples of a block's elements and nothing else: `X @ (z * scale)`, `scale * (X @ z)`.

Its map is a constant one times a factor for each column, so that particles share its matrix. A factor of
single elements comes before anything else is made of them, but for parts of a vector that each have factors
of their own, as cosines and sines of a periodic process do; one number may come anywhere on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine, AffineMaps, Values


class Multiples(NamedTuple):
    """A node as a constant affine function of factors times the block.

    Attributes:
        affine: The node given the multiples, an element each.
        steps: What makes each multiple of its parameter, in order.
        multiples: Parameter of the block, or part of one, to the node that is its multiple, and the first of
            its columns.
        scalars: Likewise to the numbers that what is made of it is multiplied by on the way, and to those
            that it is divided by.
        compiled: The model, compiled.
        size: Elements of the block.
    """

    affine: Affine
    steps: tuple[Step, ...]
    multiples: Mapping[int, tuple[int, int]]
    scalars: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
    compiled: Compiled
    size: int

    def factors(self, values: Values) -> Float[Tensor, "#particles size"]:
        """What each element of the block is multiplied by.

        Args:
            values: Values of an evaluation, with what the other parameters alone move filled in.
        """
        shapes, rank = self.compiled.shapes, self.compiled.rank
        found: dict[int, Tensor] = {
            node: torch.ones(1, *pad(shapes[node], rank), dtype=torch.float64) for node in self.multiples
        }
        for slot, function, inputs in self.steps:
            found[slot] = function(*[found[i] if i in found else cast(Tensor, values[i]) for i in inputs])
        own = {
            node: found[multiple].reshape(-1, math.prod(shapes[node]))
            for node, (multiple, _) in self.multiples.items()
        }
        for node, (above, below) in self.scalars.items():
            for slot in above:
                own[node] = own[node] * cast(Tensor, values[slot]).reshape(-1, 1)
            for slot in below:
                own[node] = own[node] / cast(Tensor, values[slot]).reshape(-1, 1)
        particles = max(map(len, own.values()))
        every = torch.ones(particles, self.size, dtype=torch.float64)
        for node, (_, start) in self.multiples.items():
            columns = torch.arange(start, start + own[node].shape[1])
            every = every.index_copy(1, columns, own[node].expand(particles, -1))
        return every


def find_multiples(compiled: Compiled, block: Mapping[int, int], node: int, size: int) -> Multiples | None:
    """A node as a constant function of multiples of a block's elements.

    Args:
        compiled: The model, compiled.
        block: Block node to the first of its columns.
        node: One that the block moves affinely.
        size: Elements of the block.

    Returns:
        `None` where other parameters move more of its map than a factor of each column.
    """
    steps = needed_steps(compiled.steps, (node,))
    block = _in_parts(compiled, block, steps, node)
    moved = set(block)
    mixed = []
    for step in steps:
        if moved.intersection(step.inputs):
            moved.add(step.slot)
            mixed.append(step)
    chains = {start: _chain(compiled, start, moved, mixed, node) for start in block}
    last = {start: chain[-1].slot if chain else start for start, chain in chains.items()}
    passed = _scalars(compiled, last, moved, mixed, node)
    if passed is None or not (any(chains.values()) or any(passed.values())):
        return None
    reached = {last[start]: column for start, column in block.items()}
    read = {slot for step in mixed for slot in step.inputs} | {node}
    sources = frozenset(reached) & read
    scaling = {step.slot: step for each in passed.values() for step in each}
    plain = replace(
        compiled,
        steps=tuple(_without(scaling.get(step.slot), step, moved, compiled) for step in compiled.steps),
    )
    maps = AffineMaps(plain, reached, {node: sources})
    # a number times what is not 0 where the block is would be in the origin
    if not maps.is_constant(node) or not all(map(maps.vanishes, _read(scaling.values(), moved))):
        return None
    links = {step.slot: step for chain in chains.values() for step in chain}
    return Multiples(
        maps.evaluate_constant(node),
        tuple(step for step in steps if step.slot in links),
        {start: (last[start], column) for start, column in block.items() if chains[start] or passed[start]},
        {start: _factors(compiled, each, moved) for start, each in passed.items() if each},
        compiled,
        size,
    )


def _in_parts(
    compiled: Compiled, block: Mapping[int, int], steps: tuple[Step, ...], node: int
) -> dict[int, int]:
    """A block with parts of a vector in its place where nothing else of it is read.

    Args:
        compiled: The model, compiled.
        block: Block node to the first of its columns.
        steps: What makes the node, in order.
        node: One that the block moves affinely.
    """
    nodes, shapes = compiled.graph.nodes, compiled.shapes
    found: dict[int, int] = {}
    for start, column in block.items():
        readers = [step.slot for step in steps if start in step.inputs]
        parts = {
            slot: range(*slice(*nodes[slot].attributes["index"][0]["slice"]).indices(shapes[start][0]))
            for slot in readers
            if slot < len(nodes) and _is_part(nodes[slot]) and len(shapes[start]) == 1
        }
        places = [place for part in parts.values() for place in part]
        apart = len(set(places)) == len(places) and all(
            part.step == 1 and len(part) for part in parts.values()
        )
        if readers and len(parts) == len(readers) and apart and start != node:
            found |= {slot: column + part.start for slot, part in parts.items()}
        else:
            found[start] = column
    return found


def _is_part(node: Node) -> bool:
    """Whether a node is a range of a vector's elements."""
    return node.op == "index" and [isinstance(each, int) for each in node.attributes["index"]] == [False]


def _scalars(
    compiled: Compiled, last: Mapping[int, int], moved: set[int], mixed: list[Step], node: int
) -> dict[int, tuple[Step, ...]] | None:
    """The steps that multiply or divide by one number, on every way from each parameter's multiple to a node.

    Args:
        compiled: The model, compiled.
        last: Parameter of the block to its multiple.
        moved: What the block moves.
        mixed: Steps that read any of that, in order.
        node: Where the ways end.

    Returns:
        `None` where ways from one parameter pass different steps.
    """
    ways: dict[int, dict[int, tuple[Step, ...]]] = {slot: {start: ()} for start, slot in last.items()}
    for step in mixed:
        if step.slot in ways:
            continue
        here: dict[int, tuple[Step, ...]] = {}
        for slot in step.inputs:
            for start, way in ways.get(slot, {}).items():
                if here.setdefault(start, way) != way:
                    return None
        if here and _is_scaling(compiled, step, moved):
            here = {start: (*way, step) for start, way in here.items()}
        ways[step.slot] = here
    found = ways.get(node, {})
    return {start: found.get(start, ()) for start in last}


def _is_scaling(compiled: Compiled, step: Step, moved: set[int]) -> bool:
    """Whether a step multiplies or divides what a block moves by single numbers that others move."""
    nodes = compiled.graph.nodes
    if step.slot >= len(nodes) or nodes[step.slot].op not in ("mul", "div"):
        return False
    inputs = list(nodes[step.slot].inputs)
    others = [slot for slot in step.inputs if slot not in moved]
    once = all(inputs.count(slot) == step.inputs.count(slot) == 1 for slot in step.inputs)
    below = nodes[step.slot].op == "div" and inputs[0] not in moved
    single = all(math.prod(compiled.shapes[slot]) == 1 for slot in others)
    return bool(others) and single and once and not below and len(others) == len(step.inputs) - 1


def _read(scaling: Collection[Step], moved: set[int]) -> list[int]:
    """What such steps multiply or divide."""
    return [slot for step in scaling for slot in step.inputs if slot in moved]


def _without(scaling: Step | None, step: Step, moved: set[int], compiled: Compiled) -> Step:
    """A step with 1 in place of the numbers that it multiplies or divides by, if it is one of those."""
    if scaling is None:
        return step
    one = torch.ones(1, *(1,) * compiled.rank, dtype=torch.float64)
    inside = [slot in moved for slot in step.inputs]

    def function(value: Tensor, plain: Callable[..., Tensor] = step.function) -> Tensor:
        return plain(*[value if each else one for each in inside])

    return Step(step.slot, function, tuple(slot for slot in step.inputs if slot in moved))


def _factors(
    compiled: Compiled, scaling: tuple[Step, ...], moved: set[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers that such steps multiply by, and those that they divide by."""
    above: list[int] = []
    below: list[int] = []
    for step in scaling:
        side = above if compiled.graph.nodes[step.slot].op == "mul" else below
        side.extend(slot for slot in step.inputs if slot not in moved)
    return tuple(above), tuple(below)


def _chain(compiled: Compiled, start: int, moved: set[int], mixed: list[Step], node: int) -> list[Step]:
    """The steps that one after the other multiply or divide all elements of a parameter.

    Args:
        compiled: The model, compiled.
        start: The parameter that is followed.
        moved: What the block moves.
        mixed: Steps that read any of that, in order.
        node: What is not followed further.
    """
    nodes, shapes = compiled.graph.nodes, compiled.shapes
    chain: list[Step] = []
    current = start
    while current != node:
        readers = [step for step in mixed if current in step.inputs]
        if len(readers) != 1 or readers[0].slot >= len(nodes):
            break
        (step,) = readers
        op, inputs = nodes[step.slot].op, nodes[step.slot].inputs
        above = op == "mul" or (op == "div" and inputs[0] == current)
        others = [i for i in step.inputs if i != current]
        single = list(inputs).count(current) == 1 and step.inputs.count(current) == 1
        if not above or not single or moved.intersection(others) or shapes[step.slot] != shapes[start]:
            break
        chain.append(step)
        current = step.slot
    return chain
