"""What says whether a policy comes to its target, as torchmetrics that hold over batches and processes."""

from synthstats_lightning.metrics.diversity import StructureDiversity, effective_number
from synthstats_lightning.metrics.importance import (
    ImportanceLogZ,
    LogZEstimate,
    effective_sample_size,
    importance_log_z,
    truncated_log_z,
)
from synthstats_lightning.metrics.moments import GroupedVariance, Moments
from synthstats_lightning.metrics.prefixes import PrefixCollapse, prefix_codes

__all__ = [
    "GroupedVariance",
    "ImportanceLogZ",
    "LogZEstimate",
    "Moments",
    "PrefixCollapse",
    "StructureDiversity",
    "effective_number",
    "effective_sample_size",
    "importance_log_z",
    "prefix_codes",
    "truncated_log_z",
]
