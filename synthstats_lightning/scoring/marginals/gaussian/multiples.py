"""A node that reads multiples of a block's elements and nothing else: `X @ (z * scale)`.

Its map is a constant one times a factor for each column, so that particles share its matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine, AffineMaps, Values


class Multiples(NamedTuple):
    """A node as a constant affine function of factors times the block.

    Attributes:
        affine: The node given the multiples, an element each.
        steps: What makes each multiple of its parameter, in order.
        multiples: Parameter of the block to the node that is its multiple, and the first of its columns.
        compiled: The model, compiled.
        size: Elements of the block.
    """

    affine: Affine
    steps: tuple[Step, ...]
    multiples: Mapping[int, tuple[int, int]]
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
        particles = max(len(found[multiple]) for multiple, _ in self.multiples.values())
        every = torch.ones(particles, self.size, dtype=torch.float64)
        for node, (multiple, start) in self.multiples.items():
            elements = math.prod(shapes[node])
            own = found[multiple].reshape(-1, elements).expand(particles, -1)
            every = every.index_copy(1, torch.arange(start, start + elements), own)
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
    moved = set(block)
    mixed = []
    for step in steps:
        if moved.intersection(step.inputs):
            moved.add(step.slot)
            mixed.append(step)
    chains = {start: _chain(compiled, start, moved, mixed, node) for start in block}
    if not any(chains.values()):
        return None
    last = {start: chain[-1].slot if chain else start for start, chain in chains.items()}
    reached = {last[start]: column for start, column in block.items()}
    read = {slot for step in mixed for slot in step.inputs} | {node}
    sources = frozenset(reached) & read
    maps = AffineMaps(compiled, reached, {node: sources})
    if not maps.is_constant(node):
        return None
    links = {step.slot: step for chain in chains.values() for step in chain}
    return Multiples(
        maps.evaluate_constant(node),
        tuple(step for step in steps if step.slot in links),
        {start: (last[start], column) for start, column in block.items() if chains[start]},
        compiled,
        size,
    )


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
