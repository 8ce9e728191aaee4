"""What a prior must satisfy for double precision to be enough: looked at on draws from it, before scoring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Domain, Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.layout import Parameter, Transform
from synthstats_lightning.scoring.density.many_rows import chunks
from synthstats_lightning.scoring.density.standardise import RESOLUTION
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals.blocks import ALONE
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.numerics import transforms
from synthstats_lightning.scoring.settings import MANY_ROWS

DRAWS = 1_024
"""Draws from the prior."""
MOST_NUMBERS = 4_000_000
"""Numbers that are computed on the way to what is looked at, at once."""
MOST_UNTESTED = 5e-3
"""Largest share of draws with a parameter outside of the range that tests cover, which has no mass there."""
MOST_LOST = 0.05
"""Largest share of draws whose parameters leave no density, as bounds too far out in a tail do."""
COARSEST = 1e-8
"""Largest rounding error of values that are reckoned from a bound, over their spread."""
INTERVALS = (Transform.INTERVAL, Transform.DEPENDENT_INTERVAL)
BOUNDED = (*INTERVALS, Transform.ABOVE, Transform.BELOW)
MOST_EQUAL = 0.1
"""Largest share of draws that are equal to another one: values of a continuous variable never are."""


def check_prior(density: Density, generator: torch.Generator) -> None:
    """Refuses priors that reach where densities are not exact.

    Parameters that depend on random nodes have no mass outside of the range of their distribution, and a
    density on a grid of few numbers no right total: a normal variable around 1e16 with a deviation of 1 has
    one value. Either is seen on draws.

    Args:
        density: The model with its data.
        generator: Source of all randomness.

    Raises:
        ProgramFailure: `SCORER_LIMIT`, naming the variable.
    """
    if density.dimension:
        theta = density.sample_prior(DRAWS, generator)
        compiled, terms = density.compiled, density.prior_terms
        with torch.no_grad():
            if density.num_observations > MANY_ROWS:
                _, values = density.log_prior_and_values(theta, compiled.prior_steps)
                response = _untested_response(density, theta)
            else:
                values = _drawn_values(density, theta)
                response = compiled.response_term.untested(values)
            for term in terms.values():
                _check_tested(term, term.untested(values))
            _check_tested(compiled.response_term, response)
            _check_parameters(compiled, terms, values)


def _drawn_values(density: Density, theta: Tensor) -> list[Tensor | None]:
    """Values of what densities read, without those of matrices on the way for all draws at once."""
    compiled = density.compiled
    nodes = [*density.prior_terms, compiled.graph.response]
    read = {i for node in nodes for i in (node, *compiled.graph.nodes[node].inputs)}
    read.update(slot for term in density.prior_terms.values() for slot in term.slots)
    read.update(compiled.response_term.slots)
    width = sum(
        math.prod(compiled.shapes[step.slot])
        for step in compiled.free_steps
        if step.slot < len(compiled.shapes)
    )
    found: list[list[Tensor]] = [[] for _ in range(compiled.num_slots)]
    for part in torch.split(theta, max(1, MOST_NUMBERS // max(width, 1))):
        values = density.node_values(part)
        for slot in read:
            if (value := values[slot]) is not None:
                found[slot].append(value.expand(len(part), *value.shape[1:]))
    return [torch.cat(parts) if parts else None for parts in found]


def _untested_response(density: Density, theta: Tensor) -> dict[str, float]:
    """Shares of draws with untested parameters of a response of many rows, from some draws at a time."""
    shares: dict[str, float] = {}
    density = density.distinct
    for some in chunks(len(theta), density.num_observations):
        part = theta[some]
        for name, share in density.compiled.response_term.untested(density.node_values(part)).items():
            shares[name] = shares.get(name, 0.0) + share * len(part) / len(theta)
    return shares


def _check_tested(term: Term, shares: Mapping[str, float]) -> None:
    for name, share in shares.items():
        if share > MOST_UNTESTED:
            entry = term.distribution.entry
            tested = entry.tested[entry.parameters.index(name)]
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{entry.name}: {name} is not from {tested.low:g} to {tested.high:g}, where its"
                f" density is exact, in {share:.1%} of draws from the prior",
            )


def _check_parameters(compiled: Compiled, terms: Mapping[int, Term], values: Sequence[Tensor | None]) -> None:
    for parameter in compiled.parameters:
        if _has_no_value(terms[parameter.node], values):
            raise ProgramFailure(
                FailureCategory.NON_FINITE,
                f"{parameter.name} ~ {parameter.distribution.name}: its parameters leave it no value: a lower"
                " bound must be below the upper one, a scale above 0",
            )
        share = _lost_share(terms[parameter.node], values)
        if share > MOST_LOST:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{parameter.name} ~ {parameter.distribution.name}: too little probability for double"
                f" precision lies between its bounds in {share:.1%} of draws from the prior",
            )
        share = _unresolved_share(compiled, parameter, values)
        if share > MOST_UNTESTED:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{parameter.name} ~ {parameter.distribution.name}: its scale is lost beside its location in"
                f" double precision in {share:.1%} of draws from the prior",
            )
        value = values[parameter.node]
        if value is None or parameter.base in ALONE or parameter.distribution.coordinates is not None:
            continue
        if _is_coarse(parameter, terms[parameter.node], values, value):
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{parameter.name} ~ {parameter.distribution.name}: a bound is too far from its values for"
                " double precision: leave out one that never binds",
            )
        share = _unresolved_near_ends(parameter, terms[parameter.node], values, value)
        if share > MOST_UNTESTED:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{parameter.name} ~ {parameter.distribution.name}: {share:.1%} of draws from its prior lie"
                " too near one of its bounds for double precision",
            )
        share = _equal_share(value.reshape(DRAWS, -1))
        if share > MOST_EQUAL:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{parameter.name} ~ {parameter.distribution.name}: {share:.0%} of draws from its prior are"
                " equal to another one in double precision",
            )


def _has_no_value(term: Term, values: Sequence[Tensor | None]) -> bool:
    """Whether constants break a constraint, or are bounds that are not in order."""
    if term.offset is None:
        return False
    if term.forbidden is not None and bool(term.forbidden.any()):
        return True
    lower, upper = term.distribution.edges(*term.allowed_parameters(values)[0])
    return lower is not None and upper is not None and bool((lower >= upper).any())


def _lost_share(term: Term, values: Sequence[Tensor | None]) -> float:
    """Share of draws at whose parameters, though allowed, the density has no normaliser; 0 where unknown."""
    if term.offset is not None or _unknown(term, values):
        return 0.0
    parameters, allowed = term.allowed_parameters(values)
    normaliser = term.distribution.log_normaliser(*parameters)
    if normaliser is None:
        return 0.0
    lost = normaliser == torch.inf
    return float((lost if allowed is None else lost & allowed).to(torch.float64).mean())


def _is_coarse(parameter: Parameter, term: Term, values: Sequence[Tensor | None], value: Tensor) -> bool:
    """Whether values that are reckoned from a bound have the digits of that bound instead of their own."""
    if parameter.transform not in BOUNDED or _unknown(term, values):
        return False
    lower, upper = parameter.distribution.edges(*term.allowed_parameters(values)[0])
    origin = upper if parameter.transform is Transform.BELOW else lower
    if origin is None:
        return False
    size = torch.maximum(origin.abs(), (value - origin).abs()).reshape(DRAWS, -1).median(0).values
    low, high = value.reshape(DRAWS, -1).quantile(torch.tensor([0.25, 0.75], dtype=torch.float64), 0)
    return bool((transforms.EPSILON * size > COARSEST * (high - low)).any())


def _unresolved_near_ends(
    parameter: Parameter, term: Term, values: Sequence[Tensor | None], value: Tensor
) -> float:
    """Share of draws between two bounds that have no mass, too near one of them; of the worst entry."""
    if parameter.transform not in INTERVALS or _unknown(term, values):
        return 0.0
    lower, upper = parameter.distribution.edges(*term.allowed_parameters(values)[0])
    if lower is None or upper is None:
        return 0.0
    lost = ~transforms.is_resolved(value, lower, upper)
    return float(lost.reshape(DRAWS, -1).to(torch.float64).mean(0).max())


def _unknown(term: Term, values: Sequence[Tensor | None]) -> bool:
    """Whether a parameter depends on discrete nodes, whose values are not drawn."""
    read = zip(term.slots, term.constants, strict=True)
    return any(values[slot] is None and constant is None for slot, constant in read)


def _unresolved_share(compiled: Compiled, parameter: Parameter, values: Sequence[Tensor | None]) -> float:
    """Share of draws whose scale is too small beside their location for double precision."""
    places = _location_and_scale(parameter.distribution.entry)
    if places is None:
        return 0.0
    inputs = compiled.graph.nodes[parameter.node].inputs
    location, scale = (
        values[inputs[i]] if compiled.constants[inputs[i]] is None else compiled.constants[inputs[i]]
        for i in places
    )
    if location is None or scale is None or parameter.constant:
        return 0.0
    lost = (scale > 0) & (scale < RESOLUTION * location.abs())
    return float(lost.to(torch.float64).mean())


def _location_and_scale(entry: Entry) -> tuple[int, int] | None:
    """Places of a real parameter and of the positive one after it, which is its scale on a whole line."""
    if entry.event_rank or entry.support not in (Support.REAL, Support.POSITIVE, Support.UNIT):
        return None
    pairs = list(pairwise(entry.domains))
    wanted = (Domain.REAL, Domain.POSITIVE)
    return (pairs.index(wanted), pairs.index(wanted) + 1) if wanted in pairs else None


def _equal_share(values: Tensor) -> float:
    """Share of equal neighbours in the worst column."""
    ordered = values.sort(0).values
    return float((ordered[1:] == ordered[:-1]).to(torch.float64).mean(0).max())
