"""What keys of job files were called before."""

from __future__ import annotations

import re

SECTIONS = {"model": "policy", "lora": "training.lora", "rubric": "verifier", "judge": "verifier"}
"""Sections by their former names."""
SYNONYMS = {"hyperparameters.global_batch": "hyperparameters.batch_size"}
"""Keys by other names that they have as well."""


def present_name(name: str) -> str:
    """What a key is called today.

    Args:
        name: A dotted key, of any time.
    """
    first, dot, rest = name.partition(".")
    name = f"{SECTIONS.get(first, first)}{dot}{rest}"
    name = re.sub(r"(^|\.)judge", r"\1verifier", name)
    return SYNONYMS.get(name, name)
