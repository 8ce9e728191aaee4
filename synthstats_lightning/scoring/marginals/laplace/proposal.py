"""The normal distribution that a block is proposed from, given the other parameters and some rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.laplace.likelihood import Sites
from synthstats_lightning.scoring.marginals.laplace.linear import Design, picked
from synthstats_lightning.scoring.marginals.laplace.precision import Factor, Precision, Shape, equations
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

MOST_STEPS = 40
"""Newton steps after which a search stops: any point is one that a proposal may be built around."""
TOLERANCE = 1e-11
"""Predicted gain, in nats, below which a search has arrived. The determinant's error is of the order of its
root, and differences over short steps are to be smooth wherever searches start."""
NEAR = 1e-3
"""The same where draws correct whatever the proposal lacks."""
AMONG_KINKS = 0.05
"""The same where slopes jump at every row, so that no gain is smaller."""
HALVINGS = 10
"""A step that goes too far is cut to the best of so many halves of halves."""
LOST = 1.0
"""Predicted gain, in nats, above which a search that stopped has led nowhere."""
FEW = 0.7
"""Share of particles still on their way below which the others are left out of the next step."""

SitesAt = Callable[[Tensor, Float[Tensor, "particles elements"]], Sites]
"""Which particles, and their predictors, to the likelihood there."""
AveragedSites = Callable[
    [Float[Tensor, "particles elements"], Float[Tensor, "particles elements"], Sites], Sites
]
"""Predictors, their variances, and the parabolas at the predictors, to parabolas on average over them."""
TotalAt = Callable[[Tensor, Float[Tensor, "particles points elements"]], Float[Tensor, "particles points"]]
"""Which particles, and predictors of each, to the log-likelihood of all that reads them."""


class Prior(NamedTuple):
    """A block's own log density as a parabola.

    Attributes:
        rows: Its whitened residuals.
        precision: Minus its second derivative.
        slope: Minus the first one at the origin `[particles or 1, size]`.
        constant: What does not depend on the block `[particles or 1]`.
        allowed: Where its parameters are `[particles]`.
    """

    rows: Sequence[Rows]
    precision: Precision
    slope: Float[Tensor, "#particles size"]
    constant: Float[Tensor, " #particles"]
    allowed: Bool[Tensor, " particles"]

    def log_density(self, x: Float[Tensor, "particles size"]) -> Float[Tensor, " particles"]:
        """At one value of the block for each particle, by its residuals."""
        distance = sum((each.residuals(x).square().sum(-1) for each in self.rows), x.new_zeros(1))
        return self.constant - 0.5 * distance

    def select(self, index: Tensor) -> Prior:
        """That of some of the particles."""
        rows = []
        for each in self.rows:
            columns, coefficients, origin = each.affine
            affine = Affine(columns, picked(coefficients, index), picked(origin, index))
            rows.append(each._replace(affine=affine, scale=picked(each.scale, index)))
        return Prior(
            rows,
            self.precision.select(index),
            picked(self.slope, index),
            picked(self.constant, index),
            self.allowed[index],
        )


def prior_of(rows: Sequence[Rows], size: int, particles: int, shape: Shape | None = None) -> Prior:
    """A block's own density out of its residuals; harmless numbers where its parameters are not allowed.

    Args:
        rows: Whitened residuals of the block.
        size: Dimensions of the block.
        particles: Number of particles.
        shape: The precision's shape, where it has one.
    """
    precision, slope = equations(rows, size, shape)
    volume = sum((each.log_volume - each.log_scales().sum(-1) for each in rows), slope.new_zeros(1))
    allowed = torch.stack([each.allowed.expand(particles) for each in rows]).all(0)
    usable = (precision.diagonal + slope).isfinite().all(-1) & volume.isfinite()
    allowed = allowed & usable
    if not bool(allowed.all()):
        inside = allowed if max(len(precision.diagonal), len(slope)) > 1 else allowed.any()[None]
        precision = precision.usable(inside)
        slope = torch.where(inside[:, None], slope, 0.0)
        volume = torch.where(allowed, volume, 0.0)
    return Prior(rows, precision, slope, volume - size * HALF_LOG_TWO_PI, allowed)


class Proposal(NamedTuple):
    """The product of a block's prior and of parabolas in place of the likelihood, which is a normal density.

    Attributes:
        mean: Its mean `[particles, size]`.
        factor: Triangular factor of its precision.
        log_mass: Log of the integral of the product `[particles]`; -inf where there is none.
        centre: Predictor at which the parabolas touch the likelihood `[particles, elements]`.
        shift: Mean of the predictor minus that `[particles, elements]`.
        sites: The parabolas in place of the likelihood.
    """

    mean: Float[Tensor, "particles size"]
    factor: Factor
    log_mass: Float[Tensor, " particles"]
    centre: Float[Tensor, "particles elements"]
    shift: Float[Tensor, "particles elements"]
    sites: Sites

    def parabolas(
        self, away: Float[Tensor, "particles points elements"]
    ) -> Float[Tensor, "particles points elements"]:
        """What stands for the log-likelihood of each element.

        Args:
            away: Predictors minus `centre`.
        """
        value, slope, curvature = (part[:, None] for part in self.sites)
        return value + away * (slope - 0.5 * curvature * away)

    def where(self, other: Proposal, chosen: Bool[Tensor, " particles"]) -> Proposal:
        """Another proposal for some particles.

        Args:
            other: What those have.
            chosen: Which particles they are.
        """
        if bool(chosen.all()):
            return other
        row = chosen[:, None]
        return Proposal(
            torch.where(row, other.mean, self.mean),
            self.factor.where(other.factor, chosen),
            torch.where(chosen, other.log_mass, self.log_mass),
            torch.where(row, other.centre, self.centre),
            torch.where(row, other.shift, self.shift),
            Sites(*(torch.where(row, b, a) for a, b in zip(self.sites, other.sites, strict=True))),
        )

    def select(self, index: Int[Tensor, " chosen"]) -> Proposal:
        """That of some of the particles."""
        sites = Sites(*(part[index] for part in self.sites))
        parts = (self.log_mass[index], self.centre[index], self.shift[index])
        return Proposal(self.mean[index], self.factor.select(index), *parts, sites)

    def draws(self, noise: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """Values of the block.

        Args:
            noise: Independent standard normal numbers.
        """
        return self.mean[:, None] + self.factor.away(noise)


class _Here(NamedTuple):
    """Where a search is."""

    x: Tensor
    predictor: Tensor
    sites: Sites
    value: Tensor

    def put(self, index: Tensor, other: _Here) -> _Here:
        """With other values for some particles."""
        parts = [self.x, self.predictor, *self.sites, self.value]
        news = [other.x, other.predictor, *other.sites, other.value]
        x, predictor, value, slope, curvature, total = (
            part.index_copy(0, index, new) for part, new in zip(parts, news, strict=True)
        )
        return _Here(x, predictor, Sites(value, slope, curvature), total)

    def select(self, index: Tensor) -> _Here:
        sites = Sites(*(part[index] for part in self.sites))
        return _Here(self.x[index], self.predictor[index], sites, self.value[index])


def propose(
    prior: Prior,
    design: Design,
    sites_at: SitesAt,
    total_at: TotalAt,
    start: Float[Tensor, "particles size"],
    tolerance: float = TOLERANCE,
    averaged: AveragedSites | None = None,
) -> Proposal:
    """The proposal around the mode of prior and likelihood, by damped Newton steps.

    Args:
        prior: The block's own density.
        design: The predictor as a function of the block.
        sites_at: The likelihood as a function of the predictor.
        total_at: The same at several points of each particle, without derivatives.
        start: Where the search starts.
        tolerance: Predicted gain, in nats, below which it has arrived.
        averaged: The likelihood's parabolas on average over a normal predictor: these are then taken in place
            of those at the mode, where both are known. Skewness then moves the proposal instead of its
            weights (one step of Opper & Archambeau 2009, doi:10.1162/neco.2008.08-07-592).
    """
    particles = len(start)
    everyone = torch.arange(particles)

    def arrive(x: Tensor, index: Tensor, prior: Prior, design: Design) -> _Here:
        predictor = design.at(x[:, None])[:, 0]
        sites = sites_at(index, predictor)
        value = prior.log_density(x) + sites.value.sum(-1)
        return _Here(x, predictor, sites, value.nan_to_num(nan=-math.inf))

    whole = arrive(start, everyone, prior, design)
    active, mine, my_prior, my_design = everyone, whole, prior, design
    system = None
    for _ in range(MOST_STEPS):
        factor, gradient = _system(my_prior, my_design, mine)
        system = (factor, gradient) if len(active) == particles else None
        step = factor.solve(gradient[:, None])[:, 0]
        gain = 0.5 * (step * gradient).sum(-1)
        going = (gain > tolerance) & gain.isfinite()
        if not bool(going.any()):
            break
        if float(going.to(torch.float64).mean()) < FEW:
            kept = going.nonzero()[:, 0]
            active, mine, step, gain = active[kept], mine.select(kept), step[kept], gain[kept]
            my_prior, my_design = my_prior.select(kept), my_design.select(kept)
        reached = arrive(mine.x + step, active, my_prior, my_design)
        # rounding may make the last steps fall
        short = ~(reached.value >= mine.value - 1e-9 * mine.value.abs() - 1e-9)
        bad = short.nonzero()[:, 0]
        if len(bad):
            there = reached.select(bad)
            share = _best_share(
                my_prior.select(bad), mine.select(bad), there, step[bad], active[bad], total_at
            )
            nearer = arrive(
                mine.x[bad] + share[:, None] * step[bad],
                active[bad],
                my_prior.select(bad),
                my_design.select(bad),
            )
            reached = reached.put(bad, nearer)
            short = ~(reached.value >= mine.value - 1e-9 * mine.value.abs() - 1e-9)
        stuck = short.nonzero()[:, 0]
        if len(stuck):
            reached = reached.put(stuck, mine.select(stuck))
        mine, system = reached, None
        whole = whole.put(active, mine) if len(active) < particles else mine
    system = _system(prior, design, whole) if system is None else system
    found = _around(whole, design, *system, prior.allowed, LOST)
    if averaged is None:
        return found
    variance = found.factor.variances(design)
    whole = whole._replace(sites=averaged(whole.predictor, variance, whole.sites))
    moved = _around(whole, design, *_system(prior, design, whole), prior.allowed, math.inf)
    return found.where(moved, moved.log_mass.isfinite() & found.log_mass.isfinite())


def _best_share(
    prior: Prior, here: _Here, there: _Here, step: Tensor, index: Tensor, total_at: TotalAt
) -> Tensor:
    """How much of each step leads highest; predictor and residuals are affine in it, so both ends say all."""
    share = 0.5 ** torch.arange(1, HALVINGS + 1, dtype=step.dtype)
    ray = (there.predictor - here.predictor)[:, None]
    likelihood = total_at(index, here.predictor[:, None] + share[:, None] * ray)
    bend = -0.5 * (step * prior.precision.times(step)).sum(-1)
    before, after = prior.log_density(here.x), prior.log_density(here.x + step)
    slope = after - before - bend
    value = before[:, None] + share * slope[:, None] + share.square() * bend[:, None] + likelihood
    return share[value.nan_to_num(nan=-math.inf).argmax(1)]


def _system(prior: Prior, design: Design, here: _Here) -> tuple[Factor, Tensor]:
    """Factor of minus the second derivative, and the first one; NaN where there is no factor."""
    precision = prior.precision.plus(design, here.sites.curvature)
    gradient = design.back(here.sites.slope[:, None])[:, 0] - prior.slope - prior.precision.times(here.x)
    usable = here.value.isfinite() & (precision.diagonal + gradient).isfinite().all(-1)
    factor = precision.factor(usable)
    if not bool(factor.exists.all()):
        gradient = torch.where(factor.exists[:, None], gradient, math.nan)
    return factor, gradient


def _around(
    here: _Here, design: Design, factor: Factor, gradient: Tensor, allowed: Tensor, lost: float
) -> Proposal:
    step = factor.solve(gradient[:, None])[:, 0]
    log_mass = here.value + 0.5 * (step * gradient).sum(-1) - factor.half_log_determinant
    log_mass = log_mass + step.shape[-1] * HALF_LOG_TWO_PI
    usable = allowed & log_mass.isfinite() & (0.5 * (step * gradient).sum(-1) < lost)
    step = torch.where(usable[:, None], step, 0.0)
    mean = here.x + step
    shift = design.at(mean[:, None])[:, 0] - here.predictor
    return Proposal(mean, factor, torch.where(usable, log_mass, -math.inf), here.predictor, shift, here.sites)
