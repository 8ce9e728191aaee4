"""A model whose linear-Gaussian block is integrated out exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Parameter, Transform
from synthstats_lightning.scoring.density.many_rows import pieces
from synthstats_lightning.scoring.density.standardise import Anchor
from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.distributions.location_scale import Normal
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.funnels import likelihood_anchors, prior_anchors
from synthstats_lightning.scoring.marginals.gaussian.affine import (
    RESPONSES,
    find_block,
    is_hard,
)
from synthstats_lightning.scoring.marginals.gaussian.arrow import SMALLEST, find_arrow
from synthstats_lightning.scoring.marginals.gaussian.band import find_band
from synthstats_lightning.scoring.marginals.gaussian.hurdle import log_choice
from synthstats_lightning.scoring.marginals.gaussian.latent import Evaluated, NormalBlock
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.multiples import Multiples
from synthstats_lightning.scoring.marginals.gaussian.pattern import Pattern
from synthstats_lightning.scoring.marginals.gaussian.rows import (
    Rows,
    constant_rows,
    response_rows,
    spread,
)
from synthstats_lightning.scoring.marginals.gaussian.solution import (
    Solution,
    cost,
    influence,
    is_sparse,
    raised_scales,
    solve,
    without_and_with,
)
from synthstats_lightning.scoring.marginals.gaussian.sufficient import MOST_ELEMENTS, SufficientRows
from synthstats_lightning.scoring.score import Integration
from synthstats_lightning.scoring.settings import MANY_ROWS

MIN_DIMENSION = 7
"""Models of fewer dimensions are easy as they are unless other parameters scale the block; their rows stay
independent given the parameters."""
MAX_BLOCK = 1_000
"""Most dimensions of a block."""
MAX_COST = 1e7
"""Most multiplications for one particle: a score takes some ten thousand particles."""
TOLERANCE = 1e-8
"""Largest relative difference between the affine maps and the graph."""
MOST_RAISED = 8
"""How often a standard deviation that is too small for leave-one-out is raised, by four digits at most."""
MEMORY = 4_000_000
"""Most numbers held at once: particles beyond that wait for the next chunk."""
MEMORY_OF_PATTERNS = 3 * MEMORY
"""Likewise, where factors go step by step along chains: each step takes long for few particles."""


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
    if response.distribution.entry.name not in RESPONSES or response.forbidden is not None:
        return None
    constant = [value is not None for value in compiled.constants]
    nodes = find_block(compiled.graph, constant)
    easy = density.dimension < MIN_DIMENSION and not is_hard(compiled.graph, constant, nodes)
    if easy and density.num_observations <= MANY_ROWS:
        return None
    members = [parameter for parameter in density.parameters if parameter.node in nodes]
    if not members or any(parameter.transform is not Transform.IDENTITY for parameter in members):
        return None
    size = sum(parameter.size for parameter in members)
    if size > MAX_BLOCK:
        return None
    block = GaussianBlock(density, members)
    if easy and not block.is_sufficient:
        return None
    return block if block.cost <= MAX_COST and block.integration.check <= TOLERANCE else None


class Chunk(NamedTuple):
    """Some particles, with what their block is solved from.

    Attributes:
        log_prior: Log prior density of the parameters outside of the block, in nats.
        prior: Rows of the block's distributions.
        response: Those of the response.
        log_choice: What each row's log density has besides, whatever the block, in nats.
    """

    log_prior: Float[Tensor, " particles"]
    prior: list[Rows]
    response: Rows
    log_choice: Float[Tensor, "#particles rows"]


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
        *chances, mean, scale = compiled.graph.nodes[compiled.graph.response].inputs
        self._mean, self._scale, self._chance = mean, scale, next(iter(chances), None)
        term = compiled.response_term
        value = cast(Tensor, term.value).to(torch.float64)
        self._normal = torch.ones(self.num_observations, dtype=torch.bool) if not chances else value > 0
        # a log-normal response is normal in its logarithm, times a Jacobian of each row
        positive = torch.where(self._normal, value, 1.0)
        self._jacobian = None if term.distribution.entry is Normal.distribution.entry else positive
        self._value = value if self._jacobian is None else positive.log()
        self._block = NormalBlock(density, members, (mean,), (scale, *chances))
        self._size = self._block.size
        self._outer = self._block.outer
        self.dimension: int = len(self._outer)
        self._multiples: Multiples | None = None
        self._sufficient = self._sufficient_rows()
        self._pattern = None if self.is_sufficient else self._find_pattern()
        if self._pattern is None and not self._block.is_constant(mean):
            self._multiples = self._block.multiples(mean)
            self._sufficient = self._sufficient_rows()
        entries = self._block.entries(mean)
        if self._pattern is not None:
            self.cost = self._pattern.cost + self.num_observations * entries**2
        else:
            self.cost = cost(self.num_observations, entries, self._size)
        if self.is_sufficient:
            self.cost = cost(1, self._size, self._size)
        self.integration = Integration("exact", self._size, self._block.check())

    @property
    def is_sufficient(self) -> bool:
        """Whether a particle takes no longer for many rows than for few."""
        return self._sufficient is not None

    def _find_pattern(self) -> Pattern | None:
        """Groups or chains of the block's precision: which columns a row reads is known beforehand."""
        if self._size < SMALLEST:
            return None
        with torch.no_grad():
            at = self._block.evaluate(torch.zeros(1, self.dimension, dtype=torch.float64))
            every = [*self._block.prior(at), self._response(at)]
        if not all(is_sparse(rows, self._size) for rows in every):
            return None
        columns = [rows.affine.columns for rows in every]
        return find_arrow(columns, self._size) or find_band(columns, self._size)

    def _sufficient_rows(self) -> SufficientRows | None:
        """Statistics of many rows, if their mean depends on multiples of the block alone, and one scale."""
        shapes, scale = self._compiled.shapes, self._scale
        if self.num_observations <= MANY_ROWS or self._size > MOST_ELEMENTS:
            return None
        if math.prod(shapes[scale]) != 1 or self._jacobian is not None:
            return None
        if self._multiples is None and not self._block.is_constant(self._mean):
            return None
        affine = self._multiples.affine if self._multiples else self._block.constant_map(self._mean)
        one = torch.ones(1, 1, dtype=torch.float64)
        return SufficientRows(response_rows(self._value, self._spread(affine), one).affine, self._size)

    def _spread(self, mean: Affine) -> Affine:
        shapes = self._compiled.shapes
        return spread(mean, shapes[self._mean], shapes[self._compiled.graph.response])

    def log_prior(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, " particles"]:
        """Log prior density of the parameters outside of the block, in nats."""
        return self._block.log_prior(theta)

    def log_likelihood(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, "particles rows"]:
        """Log density of the response given them, in equal shares of rows."""
        return self.log_prior_and_likelihood(theta)[1]

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles outer"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Both at once, with shared work done once."""
        every = torch.ones(self.num_observations, dtype=torch.bool)
        priors, totals = [], []
        for chunk in self._rows(theta):
            priors.append(chunk.log_prior)
            totals.append(self._total(chunk, every))
        shares = (torch.cat(totals) / self.num_observations)[:, None]
        return torch.cat(priors), shares.expand(-1, self.num_observations)

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log density of some rows together."""
        return torch.cat([self._total(chunk, given) for chunk in self._rows(theta)])

    def marginals(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log density of some rows (all if `None`) together, and of these with one row less or more."""
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        totals, changes = [], []
        normal = given & self._normal
        for chunk in self._rows(theta, each=True):
            response = chunk.response
            found = self._solve(chunk, response, given)
            total = found.log_evidence + self._choices(chunk, given)
            if self._sufficient is None:
                moved = influence(found, response)
                for _ in range(MOST_RAISED):
                    raised = raised_scales(moved, response.scale, normal, found.factor.exists)
                    if raised is None:
                        break
                    response = response._replace(scale=raised)
                    moved = influence(self._solve(chunk, response, given), response)
            else:
                moved = self._sufficient.influence(found, response.scale, response.factors)
            each = without_and_with(moved, response.log_scales(), normal)
            each = torch.where(self._normal, each, 0.0) + chunk.log_choice
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
        members = self._block.members
        return tuple(parameter for parameter in self.density.funnels if parameter.node not in members)

    def standardised(
        self, theta: Float[Tensor, " outer"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> GaussianBlock:
        """The same target in coordinates without funnels; see `Density.standardised`.

        Args:
            theta: Parameters outside of the block near which the likelihood's curvature counts; `None` to
                standardise by the prior alone.
            given: Which rows of the response count; all by default.
        """
        funnels = self.funnels
        if not funnels:
            return self
        if theta is None:
            return self._anchored(prior_anchors(funnels))
        centred = self._anchored({})
        rows = torch.ones(self.num_observations, dtype=torch.bool) if given is None else given
        before = [int((centred._outer < p.start).sum()) for p in centred.density.parameters]
        columns = {
            p.node: slice(first, first + p.size)
            for p, first in zip(centred.density.parameters, before, strict=True)
        }
        here = self.density.transferred(self._block.whole(theta[None]), centred.density)[0, centred._outer]
        anchors = likelihood_anchors(lambda x: centred.log_likelihood_given(x, rows), here, funnels, columns)
        return self._anchored(anchors)

    def _anchored(self, anchors: Mapping[int, Anchor]) -> GaussianBlock:
        density = self.density.anchored(anchors)
        return GaussianBlock(density, [p for p in density.parameters if p.node in self._block.members])

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
        for chunk in self._rows(theta):
            found = self._solve(chunk, chunk.response, given)
            noise = torch.randn(found.mean.shape, generator=generator, dtype=torch.float64)
            blocks.append(found.mean + found.factor.away(noise))
        return self._block.whole(theta).index_copy(1, self._block.inner, torch.cat(blocks))

    def _solve(self, chunk: Chunk, response: Rows, given: Tensor, only_evidence: bool = False) -> Solution:
        if self._sufficient is not None:
            rows = self._sufficient.given(given, response.scale, response.allowed)
            rows = rows._replace(factors=response.factors)
        else:
            given = given & self._normal
            rows = response if bool(given.all()) else response.some(given)
        return solve(chunk.prior, rows, self._size, len(chunk.log_prior), self._pattern, only_evidence)

    def _total(self, chunk: Chunk, given: Tensor) -> Tensor:
        """Log density of some rows together."""
        found = self._solve(chunk, chunk.response, given, only_evidence=True)
        return found.log_evidence + self._choices(chunk, given)

    def _choices(self, chunk: Chunk, given: Tensor) -> Tensor:
        return torch.where(given, chunk.log_choice, 0.0).sum(-1)

    def _rows(self, theta: Tensor, each: bool = False) -> Iterator[Chunk]:
        """What the block is solved from, for particles chunk by chunk.

        Args:
            theta: Parameters outside of the block.
            each: Whether densities of single rows are wanted, also where sums need none.
        """
        rows = self.num_observations if each or not self.is_sufficient else self._size
        without = [self._mean] if self.is_sufficient or self._multiples else []
        width = self._block.width(without) + 8 * rows
        if self._pattern is None:
            width += 4 * self._size**2
            if self._multiples and not self.is_sufficient:
                # designs with weights or factors of their own
                width += 2 * rows * self._size
        else:
            one_scale = math.prod(self._compiled.shapes[self._scale]) == 1
            shared = one_scale and self._block.is_constant(self._mean)
            entries = 0 if shared else self._block.entries(self._mean)
            width += self._pattern.numbers + self._pattern.work + rows * entries * (entries + 1)
        memory = MEMORY if self._pattern is None else MEMORY_OF_PATTERNS
        for part in pieces(theta, memory // width):
            at = self._block.evaluate(part, without)
            yield Chunk(at.log_prior, self._block.prior(at), self._response(at), self._log_choice(at))

    def _response(self, at: Evaluated) -> Rows:
        wanted = self._compiled.shapes[self._compiled.graph.response]
        scale = self._block.scale(self._scale, at, wanted)
        factors = self._multiples.factors(at.values) if self._multiples else None
        if self._sufficient is not None:
            return constant_rows(self._sufficient.affine, scale)._replace(factors=factors)
        if self._multiples:
            mean = self._spread(self._multiples.affine)
        else:
            mean = self._block.mapped(self._mean, at, wanted)
        return response_rows(self._value, mean, scale, self._jacobian)._replace(factors=factors)

    def _log_choice(self, at: Evaluated) -> Tensor:
        if self._chance is None:
            return torch.zeros(1, self.num_observations, dtype=torch.float64)
        wanted = self._compiled.shapes[self._compiled.graph.response]
        return log_choice(self._normal, self._block.scale(self._chance, at, wanted))
