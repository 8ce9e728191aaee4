"""Latents whose prior is conjugate to the rows that read them: their integrals have closed forms.

Gamma rates of counts and times, inverse gamma scales of times, beta probabilities of trials (Gelman et al.
2013, sections 2.4 and 2.6, and 5.3 for the hierarchies); those over half a line are in `half_line`. A row
multiplies an element's density by a constant and adds to its two shapes, so that sums over an element's rows
say all.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import KEEPS_VALUES
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.groups.exponential import ExponentialRows, exponential_rows
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping, RowGroups, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer, plain
from synthstats_lightning.scoring.marginals.groups.quadrature import Integrals
from synthstats_lightning.scoring.numerics.picks import pick_last

SMALLEST = 1e-300
"""Shapes are no smaller: differences of sums may be."""
FARTHEST_LOOK = 600.0
"""A gamma's logarithm is looked at no farther from 0: beyond, its exponential overflows."""
LARGEST_BENT = 20.0
"""Logarithm of the exposure there beyond which it leaves no digit of a row's constant."""


class Shapes(NamedTuple):
    """The two shapes of an element's density, or what rows add to them.

    Attributes:
        first: Shape of a gamma, first shape of a beta.
        second: Rate of a gamma, second shape of a beta.
    """

    first: Tensor
    second: Tensor


class Updates(NamedTuple):
    """What rows do to an element's density, `[particles, rows]` each, or `[1, rows]`.

    Attributes:
        constant: Log of the constant that a row multiplies it by.
        shapes: What it adds to the shapes.
    """

    constant: Tensor
    shapes: Shapes


@runtime_checkable
class Pair(Protocol):
    """A prior and the rows that it is conjugate to.

    Attributes:
        floors: What the two shapes are not below: differences of sums may be.
    """

    floors: tuple[float, float]

    def prior(self, outer: Outer) -> tuple[Shapes, Bool[Tensor, "particles elements"]]:
        """Shapes of the prior, and where they are the model's and not a stand-in for what is not allowed."""
        ...

    def updates(self, outer: Outer) -> Updates:
        """What each row does."""
        ...

    def log_normaliser(self, shapes: Shapes) -> Tensor:
        """Log integral of a density that is not normalised."""
        ...

    def draw(self, shapes: Shapes, generator: torch.Generator) -> Tensor:
        """Draws of the latent in its unconstrained coordinate."""
        ...


class GammaPair:
    """A gamma, exponential or inverse gamma latent under rows that bend once in its logarithm.

    Args:
        integrand: The model's prior and likelihood.
        rows: The form of the rows.
        groups: The rows that read each element.
        sign: 1 of a gamma, -1 of an inverse gamma, which is one of the reciprocal.
    """

    floors = (SMALLEST, SMALLEST)

    def __init__(self, integrand: Integrand, rows: ExponentialRows, groups: RowGroups, sign: float) -> None:
        self.integrand = integrand
        self.rows = rows
        self.groups = groups
        self.sign = sign

    def prior(self, outer: Outer) -> tuple[Shapes, Bool[Tensor, "particles elements"]]:
        """Shape and rate."""
        name = self.integrand.parameter.distribution.name
        parts, allowed = prior_parts(self.integrand, outer)
        if name == "Exponential":
            return Shapes(torch.ones_like(parts[0]), 1.0 / parts[0]), allowed
        return Shapes(parts[0], parts[1] if name == "InverseGamma" else 1.0 / parts[1]), allowed

    def updates(self, outer: Outer) -> Updates:
        """Counts and exposures, or what stands for them, around where an element's exposures are about 1."""
        everything = torch.ones(self.integrand.compiled.num_observations, dtype=torch.bool)
        with torch.no_grad():
            nowhere = torch.zeros(outer.particles, 1, len(self.groups.table), dtype=torch.float64)
            bent = self.rows.at(outer, nowhere).of_elements(everything, self.groups).log_bent
            near = (-self.sign * bent).nan_to_num(nan=0.0).clamp(-FARTHEST_LOOK, FARTHEST_LOOK)[:, None]
        bends = self.rows.at(outer, near)
        place = self.sign * pick_last(near[:, 0], self.groups.element)
        first = self.sign * bends.linear
        there = torch.exp(bends.log_bent)
        # farther off the constant is a difference of numbers of which no digit of it is left
        constant = torch.where(bends.log_bent < LARGEST_BENT, bends.rows - first * place + there, -torch.inf)
        return Updates(plain(constant), Shapes(first, there * torch.exp(-place)))

    def log_normaliser(self, shapes: Shapes) -> Tensor:
        """Of a gamma density in its logarithm."""
        return torch.lgamma(shapes.first) - shapes.first * torch.log(shapes.second)

    def draw(self, shapes: Shapes, generator: torch.Generator) -> Tensor:
        """Logarithms of gamma draws, or of their reciprocals."""
        return self.sign * (_log_gamma(shapes.first, generator) - torch.log(shapes.second))


class BetaPair:
    """A beta probability of trials.

    Args:
        integrand: The model's prior and likelihood.
    """

    floors = (SMALLEST, SMALLEST)

    def __init__(self, integrand: Integrand) -> None:
        self.integrand = integrand

    def prior(self, outer: Outer) -> tuple[Shapes, Bool[Tensor, "particles elements"]]:
        """Both shapes."""
        parts, allowed = prior_parts(self.integrand, outer)
        return Shapes(*parts), allowed

    def updates(self, outer: Outer) -> Updates:
        """Successes and failures, the same for all particles `[1, rows]`."""
        return self._updates

    @cached_property
    def _updates(self) -> Updates:
        integrand = self.integrand
        term = integrand.compiled.response_term
        # kept, so that it is to be of use to gradients wherever it was asked for first
        with torch.inference_mode(False), torch.no_grad():
            # a logit of 0 is a probability of a half
            middle = torch.zeros(1, 1, integrand.parameter.size, dtype=torch.float64)
            values = integrand.latent_alone(middle)
            tries = term.allowed_parameters(values)[0]
            successes, failures = TRIALS[term.distribution.name](cast(Tensor, term.value), tries[0])
            successes, failures, rows = (
                integrand.by_row(part, 1) for part in (successes, failures, term.log_prob(values))
            )
            constant = plain(rows + (successes + failures) * math.log(2.0))
        return Updates(constant, Shapes(successes, failures))

    def log_normaliser(self, shapes: Shapes) -> Tensor:
        """The logarithm of the beta function."""
        first, second = shapes
        return torch.lgamma(first) + torch.lgamma(second) - torch.lgamma(first + second)

    def draw(self, shapes: Shapes, generator: torch.Generator) -> Tensor:
        """Logits of beta draws."""
        return _log_gamma(shapes.first, generator) - _log_gamma(shapes.second, generator)


class Conjugate:
    """Integrates a latent out, element by element, in closed form.

    Args:
        integrand: Its prior and likelihood.
        groups: The rows that read each element.
        pair: The prior and what it is conjugate to.
    """

    def __init__(self, integrand: Integrand, groups: RowGroups, pair: Pair) -> None:
        self.integrand = integrand
        self.groups = groups
        self.pair = pair

    def integrals(
        self, outer: Outer, given: Bool[Tensor, " rows"], *, changes: bool, refined: bool = False
    ) -> Integrals:
        """The integrals of some rows, and of these with one row less or more; differentiable.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            changes: Whether those with one row less or more are wanted; else they are 0.
            refined: There is no finer rule than what is exact.
        """
        prior, allowed = self.pair.prior(outer)
        updates = self.pair.updates(outer)
        constant, sums = self._elements(updates, given)
        before = self.pair.log_normaliser(prior)
        normaliser = self.pair.log_normaliser(self._plus(prior, sums, 1.0))
        whole = plain(torch.where(allowed, constant + normaliser - before, -torch.inf))
        nothing = torch.zeros(outer.particles, len(given), dtype=torch.float64)
        if not changes:
            return Integrals(whole, nothing, nothing)
        element, sign = self.groups.element, torch.where(given, -1.0, 1.0)
        shapes = (pick_last(part, element) for part in self._plus(prior, sums, 1.0))
        changed = self.pair.log_normaliser(self._plus(Shapes(*shapes), updates.shapes, sign))
        # a row that cannot be leaves a whole that is not finite, of which it cannot be taken off
        others = _without(updates.constant, pick_last(constant, element), given, self.groups)
        changed = others + changed - pick_last(before, element)
        changed = plain(torch.where(pick_last(allowed, element), changed, -torch.inf))
        return Integrals(whole, changed, nothing)

    def draws(
        self, outer: Outer, given: Bool[Tensor, " rows"], generator: torch.Generator
    ) -> Float[Tensor, "particles elements"]:
        """Independent draws of the latent given the other parameters and some rows, unconstrained.

        Args:
            outer: What is read of the other parameters.
            given: Which rows are given.
            generator: Source of all randomness.
        """
        sums = self._elements(self.pair.updates(outer), given)[1]
        return self.pair.draw(self._plus(self.pair.prior(outer)[0], sums, 1.0), generator)

    def _plus(self, shapes: Shapes, added: Shapes, sign: float | Tensor) -> Shapes:
        parts = zip(shapes, added, self.pair.floors, strict=True)
        return Shapes(*((a + sign * b).clamp_min(floor) for a, b, floor in parts))

    def _elements(self, updates: Updates, given: Tensor) -> tuple[Tensor, Shapes]:
        parts = (updates.constant, *updates.shapes)
        constant, *shapes = (summed(torch.where(given, part, 0.0), self.groups) for part in parts)
        return constant, Shapes(*shapes)


_SIGNS = {"Gamma": 1.0, "Exponential": 1.0, "InverseGamma": -1.0}


def gamma_pair(integrand: Integrand, grouping: Grouping, groups: RowGroups) -> GammaPair | None:
    """The pair of a latent and its rows, `None` where these are others.

    Args:
        integrand: The model's prior and likelihood.
        grouping: The latent, with what depends on it.
        groups: The rows that read each element.
    """
    sign = _SIGNS.get(grouping.parameter.distribution.name)
    if sign is None or grouping.parameter.transform is not Transform.POSITIVE:
        return None
    rows = exponential_rows(integrand, grouping)
    if rows is None or rows.kind.scalars or rows.slope.terms != {(): sign * rows.kind.turn}:
        return None
    return GammaPair(integrand, rows, groups, sign)


def _binomial(y: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    return y, n - y


def _bernoulli(y: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    return y, 1.0 - y


def _geometric(y: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    return torch.ones_like(y), y - 1.0


TRIALS = {"Binomial": _binomial, "Bernoulli": _bernoulli, "Geometric": _geometric}
"""Of a response and its distribution's first parameter: successes and failures."""


def beta_pair(integrand: Integrand, grouping: Grouping) -> BetaPair | None:
    """The pair of a latent and its rows, `None` where these are others.

    Args:
        integrand: The model's prior and likelihood.
        grouping: The latent, with what depends on it.
    """
    parameter, term = grouping.parameter, integrand.compiled.response_term
    if parameter.distribution.name != "Beta" or parameter.transform is not Transform.UNIT:
        return None
    plain_term = not term.views and term.view is None and term.value is not None
    if term.distribution.name not in TRIALS or not plain_term:
        return None
    held = [constant is not None for constant in term.constants]
    if not all(held[:-1]) or held[-1]:
        return None
    if not _is_latent(integrand.compiled, term.slots[-1], parameter.node):
        return None
    return BetaPair(integrand)


def _is_latent(compiled: Compiled, node: int, latent: int) -> bool:
    """Whether a node's value is nothing but elements of the latent."""
    while node != latent:
        found = compiled.graph.nodes[node]
        if found.op not in KEEPS_VALUES or (found.op in ("stack", "concatenate") and len(found.inputs) > 1):
            return False
        node = found.inputs[0]
    return True


def prior_parts(integrand: Integrand, outer: Outer) -> tuple[list[Tensor], Tensor]:
    """Parameters of each element's prior `[particles, elements]`, and where they are allowed.

    Args:
        integrand: The model's prior and likelihood.
        outer: What is read of the other parameters.
    """
    parts, allowed = integrand.allowed_hyperparameters(outer)
    everywhere = torch.ones((), dtype=torch.bool)
    shape = (outer.particles, *integrand.padded)
    *parts, mask = (
        part.expand(shape).reshape(outer.particles, -1)
        for part in (*parts, everywhere if allowed is None else allowed)
    )
    return parts, mask


def _without(constants: Tensor, whole: Tensor, given: Tensor, groups: RowGroups) -> Tensor:
    """Each element's constant without row i where it is given, with it where it is not."""
    known = torch.where(given, constants, 0.0)
    possible = known.isfinite()
    if bool(possible.all()):
        return torch.where(given, whole - known, whole + constants)
    finite = torch.where(possible, known, 0.0)
    lost = (~possible).to(known.dtype)
    rest, others = (pick_last(summed(part, groups), groups.element) - part for part in (finite, lost))
    return torch.where(others > 0, -torch.inf, torch.where(given, rest, rest + constants))


def _log_gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Logarithms of gamma draws of rate 1: small shapes would give 0 (Marsaglia and Tsang 2000)."""
    larger = torch._standard_gamma(shape + 1.0, generator=generator)
    uniform = torch.rand(shape.shape, generator=generator, dtype=shape.dtype).clamp_min(2.0**-54)
    return torch.log(larger) + torch.log(uniform) / shape
