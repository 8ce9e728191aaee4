"""Rows whose log-likelihood is affine in a latent but for one exponential: counts and times with a log link.

Poisson, exponential, gamma and Weibull rows whose mean is an exponential of what is affine in the latent `u`
have `f(u) = f(m) + b (u - m) + c (exp(e (u - m)) - 1)` around any `m`, with one `e` for all rows of an
element. Sums of `f(m)`, `b` and `c` over an element's rows say all that a quadrature reads, so that each node
costs an operation an element instead of a density a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.laws import COMPOSITES, read_law
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.groups.exponents import NOTHING, Slope, Slopes
from synthstats_lightning.scoring.marginals.groups.grouping import Given, Grouping, RowGroups, counted, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer, plain
from synthstats_lightning.scoring.marginals.labels.dependence import NONE
from synthstats_lightning.scoring.numerics.transforms import MAX_EXPONENT

Bend = Callable[..., tuple[Tensor, Tensor | float, Tensor]]
"""`(response, *parameters)` to what a slope of 1 adds to `b`, the factor of `e`, and the log of `-c`."""


class Kind(NamedTuple):
    """A distribution whose log-density bends once.

    Attributes:
        parameter: Index of the parameter that the latent is in.
        logarithm: Whether that parameter's logarithm is affine in it, or the parameter itself.
        bend: How the log-density depends on the slope.
        proportional: Whether `c` vanishes with the response.
        scalars: Indices of parameters that `e` depends on.
        turn: The factor of `e`, where it depends on none.
    """

    parameter: int
    logarithm: bool
    bend: Bend
    proportional: bool = True
    scalars: tuple[int, ...] = ()
    turn: float = 1.0


def _poisson(y: Tensor, mu: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
    return y, 1.0, torch.log(mu)


def _poisson_log(y: Tensor, log_mu: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
    return y, 1.0, log_mu


def _exponential(y: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
    return -torch.ones_like(y), -1.0, torch.log(y) - torch.log(scale)


def _gamma(y: Tensor, alpha: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
    return -alpha, -1.0, torch.log(y) - torch.log(scale)


def _weibull(y: Tensor, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
    return -alpha, -alpha, alpha * (torch.log(y) - torch.log(beta))


KINDS = {
    "Poisson": Kind(0, logarithm=True, bend=_poisson, proportional=False),
    "PoissonLog": Kind(0, logarithm=False, bend=_poisson_log, proportional=False),
    "Exponential": Kind(0, logarithm=True, bend=_exponential, turn=-1.0),
    "Gamma": Kind(1, logarithm=True, bend=_gamma, turn=-1.0),
    "Weibull": Kind(1, logarithm=True, bend=_weibull, scalars=(0,)),
}


SMALLEST_LOG = -1e300
"""Stands for the logarithm of nothing where it is taken off."""
CENSORED = ("Exponential", "Weibull")
"""Distributions whose probability of a longer time is the exponential alone."""


def _kind(compiled: Compiled) -> Kind | None:
    """Of a model's response, times that are known to be longer than a limit included."""
    name = compiled.response_term.distribution.name
    attributes = compiled.graph.nodes[compiled.graph.response].attributes
    if attributes["distribution"] not in COMPOSITES:
        return KINDS.get(name)
    law = read_law(attributes)
    if name != entry_of(law).name:
        return None
    base = law.components[0].name if law.name == "Censored" and law.bounds == ("upper",) else None
    if base not in CENSORED:
        return None
    kind = KINDS[base]

    def bend(y: Tensor, limit: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor | float, Tensor]:
        linear, factor, bent = kind.bend(y, *parameters)
        return torch.where(y < limit, linear, 0.0), factor, bent

    scalars = tuple(i + 1 for i in kind.scalars)
    return Kind(kind.parameter + 1, kind.logarithm, bend, kind.proportional, scalars, kind.turn)


class Bends(NamedTuple):
    """How each row's log-likelihood goes on from where the latent is.

    Attributes:
        rows: Log-likelihoods there `[particles, rows]`.
        linear: `b` `[particles, rows]`.
        log_bent: Log of `-c` `[particles, rows]`.
        exponent: `e` `[particles, 1]`.
        known: Where the form is; elsewhere a parameter overflows, or the latent does `[particles]`.
    """

    rows: Float[Tensor, "particles rows"]
    linear: Float[Tensor, "particles rows"]
    log_bent: Float[Tensor, "particles rows"]
    exponent: Float[Tensor, "particles 1"]
    known: Bool[Tensor, " particles"]

    def select(self, index: Int[Tensor, " chosen"]) -> Bends:
        """Those of some particles."""
        return Bends(*(part[index] for part in self))

    def of_elements(self, given: Given, groups: RowGroups) -> Bends:
        """The same of the given rows of each element together.

        Args:
            given: Which rows count, or how many times each does.
            groups: The rows that read each element.
        """
        rows, linear = (summed(counted(part, given), groups) for part in self[:2])
        times = given.to(self.log_bent.dtype).clamp_min(1.0).log()
        bent = torch.where(given > 0, self.log_bent + times, -torch.inf)
        element = groups.element.expand_as(bent)
        lowest = bent.new_full((len(bent), len(groups.table)), -torch.inf)
        highest = lowest.scatter_reduce(1, element, bent.detach(), "amax").clamp_min(SMALLEST_LOG)
        total = summed(torch.exp(bent - highest.gather(1, element)), groups)
        log_total = torch.where(total > 0, torch.log(torch.where(total > 0, total, 1.0)), -torch.inf)
        return Bends(rows, linear, highest + log_total, self.exponent, self.known)

    def log_likelihood(
        self, distance: Float[Tensor, "particles nodes rows"]
    ) -> Float[Tensor, "particles nodes rows"]:
        """Log-likelihoods of rows, or of elements' rows together.

        Args:
            distance: How far the latent is from where this is the form.
        """
        rows, linear, log_bent = (part[:, None] for part in self[:3])
        power = self.exponent[:, None] * distance
        # far away the one may vanish where the other does not
        near = torch.exp(log_bent) * torch.expm1(power.clamp(-1.0, 1.0))
        beyond = torch.exp(log_bent + power) - torch.exp(log_bent)
        return plain(rows + linear * distance - torch.where(power.abs() < 1.0, near, beyond))

    def shape(
        self, distance: Float[Tensor, "particles nodes elements"]
    ) -> Float[Tensor, "particles nodes elements"]:
        """The same but for what does not depend on the latent, right also where the rest cancels it.

        Args:
            distance: How far the latent is from where this is the form.
        """
        bend = -torch.exp(self.log_bent[:, None] + self.exponent[:, None] * distance)
        return plain(self.linear[:, None] * distance + bend)


class ExponentialRows:
    """The rows of a model that have this form.

    Args:
        integrand: The model's prior and likelihood.
        kind: How the response's distribution bends.
        slope: Of the parameter or its logarithm in the latent.
    """

    def __init__(self, integrand: Integrand, kind: Kind, slope: Slope) -> None:
        self.integrand = integrand
        self.kind = kind
        self.slope = slope

    def at(self, outer: Outer, u: Float[Tensor, "particles 1 elements"]) -> Bends:
        """The form around some values of the latent.

        Args:
            outer: What is read of the other parameters.
            u: Unconstrained values of the latent, which are its values.
        """
        integrand, particles = self.integrand, outer.particles
        term, values, _ = integrand.evaluated(outer, u)
        response = cast(Tensor, term.value)
        linear, factor, bent = self.kind.bend(response, *term.allowed_parameters(values)[0])
        nothing = (response <= 0.0)[None] & self.kind.proportional
        bent, nothing = (integrand.by_row(part, particles) for part in (bent, nothing))
        # as in the model's padded layout
        slope = self._slope(outer).reshape(particles, *(1,) * integrand.compiled.rank)
        return Bends(
            plain(integrand.by_row(term.log_prob(values), particles)),
            plain(integrand.by_row(slope * linear, particles)),
            torch.where(bent.isfinite(), bent, -torch.inf),
            (slope * factor).reshape(particles, -1)[:, :1],
            (bent.isfinite() | nothing).all(1) & (u.abs() < MAX_EXPONENT).all(2)[:, 0],
        )

    def _slope(self, outer: Outer) -> Tensor:
        """The slope at each particle `[particles]`."""
        found = torch.zeros(outer.particles, dtype=torch.float64)
        for factors, constant in self.slope.terms.items():
            product = torch.full_like(found, constant)
            for node, power in factors:
                product = product * outer.values[node].reshape(outer.particles) ** power
            found = found + product
        return found


def exponential_rows(integrand: Integrand, grouping: Grouping) -> ExponentialRows | None:
    """The form of a model's rows, `None` where they have another.

    Args:
        integrand: The model's prior and likelihood.
        grouping: The latent, with what depends on it.
    """
    compiled, term = integrand.compiled, integrand.compiled.response_term
    kind = _kind(compiled)
    if kind is None or term.views or term.view is not None or term.value is None:
        return None
    if bool((grouping.element == NONE).any()):
        return None
    positive = grouping.parameter.transform is Transform.POSITIVE
    if not positive and grouping.parameter.transform is not Transform.IDENTITY:
        return None
    slopes = Slopes(compiled, grouping.parameter.node, grouping.dependent, positive=positive)
    found = NOTHING
    for index, slot in enumerate(term.slots):
        if term.constants[index] is not None:
            continue
        if index != kind.parameter:
            if slopes.of_logarithm(slot) != NOTHING:
                return None
            continue
        slope = slopes.of_logarithm(slot) if kind.logarithm else slopes.of_value(slot)
        if slope is None:
            return None
        found = slope
    scalars = [term.slots[i] for i in kind.scalars if term.constants[i] is None]
    constants = [c for i in kind.scalars if (c := term.constants[i]) is not None]
    sizes = [math.prod(compiled.shapes[slot]) for slot in scalars] + [c.numel() for c in constants]
    if any(size != 1 for size in sizes):
        return None
    if found == NOTHING:
        return None
    integrand.read_also({node for factors in found.terms for node, _ in factors})
    return ExponentialRows(integrand, kind, found)
