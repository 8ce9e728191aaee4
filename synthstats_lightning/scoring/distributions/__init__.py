"""Every distribution of the graph language, in torch, by families as PyMC groups them."""

from __future__ import annotations

from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.composites import distribution_of
from synthstats_lightning.scoring.distributions.table import DISTRIBUTIONS

__all__ = ["DISTRIBUTIONS", "Distribution", "distribution_of"]
