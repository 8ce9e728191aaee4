"""Every distribution of the graph language, in torch."""

from __future__ import annotations

from synthstats_lightning.scoring.distributions.base import Distribution, Support
from synthstats_lightning.scoring.distributions.composites import distribution_of
from synthstats_lightning.scoring.distributions.table import DISTRIBUTIONS

__all__ = ["DISTRIBUTIONS", "Distribution", "Support", "distribution_of"]
