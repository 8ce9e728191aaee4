"""A model without a block of normal parameters that enter another likelihood than a normal one."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.many_rows import pieces
from synthstats_lightning.scoring.density.target import GradientNeeded, Marginals
from synthstats_lightning.scoring.marginals.curved import Curve
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.latent import Evaluated, NormalBlock
from synthstats_lightning.scoring.marginals.laplace.adjoint import Slopes, mass_at_mode, with_gradient
from synthstats_lightning.scoring.marginals.laplace.affordable import (
    ADDED_DRAWS,
    ALONE,
    LEAST_PARTICLES,
    LEAVE_ONE_OUT_DRAWS,
    MANY,
    affordable_draws,
    most_particles,
    work_for,
)
from synthstats_lightning.scoring.marginals.laplace.check import check
from synthstats_lightning.scoring.marginals.laplace.copies import Changes, Copies
from synthstats_lightning.scoring.marginals.laplace.leave_out import (
    cavities,
    log_mean,
    together_by,
    without_each,
)
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer, Sites
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.movers import Movers, candidates, first_movers, own_alone
from synthstats_lightning.scoring.marginals.laplace.noise import antithetic_noise, one_of
from synthstats_lightning.scoring.marginals.laplace.parts import Last, LastAdded, Part, weighted
from synthstats_lightning.scoring.marginals.laplace.precision import Shape, known_of
from synthstats_lightning.scoring.marginals.laplace.predictor import Predictor
from synthstats_lightning.scoring.marginals.laplace.products import Products
from synthstats_lightning.scoring.marginals.laplace.proposal import (
    AMONG_KINKS,
    NEAR,
    TOLERANCE,
    Proposal,
    prior_of,
    propose,
)
from synthstats_lightning.scoring.marginals.laplace.starts import Starts
from synthstats_lightning.scoring.score import Integration

DRAWS, DRAWS_OF_MANY = 8, 4
"""Draws of the block for each value of the other parameters, and where more rows than this differ."""
DRAWN = 64
"""Draws of which one stands for the posterior of the block."""
FOLLOWED = 12
"""Numbers of rows and elements that are held for each particle whose gradient is followed."""
MEMORY = 8_000_000
"""Most numbers held at once."""


class LaplaceIntegrated:
    """A model as a target over the parameters outside of a block, given which the block is normal a priori.

    Given these and some rows, the block is drawn from the normal distribution at the mode of its density, and
    weighted: the mean weight is an unbiased estimate of the rows' density, whatever the quality of the
    proposal. Its random numbers depend on the parameters outside alone, so that it is a function of them, and
    their errors average out over them. `smooth` is the same target without the correction.

    Args:
        density: The whole model.
        predictor: The block and the node through which the response depends on it, of the rows that differ.
        check: What `checked_at` found; NaN before.

    Attributes:
        density: The whole model.
        predictor: The block and the node through which the response depends on it, of the rows that differ.
        copies: Rows of the response as copies of those that differ.
        shape: That of the block's precision, where it has one.
        dimension: Unconstrained parameters outside of the block.
        num_observations: Rows of the response.
        coupled: True: rows depend on each other given the parameters outside.
        check: What `checked_at` found; NaN before.
    """

    coupled = True

    def __init__(self, density: Density, predictor: Predictor, check: float = math.nan) -> None:
        distinct = density.distinct
        self.density = density
        self.copies = Copies(density.num_observations, density.different)
        self.predictor, self.check = predictor, check
        self.num_observations: int = density.num_observations
        self._shape = distinct.compiled.shapes[predictor.node]
        self.likelihood = Likelihood(distinct.compiled, predictor, density.different is not None)
        members = [parameter for parameter in distinct.parameters if parameter.node in predictor.block]
        self.block = NormalBlock(distinct, members, (predictor.node,), self.likelihood.slots)
        self.size: int = self.block.size
        self.dimension: int = len(self.block.outer)
        self.shape, self._products = self._find_shape()
        self.corrected = True
        self._last: Last | None = None
        self._last_added: LastAdded | None = None
        # not at 0, where derivatives of some likelihoods vanish
        noise = torch.randn(1, self.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.starts = Starts(1e-3 * noise)
        self.movers: Movers = first_movers(self.likelihood.groups)
        self.tried_movers: Callable[[], Iterable[Movers]] = lambda: (self.movers,)

    @property
    def integration(self) -> Integration:
        """What was integrated out, and how well."""
        return Integration("laplace", self.size, self.check)

    @property
    def smooth(self) -> LaplaceIntegrated:
        """The same target without the correction: a smooth approximation, for searches and proposals."""
        if not self.corrected:
            return self
        found = copy.copy(self)
        found.corrected = False
        return found

    @property
    def straight(self) -> bool:
        """Whether coordinates are such that the posterior is nearly normal in them."""
        return self.block.curve is not None

    @property
    def factored(self) -> int:
        """Dimensions of the dense matrices that each density factors several times."""
        return self.size if self.shape is None else 0

    def along(self, curve: Curve) -> LaplaceIntegrated:
        """The same target with coordinates in the place of the parameters outside of the block.

        Args:
            curve: From coordinates to the parameters outside of the block.
        """
        found = copy.copy(self)
        found.block, found.starts = self.block.along(curve), Starts(self.starts.default)
        return found

    def started_at(self, theta: Float[Tensor, "1 outer"]) -> LaplaceIntegrated:
        """The same target with searches that start at the block's mode at given parameters.

        What moves with which row is taken from there, too.

        Args:
            theta: Parameters outside of the block.
        """
        with torch.no_grad():
            part = next(self._parts(theta, 1))
            proposal = self._propose(part, self._everything)
        found = copy.copy(self)
        found._last, found._last_added = None, None
        if bool(proposal.log_mass.isfinite().all()):
            found.starts = Starts(proposal.mean + self.starts.default)
            found.tried_movers = self._movers(part, proposal)
            found.movers = next(iter(found.tried_movers()))
        return found

    def _movers(self, part: Part, proposal: Proposal) -> Callable[[], Iterable[Movers]]:
        """What moves with which row: as little as may do, then more, for where a check says so."""
        groups = self.likelihood.groups
        if self.likelihood.kinked:
            return lambda: (own_alone(groups),)
        rows = self.copies.number
        most = int(work_for(rows) / (LEAVE_ONE_OUT_DRAWS[0] * LEAST_PARTICLES * rows))
        cavity = cavities(self.likelihood, part.outer, proposal, proposal.factor.variances(part.design))
        push = cavity.push(proposal.shift, groups)[0]
        return lambda: candidates(proposal, part.design, push, groups, most)

    def log_prior(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, " particles"]:
        """Log prior density of the parameters outside of the block, in nats."""
        return self.block.log_prior(theta)

    def log_likelihood(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, "particles rows"]:
        """Log density of the response given them, in equal shares of rows."""
        total = self.log_likelihood_given(theta, torch.ones(self.num_observations, dtype=torch.bool))
        return (total / self.num_observations)[:, None].expand(-1, self.num_observations)

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles outer"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Both at once."""
        return self.log_prior(theta), self.log_likelihood(theta)

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log density of some rows together. Its gradient is that of the approximation."""
        counts = self.copies.of(given)
        if torch.is_grad_enabled() and theta.requires_grad:
            return with_gradient(theta, lambda x: self._total(x, counts), lambda x: self._slopes(x, counts))
        if not self.corrected or bool(given.all()) or self.dimension == 0:
            return self._total(theta, counts)
        added: list[Tensor] = []
        # as many draws as densities of single rows take, which are wanted next
        total = self._total(theta, counts, self._affordable_draws(len(theta), 1, ADDED_DRAWS), added)
        self._last_added = LastAdded(theta.clone(), given.clone(), self.copies.spread(torch.cat(added)))
        return total

    def marginals(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log density of some rows (all if `None`) together, and of these with one row less or more."""
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        if not self.corrected:
            return self._approximate_marginals(theta, given)
        last = self._last
        if last is not None and torch.equal(last.given, given) and torch.equal(last.theta, theta):
            return last.found
        draws = self.leave_one_out_draws(len(theta))
        found = self.marginals_by(theta, given, draws, self.movers)
        self._last = Last(theta.clone(), given.clone(), found)
        return found

    def leave_one_out_draws(self, particles: int) -> int:
        """Draws of the block for each of some particles.

        Args:
            particles: Number of particles.
        """
        return self._affordable_draws(particles, self.movers.most, LEAVE_ONE_OUT_DRAWS)

    def _affordable_draws(self, particles: int, times: int, limits: tuple[int, int, int]) -> int:
        if self.dimension == 0:
            return limits[-1]
        return affordable_draws(self.copies.number, self.size, particles, times, limits[:2])

    @property
    def most_particles(self) -> int:
        """Particles that leave-one-out is affordable for."""
        return most_particles(self.copies.number, self.size, self.movers.most, LEAVE_ONE_OUT_DRAWS[0])

    def added_densities(
        self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, "particles rows"]:
        """Log density of each row given some others, of which it is none.

        Args:
            theta: Parameters outside of the block.
            given: The rows that are given.
        """
        last = self._last_added
        if last is not None and last.is_of(theta, given):
            return last.found
        draws = self._affordable_draws(len(theta), 1, ADDED_DRAWS)
        found, counts = [], self.copies.of(given)
        with torch.no_grad():
            for part in self._parts(theta, draws * self._width):
                proposal = self._propose(part, counts)
                noise = antithetic_noise(part.theta, draws, self.size)
                found.append(weighted(self.likelihood, part, proposal, counts, noise).added)
        return self.copies.spread(torch.cat(found))

    def marginals_by(
        self,
        theta: Float[Tensor, "particles outer"],
        given: Bool[Tensor, " rows"],
        draws: int,
        movers: Movers,
        stream: int = 0,
    ) -> Marginals:
        """As `marginals`, with as many draws and as many moving rows as asked for.

        Args:
            theta: Parameters outside of the block.
            given: Which rows count.
            draws: An even number of draws of the block for each particle.
            movers: Which elements of the predictor move with which rows.
            stream: Different streams have different draws.
        """
        width = movers.most * (2 * self.likelihood.elements + 3 * self.copies.number)
        together = max(2, min(draws, MEMORY // width // 2 * 2))
        size = max(1, MEMORY // (6 * self.size**2 + together * width))
        counts = self.copies.of(given)
        every = []
        with torch.no_grad():
            for part in self._parts(theta, self._width):
                proposal = self._propose(part, counts)
                for index in torch.split(torch.arange(len(part.theta)), size):
                    few = len(index) == len(part.theta)
                    some = (part, proposal) if few else (part.select(index), proposal.select(index))
                    every.append(self._changed(*some, given, draws, together, movers, stream))
        return Marginals(*map(torch.cat, zip(*every, strict=True)))

    def _changed(
        self,
        part: Part,
        proposal: Proposal,
        given: Tensor,
        draws: int,
        together: int,
        movers: Movers,
        stream: int,
    ) -> Marginals:
        """As `marginals_by`, of some particles whose proposal is known, by so many draws at once."""
        noise = antithetic_noise(part.theta, draws, self.size, stream)
        counts = self.copies.of(given)
        found = [
            without_each(self.likelihood, part.outer, proposal, part.design, movers, counts, some)
            for some in torch.split(noise, together, 1)
        ]
        total, less, more = together_by(found, [some.shape[1] for some in torch.split(noise, together, 1)])
        changed = self.copies.changed(Changes(total, less, more), given).changed
        return Marginals(total, torch.where(total.isfinite()[:, None], changed, -math.inf))

    def log_weights(
        self, theta: Float[Tensor, "particles outer"], draws: int, stream: int = 0
    ) -> Float[Tensor, "particles draws"]:
        """Log weights of draws of the block given all rows; their mean corrects the approximation.

        Args:
            theta: Parameters outside of the block.
            draws: An even number of draws for each particle.
            stream: Different streams have different draws.
        """
        found = []
        with torch.no_grad():
            for part in self._parts(theta, draws * self._width):
                proposal = self._propose(part, self._everything)
                noise = antithetic_noise(part.theta, draws, self.size, stream)
                found.append(weighted(self.likelihood, part, proposal, self._everything, noise).weight)
        return torch.cat(found)

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "particles outer"]:
        """Independent draws from the prior of the parameters outside of the block."""
        return self.block.coordinates(self.density.sample_prior(n, generator))

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
        blocks, counts = [], self.copies.of(given)
        with torch.no_grad():
            for part in self._parts(theta, DRAWN * self._width):
                proposal = self._propose(part, counts)
                shape = (len(part.theta), DRAWN, self.size)
                noise = torch.randn(shape, generator=generator, dtype=torch.float64)
                found = weighted(self.likelihood, part, proposal, counts, noise)
                chosen = one_of(found.weight, generator)
                blocks.append(found.x[torch.arange(len(chosen)), chosen])
        return self.block.whole(theta).index_copy(1, self.block.inner, torch.cat(blocks))

    @property
    def checked(self) -> bool:
        """Whether the proposal was checked at draws from the posterior."""
        return not math.isnan(self.check)

    def with_check(self, check: float, movers: Movers) -> LaplaceIntegrated:
        """The same target with what a check found.

        Args:
            check: What scores may be off by, in nats.
            movers: Which elements move with which rows in what it looked at.
        """
        found = copy.copy(self)
        found.check, found.movers, found.tried_movers = check, movers, lambda: (movers,)
        found._last = found._last_added = None
        return found

    def checked_at(self, theta: Float[Tensor, "particles outer"]) -> LaplaceIntegrated | None:
        """The same with what a check found, or `None` if it failed.

        Args:
            theta: Draws from the posterior of the parameters that are left.
        """
        found, target = check(self, theta), self
        if found is None and self.dimension:
            # what moves with which row was looked for at a prior draw, which a vague prior may have far off
            target = self.started_at(theta[:1])
            found = check(target, theta)
        return None if found is None else target.with_check(*found)

    @property
    def _everything(self) -> Tensor:
        return self.copies.of(torch.ones(self.num_observations, dtype=torch.bool))

    @property
    def _width(self) -> int:
        """Numbers that one draw of the block takes, about."""
        entries = min(self.block.entries(self.predictor.node), 4)
        return self.size + 4 * self.copies.number + (2 + entries) * self.likelihood.elements

    def _total(
        self, theta: Tensor, given: Tensor, draws: int | None = None, added: list[Tensor] | None = None
    ) -> Tensor:
        few = DRAWS if self.copies.number <= MANY else DRAWS_OF_MANY
        draws, found = draws or (ALONE if self.dimension == 0 else few), []
        with torch.no_grad():
            for part in self._parts(theta, (draws if self.corrected else 1) * self._width):
                proposal = self._propose(part, given)
                if self.corrected:
                    noise = antithetic_noise(part.theta, draws, self.size)
                    weights = weighted(self.likelihood, part, proposal, given, noise)
                    found.append(proposal.log_mass + log_mean(weights.weight, 1) + weights.alone)
                    if added is not None:
                        added.append(weights.added)
                else:
                    found.append(proposal.log_mass + self._alone(part, proposal, given))
        return torch.cat(found)

    def _slopes(self, theta: Tensor, given: Tensor) -> Slopes:
        """Log density of some rows together and the gradient of its approximation."""
        values, gradients = [], []
        with torch.enable_grad():
            for part in self._parts(theta.requires_grad_(True), FOLLOWED * self._width):
                with torch.no_grad():
                    proposal = self._propose(part, given)
                alone = self._alone(part, proposal, given)
                total = mass_at_mode(self.likelihood, part.outer, part.prior, part.design, proposal, given)
                (gradient,) = torch.autograd.grad((total + alone).sum(), part.theta)
                values.append(proposal.log_mass + alone.detach())
                gradients.append(gradient)
        value = self._total(theta.detach(), given) if self.corrected else torch.cat(values)
        return Slopes(value, torch.cat(gradients))

    def _approximate_marginals(self, theta: Tensor, given: Tensor) -> Marginals:
        """By parabolas in place of the likelihood."""
        found, counts = [], self.copies.of(given)
        with torch.no_grad():
            for part in self._parts(theta, 8 * self._width):
                proposal = self._propose(part, counts)
                total = proposal.log_mass + self._alone(part, proposal, counts)
                variance = proposal.factor.variances(part.design)
                cavity = cavities(self.likelihood, part.outer, proposal, variance)
                less = torch.where(self.likelihood.groups.alone, -cavity.value, cavity.log_mass)
                changes = Changes(total, total[:, None] + less, total[:, None] + cavity.value)
                found.append(self.copies.changed(changes, given))
        return Marginals(*map(torch.cat, zip(*found, strict=True)))

    def _alone(self, part: Part, proposal: Proposal, given: Tensor) -> Tensor:
        if not bool(self.likelihood.groups.alone.any()):
            return proposal.log_mass.new_zeros(1)
        return self.likelihood.alone(self.likelihood.rows(part.outer, proposal.centre[:, None])[:, 0], given)

    def _propose(self, part: Part, given: Tensor) -> Proposal:
        def outer(index: Tensor) -> Outer:
            return part.outer if len(index) == part.outer.particles else part.outer.select(index)

        def total(index: Tensor, predictors: Tensor) -> Tensor:
            rows = self.likelihood.rows(outer(index), predictors)
            return self.likelihood.summed(rows, given).sum(-1)

        def averaged(mean: Tensor, variance: Tensor, sites: Sites) -> Sites:
            return self.likelihood.averaged(part.outer, mean, variance, sites, given)

        proposal = propose(
            part.prior,
            part.design,
            lambda index, predictor: self.likelihood.sites(outer(index), predictor, given),
            total,
            self.starts.near(part.theta),
            AMONG_KINKS if self.likelihood.kinked else NEAR if self.corrected else TOLERANCE,
            averaged if self.corrected else None,
        )
        self.starts.found(part.theta, proposal.mean, proposal.log_mass.isfinite())
        return proposal

    def _design(self, at: Evaluated) -> Design:
        return Design(self.block.mapped(self.predictor.node, at, self._shape), self.size)

    def _find_shape(self) -> tuple[Shape | None, Products]:
        """The precision's: which columns a row reads is known beforehand, and often by how much."""
        with torch.inference_mode(False), torch.no_grad():
            at = self.block.evaluate(torch.zeros(1, self.dimension, dtype=torch.float64))
            return known_of(self.block.prior(at), self._design(at))

    def _parts(self, theta: Tensor, numbers: int) -> Iterator[Part]:
        """Particles chunk by chunk.

        Args:
            theta: Parameters outside of the block.
            numbers: Numbers that one particle takes beyond its matrices.
        """
        if torch.is_inference_mode_enabled():
            raise GradientNeeded
        matrices = 6 * self.size**2 if self.shape is None else self.shape.pattern.work
        for some in pieces(theta, MEMORY // (self.block.width() + matrices + numbers)):
            at = self.block.evaluate(some)
            particles = len(some)
            prior = prior_of(self.block.prior(at), self.size, particles, self.shape)
            design = self._design(at).by(self._products)
            yield Part(some, at.log_prior, self.likelihood.outer(at.values, particles), prior, design)
