"""What says whether a policy comes to its target, as torchmetrics that hold over batches and processes."""

from synthstats_lightning.metrics.diversity import StructureDiversity
from synthstats_lightning.metrics.importance import ImportanceLogZ
from synthstats_lightning.metrics.moments import GroupedVariance, Moments
from synthstats_lightning.metrics.prefixes import PrefixCollapse, prefix_codes

__all__ = [
    "GroupedVariance",
    "ImportanceLogZ",
    "Moments",
    "PrefixCollapse",
    "StructureDiversity",
    "prefix_codes",
]
