"""From a model to one without a latent of independent elements, where there is one worth it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.closed_form import ConjugateIntegrated
from synthstats_lightning.scoring.marginals.groups.conjugate import Conjugate, beta_pair, gamma_pair
from synthstats_lightning.scoring.marginals.groups.copied import CopiedQuadrature
from synthstats_lightning.scoring.marginals.groups.exponential import ExponentialRows, exponential_rows
from synthstats_lightning.scoring.marginals.groups.grouping import (
    Grouping,
    RowGroups,
    find_groupings,
    row_groups,
)
from synthstats_lightning.scoring.marginals.groups.half_line import half_line_pair
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer, without_latent
from synthstats_lightning.scoring.marginals.groups.modes import Modes, climb, distinct, find_peaks
from synthstats_lightning.scoring.marginals.groups.quadrature import Quadrature
from synthstats_lightning.scoring.marginals.groups.repeated import RepeatedQuadrature, different_groups
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.labels.dependence import NONE

FEWEST = 5
"""Elements from which on a latent is integrated out; with fewer only where an integrand has several modes."""
FINER = (5.0, 25.0)
"""How many times as many nodes are tried where no other parameter is left and the usual ones are too few."""
EASY = 15
"""Dimensions up to which estimators take a whole model of one mode well."""
MOST_ROWS = 400
"""Rows up to which integrating such a model costs less than it spares."""
MOST_LEFT = 8
"""Dimensions that may be left: with more of them the search among them costs more than it spares."""
MOST_LEFT_OF_MANY = 16
"""The same where nothing else can be integrated out, of a model of many dimensions."""
MANY = 30
"""Dimensions from which on that is taken."""
SCOUTS = 32
"""Prior draws of the other parameters among which the reference is chosen."""
LIKELIEST = 4
"""Of these the likeliest, at which the nodes' reach is chosen."""
SCOUT_POINTS = 64
"""Prior draws of the latent at each of them."""
POINTS = 400
"""Prior draws of the latent among which modes are looked for at the reference."""
MOST_MODES = 4
"""Most modes of an element's integrand."""
NEGLIGIBLE = 20.0
"""Local maxima so many nats below the highest are no modes."""


def integrate_groups_of_many(density: Density) -> GroupIntegrated | ConjugateIntegrated | None:
    """`integrate_groups` where more may be left, for large models from which nothing else can be taken.

    Args:
        density: The model with its data.
    """
    if density.dimension < MANY:
        return None
    return integrate_groups(density, most_left=MOST_LEFT_OF_MANY)


def integrate_groups(
    density: Density, fewer_than: int | None = None, most_left: int = MOST_LEFT
) -> GroupIntegrated | ConjugateIntegrated | None:
    """A model without its largest latent of independent elements; `None` where no latent is worth it.

    Where a prior is conjugate to the rows its latent is always worth it.

    Args:
        density: The model with its data.
        fewer_than: Dimensions of which some must not be left, `None` for any number.
        most_left: Dimensions that may be left.
    """
    for grouping in find_groupings(density.compiled):
        left = density.dimension - grouping.size
        if fewer_than is not None and left >= fewer_than:
            continue
        try:
            if (closed := _conjugate(density, grouping)) is not None:
                return closed
            if left > most_left:
                continue
            found = by_nodes(density, grouping)
        except ProgramFailure as failure:
            # what is constant without the latent need not have a value at the one that stands in for it
            if failure.category is not FailureCategory.RAISED:
                raise
            continue
        modes = found.quadrature.reference.centre.shape[1]
        dear = density.dimension <= EASY and density.num_observations > MOST_ROWS
        if modes > 1 or (grouping.size >= FEWEST and not dear):
            return found
    return None


def _conjugate(density: Density, grouping: Grouping) -> ConjugateIntegrated | None:
    if bool((grouping.element == NONE).any()):
        return None
    integrand, groups = Integrand(density.compiled, grouping), row_groups(grouping.element, grouping.size)
    pair = (
        gamma_pair(integrand, grouping, groups)
        or beta_pair(integrand, grouping)
        or half_line_pair(integrand, grouping)
    )
    if pair is None:
        return None
    rule = Conjugate(integrand, groups, pair)
    others = density.of_graph(without_latent(density.compiled.graph, grouping.parameter, 0.5))
    return ConjugateIntegrated(density, others, rule)


def by_nodes(density: Density, grouping: Grouping) -> GroupIntegrated:
    """A model without a latent of independent elements, which is integrated out by quadrature.

    Args:
        density: The model with its data.
        grouping: The latent, with what depends on it.
    """
    others = density.of_graph(without_latent(density.compiled.graph, grouping.parameter, 0.5))
    rule = _Rules(density, grouping)
    flat = torch.zeros(1, 1, grouping.size, dtype=torch.float64)
    with torch.no_grad():
        reference, likely = _reference(rule, Modes(flat, torch.ones_like(flat)), others)
        first = rule.needed(reference, others.node_values(likely), len(likely))
    found = GroupIntegrated(density, others, rule(reference, formed=True).reaching(first))
    if others.dimension:
        return found
    # where nothing is left over more nodes cost nothing
    finer = [found]
    rules = (rule(reference, each, formed=True).reaching(first) for each in FINER)
    finer += [GroupIntegrated(density, others, each) for each in rules]
    nothing = torch.zeros(1, 0, dtype=torch.float64)
    return next((each for each in finer if each.checked_at(nothing) is not None), found)


class _Rules:
    """Rules for one latent, by the rows that differ where many do not.

    Args:
        density: The model with its data.
        grouping: The latent, with what depends on it.
    """

    def __init__(self, density: Density, grouping: Grouping) -> None:
        self._different = density.different
        self._whole = _Parts.of(Integrand(density.compiled, grouping, density.different), grouping)
        self._copied = self._repeated = None
        if self._different is not None:
            fewer = grouping._replace(element=grouping.element[self._different.first])
            self._copied = _Parts.of(self._whole.integrand.smaller[0][1], fewer)
        self._kinds = different_groups(density.compiled, grouping)
        if self._kinds is not None:
            few = self._whole.integrand.add(self._kinds, self._kinds.grouping)
            self._repeated = _Parts.of(few, self._kinds.grouping)

    def needed(self, reference: Modes, values: list[Tensor | None], particles: int) -> int:
        """How far nodes must reach for the heaviest tail, where that is least at some parameters.

        Args:
            reference: Modes at some value of the other parameters.
            values: Node values of the other parameters.
            particles: How many values there are.
        """
        plain = self._whole.rule(reference, 1.0, formed=False)
        outer = plain.integrand.outer(values, particles)
        everything = torch.ones(plain.rows, dtype=torch.bool)
        return min(plain.needed(outer.select(torch.tensor([i])), everything) for i in range(particles))

    def __call__(self, reference: Modes, fineness: float = 1.0, formed: bool = False) -> Quadrature:
        """A rule.

        Args:
            reference: Modes at some value of the other parameters.
            fineness: How many times as many nodes as usual.
            formed: Whether the form of rows is used, where they have one.
        """
        found = self._whole.rule(reference, fineness, formed)
        if self._different is not None and self._copied is not None:
            fewer = self._copied.rule(reference, fineness, formed)
            found = CopiedQuadrature(found, fewer, self._different)
        if self._kinds is not None and self._repeated is not None:
            some = Modes(*(part[:, :, self._kinds.equal.first_group] for part in reference))
            few = self._repeated.rule(some, fineness, formed)
            found = RepeatedQuadrature(found, few, self._kinds)
        return found


class _Parts(NamedTuple):
    """What a rule is made of."""

    integrand: Integrand
    groups: RowGroups
    form: ExponentialRows | None

    @classmethod
    def of(cls, integrand: Integrand, grouping: Grouping) -> _Parts:
        """Those of a latent in some model."""
        groups = row_groups(grouping.element, grouping.size)
        return cls(integrand, groups, exponential_rows(integrand, grouping))

    def rule(self, reference: Modes, fineness: float, formed: bool) -> Quadrature:
        """The rule around some modes."""
        form = self.form if formed else None
        return Quadrature(self.integrand, self.groups, reference, fineness, form)


def _reference(rule: _Rules, unknown: Modes, others: Density) -> tuple[Modes, Tensor]:
    """Modes of the integrands where prior draws of the other parameters have the largest likelihood.

    Args:
        rule: What makes a rule around given modes of a latent.
        unknown: What stands for modes before any is known.
        others: The model of the other parameters.

    Returns:
        The modes, and the likeliest few of these draws.
    """
    generator = torch.Generator().manual_seed(0)
    everything = torch.ones(others.num_observations, dtype=torch.bool)
    theta = others.sample_prior(SCOUTS if others.dimension else 1, generator)
    quadrature = rule(unknown)
    outer = quadrature.integrand.outer(others.node_values(theta), len(theta))
    started = _climbed(quadrature, outer, SCOUT_POINTS, 1, generator)
    total = rule(started).integrals(outer, everything, changes=False).given.sum(1)
    best = total.argmax().reshape(1)
    found = _climbed(quadrature, outer.select(best), POINTS, MOST_MODES, generator)
    return distinct(found), theta[total.argsort(descending=True)[:LIKELIEST]]


def _climbed(
    quadrature: Quadrature, outer: Outer, points: int, most: int, generator: torch.Generator
) -> Modes:
    if isinstance(quadrature, RepeatedQuadrature):
        few, equal = quadrature.few, quadrature.equal
        found = _climbed_from_draws(few, quadrature.of_few(outer), equal.copies, points, most, generator)
        return Modes(*(part[:, :, equal.kind] for part in found))
    everything = torch.ones(quadrature.integrand.compiled.num_observations, dtype=torch.bool)
    return _climbed_from_draws(quadrature, outer, everything, points, most, generator)


def _climbed_from_draws(
    quadrature: Quadrature, outer: Outer, given: Tensor, points: int, most: int, generator: torch.Generator
) -> Modes:
    """Modes of the integrands of some rows, from draws of the latent from its prior."""
    log_density = quadrature.log_density(outer, given)
    u = quadrature.integrand.prior_draws(outer, points, generator).sort(1).values
    value = log_density(u, torch.arange(outer.particles))
    return climb(log_density, find_peaks(u, value, most, NEGLIGIBLE).start)
