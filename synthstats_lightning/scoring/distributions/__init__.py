"""Every distribution of the graph language, in torch, by families as PyMC groups them."""

from __future__ import annotations

from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.composites import DISTRIBUTIONS, distribution_of

__all__ = ["DISTRIBUTIONS", "Distribution", "distribution_of"]
