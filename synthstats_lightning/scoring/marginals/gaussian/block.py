"""A model whose linear-Gaussian block is integrated out exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Parameter, Transform
from synthstats_lightning.scoring.density.standardise import Anchor, find_anchors
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.distributions.location_scale import Normal
from synthstats_lightning.scoring.marginals.compilation import needed_steps, without_priors
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.affine import (
    LOCATIONS,
    find_block,
    is_hard,
    propagate,
)
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine, AffineMaps, Values
from synthstats_lightning.scoring.marginals.gaussian.rows import (
    Rows,
    Whitening,
    covariance_whitening,
    field_whitening,
    normal_rows,
    response_rows,
    spread,
    vector_rows,
    walk_rows,
)
from synthstats_lightning.scoring.marginals.gaussian.solution import (
    Solution,
    cost,
    influence,
    solve,
    without_and_with,
)
from synthstats_lightning.scoring.score import Integration

MIN_DIMENSION = 7
"""Models of fewer dimensions are easy as they are unless other parameters scale the block; their rows stay
independent given the parameters."""
MAX_BLOCK = 1_000
"""Most dimensions of a block."""
MAX_COST = 1e7
"""Most multiplications for one particle: a score takes some ten thousand particles."""
TOLERANCE = 1e-8
"""Largest relative difference between the affine maps and the graph."""
MEMORY = 4_000_000
"""Most numbers held at once: particles beyond that wait for the next chunk."""
CHECKED_DRAWS = 4
"""Prior draws of the other parameters at which the maps are checked."""


def integrate_gaussian(density: Density) -> GaussianBlock | None:
    """A model without its linear-Gaussian block.

    Args:
        density: The model with its data.

    Returns:
        `None` where there is no such block, where it is not worth it or costs too much, and where the numeric
        check of its being affine fails.
    """
    compiled = density.compiled
    response = compiled.response_term
    if compiled.labels is not None:
        return None
    # a rounded response follows another distribution, whose rows have the probability of intervals
    if response.distribution is not Normal.distribution or response.forbidden is not None:
        return None
    constant = [value is not None for value in compiled.constants]
    nodes = find_block(compiled.graph, constant)
    if density.dimension < MIN_DIMENSION and not is_hard(compiled.graph, constant, nodes):
        return None
    members = [parameter for parameter in density.parameters if parameter.node in nodes]
    if not members or any(parameter.transform is not Transform.IDENTITY for parameter in members):
        return None
    size = sum(parameter.size for parameter in members)
    if size > MAX_BLOCK or cost(0, 1, size) > MAX_COST:
        return None
    block = GaussianBlock(density, members)
    return block if block.cost <= MAX_COST and block.integration.check <= TOLERANCE else None


class GaussianBlock:
    """A model as a target over the parameters outside of a block, given which all else is normal.

    Rows depend on each other given these; all densities are exact.

    Args:
        density: The whole model.
        members: The parameters of the block.

    Attributes:
        density: The whole model.
        integration: What was integrated out, with the relative error of the affine maps.
        dimension: Unconstrained parameters outside of the block.
        num_observations: Rows of the response.
        cost: Multiplications for one particle, about.
    """

    coupled = True

    def __init__(self, density: Density, members: Sequence[Parameter]) -> None:
        compiled = density.compiled
        self.density = density
        self.num_observations: int = density.num_observations
        self._compiled = compiled
        members = sorted(members, key=lambda parameter: parameter.node)
        starts = accumulate((parameter.size for parameter in members), initial=0)
        self._members = {parameter.node: start for parameter, start in zip(members, starts, strict=False)}
        self._distributions = {parameter.node: parameter.distribution for parameter in members}
        self._inner = torch.cat([torch.arange(p.start, p.stop) for p in members])
        self._size = len(self._inner)
        kept = torch.ones(density.dimension, dtype=torch.bool)
        kept[self._inner] = False
        self._outer = kept.nonzero()[:, 0]
        self.dimension: int = len(self._outer)
        constant = [each is not None for each in compiled.constants]
        uses = propagate(compiled.graph, constant, frozenset(self._members))
        places = {node: LOCATIONS[each.name] for node, each in self._distributions.items()}
        places[compiled.graph.response] = (0,)
        inputs = {node: compiled.graph.nodes[node].inputs for node in places}
        locations = {inputs[node][place] for node, found in places.items() for place in found}
        self._maps = AffineMaps(
            compiled, self._members, {i: uses[i].sources for i in sorted(locations) if uses[i].sources}
        )
        self._moved = {i for i in locations if uses[i].sources}
        self._rest = Density(without_priors(compiled, self._members))
        wanted = {i for node in places for i in inputs[node] if i not in self._moved}
        prior_steps = self._rest.compiled.prior_steps
        wanted |= {*self._maps.slots, *(step.slot for step in prior_steps)}
        self._steps = needed_steps(compiled.steps, wanted)
        entries = self._maps.entries(inputs[compiled.graph.response][0])
        self.cost = cost(self.num_observations, entries, self._size)
        self.integration = Integration("exact", self._size, self._check())

    def log_prior(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, " particles"]:
        """Log prior density of the parameters outside of the block, in nats."""
        return self._rest.log_prior(self._whole(theta))

    def log_likelihood(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, "particles rows"]:
        """Log density of the response given them, in equal shares of rows."""
        return self.log_prior_and_likelihood(theta)[1]

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles outer"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Both at once, with shared work done once."""
        every = torch.ones(self.num_observations, dtype=torch.bool)
        priors, totals = [], []
        for log_prior, prior, response in self._rows(theta):
            priors.append(log_prior)
            totals.append(self._solve(prior, response, every, len(log_prior)).log_evidence)
        shares = (torch.cat(totals) / self.num_observations)[:, None]
        return torch.cat(priors), shares.expand(-1, self.num_observations)

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log density of some rows together."""
        found = [
            self._solve(prior, response, given, len(log_prior)).log_evidence
            for log_prior, prior, response in self._rows(theta)
        ]
        return torch.cat(found)

    def marginals(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log density of some rows (all if `None`) together, and of these with one row less or more."""
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        totals, changes = [], []
        for log_prior, prior, response in self._rows(theta):
            found = self._solve(prior, response, given, len(log_prior))
            each = without_and_with(influence(found, response), response.log_scales(), given)
            total = found.log_evidence
            changed = torch.where(given, total[:, None] - each, total[:, None] + each)
            possible = total.isfinite()[:, None] & changed.isfinite()
            totals.append(total)
            changes.append(torch.where(possible, changed, -math.inf))
        return Marginals(torch.cat(totals), torch.cat(changes))

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "particles outer"]:
        """Independent draws from the prior of the parameters outside of the block."""
        return self.density.sample_prior(n, generator)[:, self._outer]

    @property
    def funnels(self) -> tuple[Parameter, ...]:
        """Parameters outside of the block that are worth standardising."""
        return tuple(parameter for parameter in self.density.funnels if parameter.node not in self._members)

    def standardised(
        self, theta: Float[Tensor, " outer"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> GaussianBlock:
        """The same target in coordinates without funnels; see `Density.standardised`.

        Args:
            theta: Parameters outside of the block near which the likelihood's curvature counts; `None` to
                standardise by the prior alone.
            given: Which rows of the response count; all by default.
        """
        shapes = {parameter.node: parameter.shape for parameter in self.funnels}
        if not shapes:
            return self
        if theta is None:
            zeros = {node: torch.zeros(shape, dtype=torch.float64) for node, shape in shapes.items()}
            return self._anchored({node: Anchor(zero, zero) for node, zero in zeros.items()})
        centred = self._anchored({})
        rows = torch.ones(self.num_observations, dtype=torch.bool) if given is None else given
        before = [int((centred._outer < p.start).sum()) for p in centred.density.parameters]
        columns = {
            p.node: slice(first, first + p.size)
            for p, first in zip(centred.density.parameters, before, strict=True)
            if p.node in shapes
        }
        here = self.density.transferred(self._whole(theta[None]), centred.density)[0, centred._outer]
        found = find_anchors(lambda x: centred.log_likelihood_given(x, rows), here, columns)
        return self._anchored(
            {node: Anchor(*(part.reshape(shapes[node]) for part in found[node])) for node in shapes}
        )

    def _anchored(self, anchors: Mapping[int, Anchor]) -> GaussianBlock:
        density = self.density.anchored(anchors)
        return GaussianBlock(density, [p for p in density.parameters if p.node in self._members])

    def complete(
        self,
        theta: Float[Tensor, "particles outer"],
        generator: torch.Generator,
        given: Bool[Tensor, " rows"],
    ) -> Float[Tensor, "particles dim"]:
        """All parameters of the model, the block drawn given the others and some rows of the response.

        Args:
            theta: Parameters outside of the block.
            generator: Source of the draws.
            given: Which rows are given.
        """
        blocks = []
        for log_prior, prior, response in self._rows(theta):
            found = self._solve(prior, response, given, len(log_prior))
            noise = torch.randn(found.mean.shape, generator=generator, dtype=torch.float64)[:, :, None]
            away = torch.linalg.solve_triangular(found.lower.mT, noise, upper=True)[:, :, 0]
            blocks.append(found.mean + away)
        return self._whole(theta).index_copy(1, self._inner, torch.cat(blocks))

    def _whole(self, theta: Tensor) -> Tensor:
        """Columns of the whole model, the block at 0."""
        return theta.new_zeros(len(theta), self.density.dimension).index_copy(1, self._outer, theta)

    def _solve(self, prior: Sequence[Rows], response: Rows, given: Tensor, particles: int) -> Solution:
        rows = response if bool(given.all()) else response.some(given)
        found = solve(prior, rows, self._size)
        if len(found.mean) == particles:
            return found
        return Solution(*(part.expand(particles, *part.shape[1:]) for part in found))

    def _rows(self, theta: Tensor) -> Iterator[tuple[Tensor, list[Rows], Rows]]:
        """Log prior, rows of the block's distributions and of the response, for particles chunk by chunk."""
        width = self._maps.width + 4 * self._size**2 + 8 * self.num_observations
        for part in torch.split(theta, max(1, MEMORY // width)):
            log_prior, values = self._rest.log_prior_and_values(self._whole(part), self._steps)
            maps = self._maps.evaluate(values)
            prior = [self._prior_rows(node, maps, values) for node in self._members]
            yield log_prior, prior, self._response(maps, values)

    def _response(self, maps: Mapping[int, Affine], values: Values) -> Rows:
        graph, shapes = self._compiled.graph, self._compiled.shapes
        mean, scale = graph.nodes[graph.response].inputs
        wanted = shapes[graph.response]
        return response_rows(
            cast(Tensor, self._compiled.response_term.value),
            self._map(mean, maps, values, wanted),
            self._scale(scale, values, wanted),
        )

    def _prior_rows(self, node: int, maps: Mapping[int, Affine], values: Values) -> Rows:
        inputs, shape = self._compiled.graph.nodes[node].inputs, self._compiled.shapes[node]
        name, start = self._distributions[node].name, self._members[node]
        if name == "Normal":
            mean = self._map(inputs[0], maps, values, shape)
            return normal_rows(start, mean, self._scale(inputs[1], values, shape))
        if name == "MvNormal":
            mean = self._map(inputs[0], maps, values, shape)
            return vector_rows(start, mean, covariance_whitening(self._natural(inputs[1], values)))
        if name == "CAR":
            mean = self._map(inputs[0], maps, values, shape)
            return vector_rows(start, mean, self._field(node, values))
        if name == "ICAR":
            return vector_rows(start, _known(torch.zeros(1, math.prod(shape))), self._field(node, values))
        batch, steps = shape[:-1], (*shape[:-1], shape[-1] - 1)
        first, drift = (self._map(i, maps, values, s) for i, s in ((inputs[0], batch), (inputs[2], steps)))
        scales = [self._natural(inputs[1], values).expand(-1, *batch), self._natural(inputs[3], values)]
        walks = math.prod(batch)
        return walk_rows(
            start,
            first,
            drift,
            scales[0].reshape(-1, walks, 1),
            scales[1].expand(-1, *steps).reshape(-1, walks, steps[-1]),
        )

    def _field(self, node: int, values: Values) -> Whitening:
        """The whitening of a normal vector that is given by its neighbours."""
        distribution = self._distributions[node]
        parameters, allowed = [], torch.ones(1, dtype=torch.bool)
        for i, constraint in zip(
            self._compiled.graph.nodes[node].inputs, distribution.constraints, strict=True
        ):
            value = (
                self._natural(i, values) if i not in self._moved else torch.zeros(1, 1, dtype=torch.float64)
            )
            if constraint.allows is not None:
                holds = constraint.allows(value)
                value = torch.where(holds, value, constraint.fill)
                allowed = allowed & holds.reshape(len(holds), -1).all(1)
            parameters.append(value)
        return field_whitening(distribution.name, parameters, allowed)

    def _map(self, node: int, maps: Mapping[int, Affine], values: Values, wanted: Shape) -> Affine:
        """A mean as a function of the block, an element for each of a shape that it broadcasts to."""
        if node in maps:
            return spread(maps[node], self._compiled.shapes[node], wanted)
        value = self._natural(node, values)
        return _known(value.expand(len(value), *wanted).reshape(len(value), -1))

    def _scale(self, node: int, values: Values, wanted: Shape) -> Tensor:
        """Standard deviations, one for all or one for each element of a shape."""
        value = self._natural(node, values)
        if math.prod(value.shape[1:]) == 1:
            return value.reshape(-1, 1)
        return value.expand(len(value), *wanted).reshape(len(value), -1)

    def _natural(self, node: int, values: Values) -> Tensor:
        """A node's value `[particles or 1, *shape]`."""
        constant = self._compiled.constants[node]
        if constant is not None:
            return constant.to(torch.float64)[None]
        return cast(Tensor, values[node]).to(torch.float64).reshape(-1, *self._compiled.shapes[node])

    def _check(self) -> float:
        """Largest difference between the affine maps and the graph, relative to the terms that are added."""
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            theta = torch.cat(
                [
                    torch.zeros(1, self.dimension, dtype=torch.float64),
                    self.sample_prior(CHECKED_DRAWS, generator),
                ]
            )
            _, values = self._rest.log_prior_and_values(self._whole(theta), self._steps)
            x = torch.randn(1, self._size, generator=generator, dtype=torch.float64)
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


def _known(value: Float[Tensor, "#particles elements"]) -> Affine:
    """What a block does not move."""
    elements = value.shape[1]
    columns = torch.zeros(elements, 0, dtype=torch.int64)
    return Affine(columns, torch.zeros(1, elements, 0, dtype=torch.float64), value.to(torch.float64))
