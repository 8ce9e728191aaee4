"""Distributions made of distributions: mixtures, truncation, censoring, hurdles and exponentials.

A random node that follows one names its `components` (table names, or composites in turn) and, where it is
cut off, which `bounds` it has. Its inputs are the composite's own parameters and then those of each
component in order. From these attributes `distribution_of` makes an entry like those of the table, so that
whoever reads parameters, ranks or supports need not know that a distribution is composite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from synthstats_lightning.programs.distribution import ANY, Distribution, Domain, Range, Support, entry
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.laws import BOUNDED, COMPOSITES, VECTORS, Law, read_law

DIRAC_DELTA = entry("DiracDelta", {"c": Domain.INTEGER}, Support.POINT, integer_parameters=frozenset({"c"}))
"""All mass on one integer; only as a component of a mixture."""

_WITH_LOWER = frozenset({Support.POSITIVE, Support.UNIT, Support.INTERVAL, Support.ABOVE, Support.CIRCLE})
_WITH_UPPER = frozenset({Support.UNIT, Support.INTERVAL, Support.BELOW, Support.CIRCLE})
_PLAIN = frozenset({Support.REAL, Support.POSITIVE, Support.UNIT})
_OF_AR = {"constant": Domain.REAL, "rho": Domain.REAL, "sigma": Domain.POSITIVE}
_VECTOR_PARTS = {"LKJCholeskyCov": frozenset({Support.POSITIVE}), "Ordered": _PLAIN}


def distribution_of(attributes: Mapping[str, Any]) -> Distribution:
    """The entry of a random node's distribution, composite or not.

    Args:
        attributes: Attributes of the node: `distribution`, and `components` and `bounds` where it is
            composite.

    Returns:
        The entry of the table, or one made for the composite: parameters of components are named by
        position (`"0.mu"`), and its name shows the components, as in `"Truncated[lower](Gamma)"`.

    Raises:
        KeyError: If a name is not in the table.
        ValueError: If the attributes make no composite.
        UnsupportedLaw: If they make one that the scorer lacks.
    """
    if attributes["distribution"] not in COMPOSITES:
        return DISTRIBUTIONS[attributes["distribution"]]
    return entry_of(read_law(attributes))


class UnsupportedLaw(ValueError):
    """A composite that is well-formed but outside the language."""


@lru_cache(maxsize=4096)
def entry_of(law: Law) -> Distribution:
    """The entry of a law; raises as `distribution_of` does."""
    if law.name == "DiracDelta":
        return DIRAC_DELTA
    if law.name not in COMPOSITES:
        return DISTRIBUTIONS[law.name]
    parts = [entry_of(component) for component in law.components]
    for part in parts:
        if part.event_rank and law.name != "RandomWalk":
            raise UnsupportedLaw(f"{law.name} of the multivariate {part.name}")
    if law.name in VECTORS:
        return _vector(law, parts)
    if law.name in BOUNDED:
        support = _bounded_support(law, parts[0])
        own, own_ranks = dict.fromkeys(law.bounds, Domain.REAL), (0,) * len(law.bounds)
    elif law.name == "Exponentiated":
        support, own, own_ranks = _exponentiated_support(parts[0]), {}, ()
    elif law.name == "Hurdle":
        support = _hurdle_support(law, parts[0])
        own, own_ranks = {"psi": Domain.UNIT}, (0,)
    else:
        support = _mixture_support(law, parts)
        own, own_ranks = {"w": Domain.SIMPLEX}, (1,)
    extra = int(law.name == "Mixture" and len(parts) == 1)
    if extra and any(parts[0].ranks):
        raise UnsupportedLaw(f"a mixture of {parts[0].name} along an axis: give its components as a list")
    ranks = (*own_ranks, *(rank + extra for part in parts for rank in part.ranks))
    return _made(law, parts, support, own, ranks)


def _made(
    law: Law, parts: list[Distribution], support: Support, own: Mapping[str, Domain], ranks: tuple[int, ...]
) -> Distribution:
    numbered = list(enumerate(parts))
    return Distribution(
        law.text(),
        (*own, *(f"{i}.{name}" for i, part in numbered for name in part.parameters)),
        support,
        (*own.values(), *(domain for part in parts for domain in part.domains)),
        integer_parameters=frozenset(f"{i}.{n}" for i, part in numbered for n in part.integer_parameters),
        fixed={f"{i}.{n}": value for i, part in numbered for n, value in part.fixed.items()},
        ranges={name: ANY for name in own if name in law.bounds}
        | {f"{i}.{n}": value for i, part in numbered for n, value in part.ranges.items()},
        event_rank=int(law.name in VECTORS) + parts[0].event_rank,
        parameter_ranks=ranks,
        atoms=support is Support.MIXED and law.name in ("Censored", "Hurdle"),
        has_cdf=law.name == "Exponentiated" and parts[0].has_cdf,
    )


def _vector(law: Law, parts: list[Distribution]) -> Distribution:
    """Vectors made of univariate parts, whose parameters have an axis along the vector where it varies."""
    allowed = _VECTOR_PARTS.get(law.name, frozenset({Support.REAL}))
    for part in parts:
        if law.name == "Ordered" and part.name == "Uniform":
            continue
        if part.support not in allowed or (any(part.ranks) and not part.event_rank):
            wanted = " or ".join(sorted(support.value for support in allowed))
            raise UnsupportedLaw(f"{law.name} of {part.name}, whose support is not {wanted}")
    along = [rank + 1 for part in parts for rank in part.ranks]
    if law.name == "RandomWalk":
        if len({part.event_rank for part in parts}) > 1 or parts[0].event_rank > 1:
            raise UnsupportedLaw(f"RandomWalk from {parts[0].name} in steps of {parts[1].name}")
        start = len(parts[0].parameters)
        return _made(law, parts, Support.REAL, {}, (*parts[0].ranks, *along[start:]))
    if law.name == "AR":
        return _made(law, parts, Support.REAL, _OF_AR, (0, 1, 0, *along))
    if law.name == "Ordered":
        return _made(law, parts, Support.ORDERED, {}, tuple(along))
    made = _made(law, parts, Support.CHOLESKY, {"eta": Domain.POSITIVE}, (0, *along))
    return replace(made, ranges={**made.ranges, "eta": Range(0.05, 1e6)})


def _bounded_support(law: Law, part: Distribution) -> Support:
    if not part.has_cdf:
        raise UnsupportedLaw(f"{law.name} of {part.name}, whose distribution function the scorer lacks")
    if part.discrete:
        return Support.NATURAL
    if law.name == "Censored":
        return Support.MIXED
    lower = "lower" in law.bounds or part.support in _WITH_LOWER
    upper = "upper" in law.bounds or part.support in _WITH_UPPER
    return Support.INTERVAL if lower and upper else Support.ABOVE if lower else Support.BELOW


def _hurdle_support(law: Law, part: Distribution) -> Support:
    if part.support in (Support.NATURAL, Support.COUNT_TO):
        return Support.NATURAL
    if part.support is Support.POSITIVE:
        return Support.MIXED
    raise UnsupportedLaw(f"a hurdle of {part.name}, which is neither a count nor positive")


def _exponentiated_support(part: Distribution) -> Support:
    if part.support is not Support.REAL:
        raise UnsupportedLaw(f"the exponential of {part.name}, whose draws are not any numbers")
    return Support.POSITIVE


def _mixture_support(law: Law, parts: list[Distribution]) -> Support:
    if any(part.atoms for part in parts):
        raise UnsupportedLaw("a mixture of distributions with point masses")
    if len({part.discrete for part in parts}) > 1:
        raise ValueError("a mixture of discrete and continuous distributions")
    supports = {part.support for part in parts}
    if parts[0].discrete:
        return supports.pop() if supports == {Support.BINARY} else Support.NATURAL
    return supports.pop() if len(supports) == 1 and supports <= _PLAIN else Support.MIXED
