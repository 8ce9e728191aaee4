"""Hash of a data set: names of stored scores, and the seed of their random numbers, are made from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def data_fingerprint(
    covariates: Mapping[str, Array],
    response: Array,
    shown_rows: int = 0,
    rounding: float | None = None,
    held_out: int = 0,
) -> str:
    """Hash of everything a score depends on besides the graph and the settings.

    Args:
        covariates: Column name to values; their order does not matter.
        response: The response's values.
        shown_rows: Leading rows that only condition.
        rounding: Spacing of the recorded values.
        held_out: Last rows that evidence and elpd do not count.
    """
    digest = hashlib.sha256()
    for name, values in [*sorted(covariates.items()), ("", response)]:
        array = np.ascontiguousarray(values)
        digest.update(f"{name}:{array.dtype.str}:{array.shape}\n".encode())
        digest.update(array.tobytes())
    digest.update(f"{shown_rows}".encode())
    if rounding is not None:
        digest.update(f":{rounding!r}".encode())
    if held_out:
        digest.update(f":held_out={held_out}".encode())
    return digest.hexdigest()
