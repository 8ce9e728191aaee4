"""The table of distributions in torch: what the families, by being imported, have registered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from synthstats_lightning.programs.distributions import DISTRIBUTIONS as ENTRIES
from synthstats_lightning.scoring.distributions import (  # noqa: F401
    bounded,
    bounded_counts,
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

DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType({name: REGISTERED[name] for name in ENTRIES})
"""Torch side of `programs.distributions`, by the same names."""
