"""Normal parameters as a block: their columns, the densities that they have, and what they move affinely."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.marginals.compilation import needed_steps, without_priors
from synthstats_lightning.scoring.marginals.curved import Curve
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.affine import LOCATIONS, propagate
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine, AffineMaps, Values
from synthstats_lightning.scoring.marginals.gaussian.multiples import Multiples, find_multiples
from synthstats_lightning.scoring.marginals.gaussian.rows import (
    Neighbours,
    Rows,
    autoregression_rows,
    covariance_whitening,
    field_whitening,
    find_neighbours,
    neighbour_rows,
    normal_rows,
    spread,
    vector_rows,
    vector_walk_rows,
    walk_rows,
)

CHECKED_DRAWS = 4
"""Prior draws of the other parameters at which the maps are checked."""


class Evaluated(NamedTuple):
    """What is known of a block at some values of the other parameters.

    Attributes:
        log_prior: Log prior density of the other parameters `[particles]`.
        maps: Nodes that the block moves affinely.
        values: Value of every node that was asked for, in the padded layout.
    """

    log_prior: Float[Tensor, " particles"]
    maps: Mapping[int, Affine]
    values: Values


class NormalBlock:
    """Parameters that are normal given the others and each other.

    Args:
        density: The whole model.
        members: The parameters of the block.
        readers: Nodes outside of the block's own priors that are affine in it and wanted as maps.
        others: Nodes that do not depend on the block and are wanted as values.

    Attributes:
        density: The whole model.
        members: First column of each member's node within the block.
        size: Dimensions of the block.
        inner: Columns of the block in the whole model.
        outer: The other columns.
        curve: The map from coordinates to the other parameters; `None` where these are the coordinates.
    """

    curve: Curve | None = None

    def __init__(
        self,
        density: Density,
        members: Sequence[Parameter],
        readers: Sequence[int],
        others: Sequence[int],
    ) -> None:
        compiled = density.compiled
        self.density = density
        self._compiled = compiled
        members = sorted(members, key=lambda parameter: parameter.node)
        starts = accumulate((parameter.size for parameter in members), initial=0)
        self.members = {parameter.node: start for parameter, start in zip(members, starts, strict=False)}
        self._distributions = {parameter.node: parameter.distribution for parameter in members}
        self.inner = torch.cat([torch.arange(p.start, p.stop) for p in members])
        self.size: int = len(self.inner)
        kept = torch.ones(density.dimension, dtype=torch.bool)
        kept[self.inner] = False
        self.outer = kept.nonzero()[:, 0]
        constant = [each is not None for each in compiled.constants]
        uses = propagate(compiled.graph, constant, frozenset(self.members))
        inputs = {node: compiled.graph.nodes[node].inputs for node in self.members}
        locations = {
            inputs[node][place]
            for node, each in self._distributions.items()
            for place in LOCATIONS[each.name]
        }
        locations |= set(readers)
        self._neighbours: dict[int, Neighbours | None] = {}
        self._moved = {i for i in locations if uses[i].sources}
        self._maps = AffineMaps(compiled, self.members, {i: uses[i].sources for i in sorted(self._moved)})
        self._rest = Density(without_priors(compiled, self.members))
        wanted = {i for each in inputs.values() for i in each if i not in self._moved}
        wanted |= {*others, *(i for i in readers if i not in self._moved)}
        wanted |= {*self._maps.slots, *(step.slot for step in self._rest.compiled.prior_steps)}
        self._steps = needed_steps(compiled.steps, wanted)

    def width(self, without: Collection[int] = ()) -> int:
        """Numbers that the maps of one particle take, about.

        Args:
            without: Nodes whose maps are not wanted.
        """
        return self._maps.width(without)

    def multiples(self, node: int) -> Multiples | None:
        """A node as a constant function of multiples of the block's elements, if it is one.

        Args:
            node: One of the readers.
        """
        return find_multiples(self._compiled, self.members, node, self.size)

    def entries(self, node: int) -> int:
        """How many columns an element of a node may depend on.

        Args:
            node: One of the nodes that the block moves.
        """
        return self._maps.entries(node)

    def log_prior(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, " particles"]:
        """Log prior density of the parameters outside of the block, or of their coordinates, in nats.

        Args:
            theta: Their unconstrained values, or these coordinates.
        """
        if self.curve is None:
            return self._rest.log_prior(self._filled(theta))
        others, log_jacobian = self.curve.parameters(theta)
        return self._rest.log_prior(self._filled(others)) + log_jacobian

    def along(self, curve: Curve) -> NormalBlock:
        """The same block with coordinates in the place of the other parameters.

        Args:
            curve: The map from these coordinates to the other parameters.
        """
        found = copy.copy(self)
        found.curve = curve
        return found

    def coordinates(self, whole: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles outer"]:
        """Coordinates of the other parameters.

        Args:
            whole: Unconstrained values of all of the model's parameters.
        """
        return whole[:, self.outer] if self.curve is None else self.curve.coordinates(whole[:, self.outer])

    def whole(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, "particles dim"]:
        """Columns of the whole model, the block at 0.

        Args:
            theta: Unconstrained values of the other parameters, or their coordinates.
        """
        return self._filled(theta if self.curve is None else self.curve.parameters(theta)[0])

    def _filled(self, theta: Tensor) -> Tensor:
        return theta.new_zeros(len(theta), self.density.dimension).index_copy(1, self.outer, theta)

    def is_constant(self, node: int) -> bool:
        """Whether a node that the block moves depends on nothing else.

        Args:
            node: One of the nodes that the block moves.
        """
        return self._maps.is_constant(node)

    def constant_map(self, node: int) -> Affine:
        """Such a node as a function of the block.

        Args:
            node: One that `is_constant`.
        """
        return self._maps.evaluate_constant(node)

    def evaluate(self, theta: Float[Tensor, "particles outer"], without: Collection[int] = ()) -> Evaluated:
        """The block at some values of the other parameters.

        Args:
            theta: Their unconstrained values, or their coordinates.
            without: Nodes whose maps are not wanted.
        """
        log_prior, values = self._rest.log_prior_and_values(self.whole(theta), self._steps)
        return Evaluated(log_prior, self._maps.evaluate(values, without), values)

    def prior(self, at: Evaluated) -> list[Rows]:
        """Whitened residuals of the block's own distributions.

        Args:
            at: The block at some values of the other parameters.
        """
        return [self._prior_rows(node, at) for node in self.members]

    def _prior_rows(self, node: int, at: Evaluated) -> Rows:
        inputs, shape = self._compiled.graph.nodes[node].inputs, self._compiled.shapes[node]
        name, start = self._distributions[node].name, self.members[node]
        if name == "Normal":
            mean = self.mapped(inputs[0], at, shape)
            return normal_rows(start, mean, self.scale(inputs[1], at, shape))
        if name == "MvNormal":
            mean = self.mapped(inputs[0], at, shape)
            return vector_rows(start, mean, covariance_whitening(self._natural(inputs[1], at.values)))
        if name == "CAR":
            mean = self.mapped(inputs[0], at, shape)
            (_, weights, alpha, tau), allowed = self._of_field(node, at)
            if node not in self._neighbours:
                self._neighbours[node] = find_neighbours(weights, math.prod(shape))
            found = self._neighbours[node]
            if found is None:
                whitening = field_whitening(name, (torch.zeros(1, 1), weights, alpha, tau), allowed)
                return vector_rows(start, mean, whitening)
            return neighbour_rows(start, mean, found, alpha.flatten(), tau.flatten(), allowed)
        if name == "ICAR":
            mean = _known(torch.zeros(1, math.prod(shape)))
            return vector_rows(start, mean, field_whitening(name, *self._of_field(node, at)))
        if name == "AR(Normal)":
            return self._autoregression_rows(node, at)
        if name == "RandomWalk(MvNormal, MvNormal)":
            return self._vector_walk_rows(node, at)
        batch, steps = shape[:-1], (*shape[:-1], shape[-1] - 1)
        first, drift = (self.mapped(i, at, s) for i, s in ((inputs[0], batch), (inputs[2], steps)))
        scales = [_broadcast(self._natural(inputs[i], at.values), s) for i, s in ((1, batch), (3, steps))]
        walks = math.prod(batch)
        return walk_rows(
            start,
            first,
            drift,
            scales[0].reshape(-1, walks, 1),
            scales[1].reshape(-1, walks, steps[-1]),
        )

    def _vector_walk_rows(self, node: int, at: Evaluated) -> Rows:
        mean, covariance, drift, step = self._compiled.graph.nodes[node].inputs
        *batch, length, size = self._compiled.shapes[node]
        return vector_walk_rows(
            self.members[node],
            length,
            self.mapped(mean, at, (*batch, size)),
            self.mapped(drift, at, (*batch, length - 1, size)),
            covariance_whitening(self._matrices(covariance, at, tuple(batch))),
            covariance_whitening(self._matrices(step, at, (*batch, length - 1))),
        )

    def _matrices(self, node: int, at: Evaluated, wanted: Shape) -> Tensor:
        """Matrices, one for all or one for each element of a shape."""
        value = self._natural(node, at.values)
        own = value.shape[1:-2]
        if math.prod(own) == 1:
            return value
        ones = (1,) * (len(wanted) - len(own))
        return value.reshape(len(value), *ones, *value.shape[1:]).expand(
            len(value), *wanted, *value.shape[-2:]
        )

    def _autoregression_rows(self, node: int, at: Evaluated) -> Rows:
        constant, rho, sigma, mean, scale = self._compiled.graph.nodes[node].inputs
        *batch, length = self._compiled.shapes[node]
        series, order = math.prod(batch), self._compiled.shapes[rho][-1]
        first = (*batch, order)
        return autoregression_rows(
            self.members[node],
            length,
            self.mapped(mean, at, first),
            self.mapped(constant, at, tuple(batch)),
            _broadcast(self._natural(rho, at.values), first).reshape(-1, series, order),
            _broadcast(self._natural(scale, at.values), first).reshape(-1, series, order),
            _broadcast(self._natural(sigma, at.values), tuple(batch)).reshape(-1, series, 1),
        )

    def _of_field(self, node: int, at: Evaluated) -> tuple[list[Tensor], Tensor]:
        """Parameters of a normal vector that is given by its neighbours, and where they are allowed."""
        distribution = self._distributions[node]
        parameters, allowed = [], torch.ones(1, dtype=torch.bool)
        for i, constraint in zip(
            self._compiled.graph.nodes[node].inputs, distribution.constraints, strict=True
        ):
            moves = i in self._moved
            value = torch.zeros(1, 1, dtype=torch.float64) if moves else self._natural(i, at.values)
            if constraint.allows is not None:
                holds = constraint.allows(value)
                value = torch.where(holds, value, constraint.fill)
                allowed = allowed & holds.reshape(len(holds), -1).all(1)
            parameters.append(value)
        return parameters, allowed

    def mapped(self, node: int, at: Evaluated, wanted: Shape) -> Affine:
        """A node as a function of the block, an element for each of a shape that it broadcasts to.

        Args:
            node: One of the readers, or a location of the block's own distributions.
            at: The block at some values of the other parameters.
            wanted: The shape that the elements are wanted in.
        """
        if node in at.maps:
            return spread(at.maps[node], self._compiled.shapes[node], wanted)
        value = self._natural(node, at.values)
        return _known(_broadcast(value, wanted))

    def scale(self, node: int, at: Evaluated, wanted: Shape) -> Float[Tensor, "#particles #elements"]:
        """Standard deviations, one for all or one for each element of a shape.

        Args:
            node: What has them as its value; the block does not move it.
            at: The block at some values of the other parameters.
            wanted: The shape that the elements are wanted in.
        """
        value = self._natural(node, at.values)
        if math.prod(value.shape[1:]) == 1:
            return value.reshape(-1, 1)
        return _broadcast(value, wanted)

    def _natural(self, node: int, values: Values) -> Tensor:
        """A node's value `[particles or 1, *shape]`."""
        constant = self._compiled.constants[node]
        if constant is not None:
            return constant.to(torch.float64)[None]
        return cast(Tensor, values[node]).to(torch.float64).reshape(-1, *self._compiled.shapes[node])

    def check(self) -> float:
        """Largest difference between the affine maps and the graph, relative to the terms that are added."""
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            theta = torch.cat(
                [
                    torch.zeros(1, len(self.outer), dtype=torch.float64),
                    self.density.sample_prior(CHECKED_DRAWS, generator)[:, self.outer],
                ]
            )
            _, values = self._rest.log_prior_and_values(self.whole(theta), self._steps)
            x = torch.randn(1, self.size, generator=generator, dtype=torch.float64)
            worst = math.inf
            direct = self._maps.direct(values, x[0])
            for node, affine in self._maps.evaluate(values).items():
                padded = torch.nn.functional.pad(x, (0, 1)).abs()
                terms = affine.origin.abs() + (affine.coefficients.abs() * padded[:, affine.columns]).sum(-1)
                error = (affine.at(x) - direct[node]).abs() / terms.clamp_min(torch.finfo(torch.float64).tiny)
                error = error[terms.isfinite().expand_as(error)]
                if not len(error) or not bool(error.isfinite().all()):
                    return math.inf
                found = float(error.max())
                worst = found if worst is math.inf else max(worst, found)
        return worst


def _broadcast(value: Tensor, wanted: Shape) -> Float[Tensor, "particles elements"]:
    """Each particle's value in a shape that it broadcasts to, which may have more dimensions."""
    own, particles = value.shape[1:], len(value)
    aligned = value.reshape(particles, *(1,) * (len(wanted) - len(own)), *own)
    return aligned.expand(particles, *wanted).reshape(particles, -1)


def _known(value: Float[Tensor, "#particles elements"]) -> Affine:
    """What a block does not move."""
    elements = value.shape[1]
    columns = torch.zeros(elements, 0, dtype=torch.int64)
    return Affine(columns, torch.zeros(1, elements, 0, dtype=torch.float64), value.to(torch.float64))
