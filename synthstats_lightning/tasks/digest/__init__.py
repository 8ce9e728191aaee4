"""Arithmetic on the rows that count, which a writer of programs should be given and not asked to do."""

from synthstats_lightning.tasks.digest.digest import SECTIONS, Digest, task_digest
from synthstats_lightning.tasks.digest.text import digest_text

__all__ = ["SECTIONS", "Digest", "digest_text", "task_digest"]
