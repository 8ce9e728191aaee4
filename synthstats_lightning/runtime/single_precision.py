"""Which numbers are numbers to the trainer, which computes losses in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float32).max)


def is_finite(values: Any) -> NDArray[np.bool_]:
    """Whether numbers are finite as float32, element by element.

    Args:
        values: A number or an array of them, NaN and infinities among them.
    """
    found: Any = np.abs(np.asarray(values, dtype=np.float64)) <= LARGEST
    return np.asarray(found)
