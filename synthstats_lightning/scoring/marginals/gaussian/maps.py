"""The values of nodes as affine functions of a block, given everything else."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps
from synthstats_lightning.scoring.marginals.gaussian.columns import PROBE, Shown, find_columns

Values = Sequence[Tensor | None]

FEW_ENTRIES = 8
"""Entries of a row up to which they are added one after the other."""
MANY_TIMES = 8
"""Entries of a constant map are taken as a matrix where all columns are not this many times as many."""


class Affine(NamedTuple):
    """`origin + coefficients @ x`, with only the columns that each element may depend on.

    Attributes:
        columns: Which column each coefficient belongs to; the number of columns for none, and the coefficient
            is 0 `[elements, entries]`.
        coefficients: `[particles or 1, elements, entries]`.
        origin: `[particles or 1, elements]`.
    """

    columns: Int[Tensor, "elements entries"]
    coefficients: Float[Tensor, "#particles elements entries"]
    origin: Float[Tensor, "#particles elements"]

    def at(self, x: Float[Tensor, "#particles size"]) -> Float[Tensor, "#particles elements"]:
        """The values for a block's value."""
        entries, size = self.columns.shape[1], x.shape[1]
        if entries > FEW_ENTRIES and len(self.coefficients) == 1 and MANY_TIMES * entries > size:
            return self.origin + x @ self.matrix(size)[0].T
        padded = torch.nn.functional.pad(x, (0, 1))
        if entries > FEW_ENTRIES:
            return self.origin + (self.coefficients * padded[:, self.columns]).sum(-1)
        # sums over so few numbers, lying side by side, take longer than one addition for each
        found = self.origin
        for entry, column in enumerate(self.columns.T):
            found = torch.addcmul(found, self.coefficients[:, :, entry], padded[:, column])
        return found

    def matrix(self, size: int) -> Float[Tensor, "#particles elements size"]:
        """The coefficients as matrices.

        Args:
            size: Elements of the block.
        """
        matrix = self.coefficients.new_zeros(*self.coefficients.shape[:2], size + 1)
        columns = self.columns.expand_as(self.coefficients)
        return matrix.scatter_add(2, columns, self.coefficients)[:, :, :size]


class AffineMaps:
    """Nodes that a block moves affinely, as functions of it at any values of the other parameters.

    What depends on the block alone is evaluated once, what depends on both at all probes of all particles
    together.

    Args:
        compiled: The model, compiled.
        block: Block node to the first of its columns.
        sources: Node that is wanted to the block nodes that it depends on.
    """

    def __init__(
        self, compiled: Compiled, block: Mapping[int, int], sources: Mapping[int, frozenset[int]]
    ) -> None:
        self._compiled = compiled
        self._block = dict(block)
        self._nodes = tuple(sources)
        columns = find_columns(compiled.graph, compiled.shapes, compiled.constants, block, sources)
        self._probes = columns.probes
        self._shown: Mapping[int, Shown] = columns.shown
        moved, fixed = set(block), set(block)
        self._fixed_steps: list[Step] = []
        self._mixed_steps: list[Step] = []
        for step in needed_steps(compiled.steps, self._nodes):
            if not moved.intersection(step.inputs):
                continue
            moved.add(step.slot)
            if fixed.issuperset(step.inputs):
                fixed.add(step.slot)
                self._fixed_steps.append(step)
            else:
                self._mixed_steps.append(step)
        self._fixed = self._run_fixed(self._probes)
        read = {slot for step in self._mixed_steps for slot in step.inputs}
        self.slots = tuple(sorted(read - moved))
        """Slots that must be evaluated before: they depend on the other parameters alone."""

    def width(self, known: Collection[int] = ()) -> int:
        """Numbers that one particle takes.

        Args:
            known: Nodes whose maps are not wanted.
        """
        shapes = self._compiled.shapes
        steps = needed_steps(self._mixed_steps, [node for node in self._nodes if node not in known])
        return len(self._probes) * sum(math.prod(shapes[s.slot]) for s in steps if s.slot < len(shapes))

    def entries(self, node: int) -> int:
        """How many columns an element of a node may depend on."""
        return len(self._shown[node].colours)

    def is_constant(self, node: int) -> bool:
        """Whether a node's map depends on no other parameter."""
        return node in self._fixed

    def vanishes(self, slot: int) -> bool:
        """Whether what depends on the block alone is 0 where the block is; otherwise unknown.

        Args:
            slot: Slot of its value.
        """
        return slot in self._fixed and not bool(self._fixed[slot][0].any())

    def evaluate(self, values: Values, known: Collection[int] = ()) -> dict[int, Affine]:
        """The maps at other parameters.

        Args:
            values: Values of an evaluation, with `slots` filled.
            known: Nodes whose maps are not wanted.
        """
        nodes = [node for node in self._nodes if node not in known]
        points = self._run_mixed(values, self._fixed, len(self._probes), nodes)
        return {node: self._affine(node, points[node]) for node in nodes}

    def evaluate_constant(self, node: int) -> Affine:
        """A map that `is_constant`."""
        return self._affine(node, self._fixed[node])

    def _affine(self, node: int, points: Tensor) -> Affine:
        """The map of a node from its values at the probes."""
        value = self._flat(points, node, len(self._probes))
        shown = self._shown[node]
        origin = value[:, 0]
        steep = (value[:, 1 + shown.colours] - origin[:, None]) / PROBE
        size = self._probes.shape[1]
        coefficients = torch.where(shown.columns == size, 0.0, steep.transpose(1, 2))
        return Affine(shown.columns, coefficients, origin)

    def direct(self, values: Values, x: Float[Tensor, " size"]) -> dict[int, Tensor]:
        """The nodes' values at one value of the block, by evaluating the graph there.

        Args:
            values: As in `evaluate`.
            x: The block's value.
        """
        points = self._run_mixed(values, self._run_fixed(x[None]), 1, self._nodes)
        return {node: self._flat(points[node], node, 1)[:, 0] for node in self._nodes}

    def _is_matrix_of_probes(self, slot: int, inputs: Sequence[int], fixed: Mapping[int, Tensor]) -> bool:
        """Whether a step multiplies a matrix of the other parameters by vectors of the block alone."""
        nodes, shapes = self._compiled.graph.nodes, self._compiled.shapes
        if slot >= len(nodes) or nodes[slot].op != "dot" or len(inputs) != 2:
            return False
        matrix, vector = inputs
        return (
            matrix in self.slots
            and vector in fixed
            and len(shapes[matrix]) == 2
            and 1 <= len(shapes[vector]) <= 2
        )

    def _product(self, matrix: Tensor, vectors: Tensor, slot: int, inputs: Sequence[int]) -> Tensor:
        """Such a step's value at all points of all particles, by one product instead of copies of matrices.

        Args:
            matrix: One for each particle.
            vectors: The block's values at each point.
            slot: Where the step's value is kept.
            inputs: Nodes of both.
        """
        compiled = self._compiled
        shape, inner = compiled.shapes[slot], compiled.shapes[inputs[1]]
        points = len(vectors)
        columns = vectors.reshape(points, inner[0], -1).transpose(0, 1).flatten(1)
        product = matrix.reshape(-1, *compiled.shapes[inputs[0]]) @ columns
        product = product.reshape(*product.shape[:2], points, -1).transpose(1, 2)
        return product.reshape(-1, *pad(shape, compiled.rank))

    def _flat(self, value: Tensor, node: int, points: int) -> Tensor:
        """A node's value as `[particles or 1, points, elements]`."""
        elements = math.prod(self._compiled.shapes[node])
        return value.to(torch.float64).reshape(-1, points, elements)

    def _run_fixed(self, probes: Tensor) -> dict[int, Tensor]:
        shapes, rank = self._compiled.shapes, self._compiled.rank
        found = {}
        for node, start in self._block.items():
            elements = math.prod(shapes[node])
            found[node] = probes[:, start : start + elements].reshape(-1, *pad(shapes[node], rank))
        for slot, function, inputs in self._fixed_steps:
            found[slot] = function(*[found[i] for i in inputs])
        return found

    def _run_mixed(
        self, values: Values, fixed: Mapping[int, Tensor], points: int, nodes: Collection[int]
    ) -> dict[int, Tensor]:
        found = dict(fixed)
        steps = needed_steps(self._mixed_steps, nodes)
        if not steps:
            return found
        given = {slot: values[slot] for slot in self.slots}
        particles = max(value.shape[0] for value in given.values() if value is not None)
        tiled: dict[int, Tensor] = {}
        for slot, function, inputs in steps:
            if self._is_matrix_of_probes(slot, inputs, fixed):
                matrix = cast(Tensor, given[inputs[0]])
                matrix = matrix.expand(particles, *matrix.shape[1:])
                tiled[slot] = self._product(matrix, fixed[inputs[1]], slot, inputs)
                found[slot] = tiled[slot]
                continue
            for i in inputs:
                if i in given and i not in tiled:
                    value = given[i]
                    if value is None:
                        raise RuntimeError("a node was read before it was computed")
                    tiled[i] = value.expand(particles, *value.shape[1:]).repeat_interleave(points, 0)
                elif i not in tiled:
                    tiled[i] = fixed[i].repeat(particles, *(1,) * (fixed[i].ndim - 1))
            tiled[slot] = function(*[tiled[i] for i in inputs])
            found[slot] = tiled[slot]
        return found
