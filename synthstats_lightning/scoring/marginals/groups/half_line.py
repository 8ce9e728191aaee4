"""Half-normal and exponential latents that enter the mean of normal rows: integrals over half a line.

An inefficiency of each firm, a delay, a loss that can only add. Given the other parameters the density of
such a latent `x` is `exp(b x - a x^2 / 2)` over `x > 0`: rows and a half-normal prior add to `a`, rows and an
exponential prior to `b`. Its integral is `sqrt(2 pi / a) exp(t^2 / 2) Phi(t)` with `t = b / sqrt(a)` (Aigner,
Lovell and Schmidt 1977, and Meeusen and van den Broeck 1977, for one row of each).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool
from torch import Tensor

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.marginals.gaussian.affine import RESPONSES, propagate
from synthstats_lightning.scoring.marginals.groups.conjugate import Shapes, Updates, prior_parts
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer, plain
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, LOG_TWO, log_ndtr

PRIORS = ("HalfNormal", "Exponential")
"""Of the latent: the first by its scale after a location of 0, the second by its mean."""
RESPONSE = ("Normal", "LogNormal")
"""Of the rows: the mean of the value, or of its logarithm, and the standard deviation."""
LEAST = 1e-250
"""Stands for an `a` of 0, an exponential without rows: `t` is then far below all others."""
FAR = 50.0
"""Below minus that of `t` the integral is `-1 / b` times a series in `1 / t^2`, to the last digits."""
SERIES = (-1.0, 3.0, -15.0, 105.0, -945.0)
FAR_BELOW = -600.0
"""Log probabilities below which their normal quantile is searched for."""
NEWTON = 6


class HalfLinePair:
    """A half-normal or exponential latent under normal rows whose mean is affine in it.

    Args:
        integrand: The model's prior and likelihood.
        logarithm: Whether it is the logarithm of the response that is normal.
    """

    floors = (0.0, -math.inf)

    def __init__(self, integrand: Integrand, logarithm: bool) -> None:
        self.integrand = integrand
        self.logarithm = logarithm

    def prior(self, outer: Outer) -> tuple[Shapes, Bool[Tensor, "particles elements"]]:
        """`a` and `b` of the prior."""
        parts, allowed = prior_parts(self.integrand, outer)
        if self.integrand.parameter.distribution.name == "HalfNormal":
            return Shapes(parts[1].square().reciprocal(), torch.zeros_like(parts[1])), allowed
        return Shapes(torch.zeros_like(parts[0]), -parts[0].reciprocal()), allowed

    def updates(self, outer: Outer) -> Updates:
        """What each row adds, from where the latent is 1 and from how its mean goes on to 2."""
        integrand, particles = self.integrand, outer.particles
        size = integrand.parameter.size
        means, found = [], []
        for place in (1.0, 2.0):
            u = torch.full((particles, 1, size), math.log(place), dtype=torch.float64)
            term, values, _ = integrand.evaluated(outer, u)
            mean, scale = term.allowed_parameters(values)[0]
            means.append(integrand.by_row(mean, particles))
            found.append((term, values, scale))
        term, values, scale = found[0]
        precision = integrand.by_row(scale, particles).square().reciprocal()
        value = term.value if term.value is not None else torch.zeros(())
        value = integrand.by_row(torch.log(value) if self.logarithm else value, 1)
        slope = means[1] - means[0]
        rise = slope * (value - means[0]) * precision
        bend = slope.square() * precision
        rows = integrand.by_row(term.log_prob(values), particles)
        return Updates(plain(rows - rise - 0.5 * bend), Shapes(bend, rise + bend))

    def log_normaliser(self, shapes: Shapes) -> Tensor:
        """Log integral over the half line."""
        a, b = shapes
        # where erfcx has no slope left, and an exponential without rows has no `a`
        far = b * b > FAR**2 * a
        far = far & (b < 0.0)
        inverse = torch.where(far, a / torch.where(far, b, 1.0).square(), 0.0)
        series = torch.full_like(inverse, SERIES[-1])
        for factor in SERIES[-2::-1]:
            series = factor + inverse * series
        beyond = torch.log1p(inverse * series) - torch.log(torch.where(far, -b, 1.0))
        root = torch.where(far, 1.0, a).sqrt()
        t = torch.where(far, 0.0, b) / root
        below = t < 0.0
        low = torch.log(torch.special.erfcx(torch.where(below, -t, 0.0) / math.sqrt(2.0))) - LOG_TWO
        high = torch.where(below, 0.0, t)
        high = 0.5 * high.square() + log_ndtr(high)
        near = HALF_LOG_TWO_PI - torch.log(root) + torch.where(below, low, high)
        return torch.where(far, beyond, near)

    def draw(self, shapes: Shapes, generator: torch.Generator) -> Tensor:
        """Logarithms of draws of a normal distribution cut off at 0."""
        root = shapes.first.clamp_min(LEAST).sqrt()
        t = shapes.second / root
        uniform = torch.rand(t.shape, generator=generator, dtype=t.dtype).clamp(2.0**-54, 1.0 - 2.0**-53)
        # so far below that the density is an exponential one, to 1e-8
        exponential = t < -1e4
        rate = torch.where(exponential, -shapes.second, 1.0)
        near = torch.where(exponential, 0.0, t)
        x = (near - normal_quantile(torch.log(uniform) + log_ndtr(near))) / root
        return torch.log(torch.where(exponential, -torch.log(uniform) / rate, x).clamp_min(1e-300))


def normal_quantile(log_probability: Tensor) -> Tensor:
    """Normal quantiles of probabilities by their logarithms, also of those that underflow.

    Args:
        log_probability: Logarithms of the probabilities, below 0.
    """
    far = log_probability < FAR_BELOW
    near = torch.special.ndtri(torch.exp(torch.where(far, -1.0, log_probability)))
    wanted = torch.where(far, log_probability, 2.0 * FAR_BELOW)
    # from below, where each step of Newton's for a concave function stays
    place = -torch.sqrt(-2.0 * wanted)
    for _ in range(NEWTON):
        hazard = math.sqrt(2.0 / math.pi) / torch.special.erfcx(-place / math.sqrt(2.0))
        place = place + (wanted - log_ndtr(place)) / hazard
    return torch.where(far, place, near)


def half_line_pair(integrand: Integrand, grouping: Grouping) -> HalfLinePair | None:
    """The pair of a latent and its rows, `None` where these are others.

    Args:
        integrand: The model's prior and likelihood.
        grouping: The latent, with what depends on it.
    """
    compiled, parameter, term = integrand.compiled, grouping.parameter, integrand.compiled.response_term
    if parameter.distribution.name not in PRIORS or parameter.transform is not Transform.POSITIVE:
        return None
    graph = compiled.graph
    response = graph.nodes[graph.response]
    name = distribution_of(response.attributes).name
    if term.distribution.name != name or name not in RESPONSE or term.views or term.view is not None:
        return None
    if term.value is None or len(response.inputs) != 2:
        return None
    held = [value is not None for value in compiled.constants]
    uses = propagate(graph, held, frozenset({parameter.node}))
    mean, scale = (uses[i] for i in response.inputs)
    if RESPONSES[name] != 0 or mean.culprits or not mean.sources or scale.sources:
        return None
    return HalfLinePair(integrand, name == "LogNormal")
