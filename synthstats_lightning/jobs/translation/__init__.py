"""From job files to configurations: the keys that there are, and what each comes to."""

from synthstats_lightning.jobs.translation.graph import GraphSettings
from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.translate import KEYS, Translation, job_kind, nested, translate

__all__ = ["KEYS", "GraphSettings", "Key", "Translation", "job_kind", "nested", "translate"]
