"""The torch side of a random node's distribution, composite or not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.distributions import DISTRIBUTIONS as ENTRIES
from synthstats_lightning.programs.laws import COMPOSITES, Law, read_law
from synthstats_lightning.scoring.distributions import (  # noqa: F401
    bounded,
    bounded_counts,
    categories,
    correlation,
    counts,
    fields,
    folded,
    location_scale,
    multivariate,
    positive,
    simplex,
    skewed,
    timeseries,
)
from synthstats_lightning.scoring.distributions.base import REGISTERED, Distribution
from synthstats_lightning.scoring.distributions.bounded_counts import DiracDelta
from synthstats_lightning.scoring.distributions.correlation import lkj_cholesky_cov
from synthstats_lightning.scoring.distributions.mixtures import exponentiated, hurdle, mixture
from synthstats_lightning.scoring.distributions.ordered import ordered
from synthstats_lightning.scoring.distributions.timeseries import autoregression, random_walk
from synthstats_lightning.scoring.distributions.truncated import censored, truncated

DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType({name: REGISTERED[name] for name in ENTRIES})
"""Torch side of `programs.distributions`, by the same names: what the families have registered."""
_OF_ONE = {"AR": autoregression, "Ordered": ordered, "LKJCholeskyCov": lkj_cholesky_cov}


def distribution_of(attributes: Mapping[str, Any]) -> Distribution:
    """What a random node follows; the counterpart of `programs.composites.distribution_of`.

    Args:
        attributes: The attributes of a validated node.
    """
    if attributes["distribution"] not in COMPOSITES:
        return DISTRIBUTIONS[attributes["distribution"]]
    return of_law(read_law(attributes))


@lru_cache(maxsize=4096)
def of_law(law: Law) -> Distribution:
    """The distribution of a law."""
    if law.name == "DiracDelta":
        return DiracDelta.distribution
    if law.name not in COMPOSITES:
        return DISTRIBUTIONS[law.name]
    entry, parts = entry_of(law), [of_law(component) for component in law.components]
    if law.name == "RandomWalk":
        return random_walk(entry, *parts)
    if law.name in _OF_ONE:
        return _OF_ONE[law.name](entry, parts[0])
    if law.name == "Truncated":
        return truncated(entry, parts[0], law.bounds)
    if law.name == "Censored":
        return censored(entry, parts[0], law.bounds)
    if law.name == "Exponentiated":
        return exponentiated(entry, parts[0])
    return hurdle(entry, parts[0]) if law.name == "Hurdle" else mixture(entry, parts)
