"""A response that programs see transformed, with what that does to its density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[np.float64]]
Numbers = Values | np.ndarray[Any, np.dtype[np.int64]]
TRANSFORMS = ("log", "standardised", "scaled")
"""How a task may transform a continuous response."""
WRITTEN = (0.05, 3e4)
"""Largest sizes of a response for which the bundled policy writes priors that fit."""


@dataclass(frozen=True)
class ResponseTransform:
    """From the response as it was measured to what programs see of it, and back.

    Attributes:
        kind: `"log"`; `"standardised"`: minus `centre`, over `scale`; or `"scaled"`: over `scale`, a power of
            ten.
        centre: The measured value that becomes 0.
        scale: The measured difference that becomes 1.
    """

    kind: str
    centre: float = 0.0
    scale: float = 1.0

    def forward(self, measured: Numbers) -> Values:
        """Values as programs see them.

        Args:
            measured: Values as they were measured.
        """
        values = np.asarray(measured, dtype=np.float64)
        return np.log(values) if self.kind == "log" else (values - self.centre) / self.scale

    def inverse(self, seen: Numbers) -> Values:
        """Values as they were measured.

        Args:
            seen: Values as programs see them.
        """
        values = np.asarray(seen, dtype=np.float64)
        return np.exp(values) if self.kind == "log" else values * self.scale + self.centre

    def log_jacobian(self, seen: Numbers) -> Values:
        """What a log density of transformed values lacks to be one of measured values, in nats, by row.

        Args:
            seen: Values as programs see them.
        """
        if self.kind == "log":
            return -seen.astype(np.float64)
        return np.full(len(seen), -np.log(self.scale))

    @property
    def words(self) -> str:
        """What a prompt says of it behind the range."""
        if self.kind == "scaled":
            return f"in units of {self.scale:g}"
        return "on the log scale" if self.kind == "log" else "standardised"


def named_transform(kind: str, low: float, high: float) -> ResponseTransform:
    """The transform of a name.

    To standardise takes the middle and a quarter of the range, which a prompt tells anyway: mean and standard
    deviation would tell more of the response. To scale takes the power of ten that makes the largest size of
    a value one from 10 to 100.

    Args:
        kind: One of `TRANSFORMS`.
        low: Smallest measured value.
        high: Largest measured value.

    Raises:
        ValueError: If there is no such transform, or it is none of these values.
    """
    if kind not in TRANSFORMS:
        raise ValueError(f"response_transform must be one of {', '.join(TRANSFORMS)}, got {kind!r}")
    if kind == "log":
        if low <= 0:
            raise ValueError(f"response_transform 'log' needs values above 0, got {low:g}")
        return ResponseTransform("log")
    if kind == "scaled":
        size = max(abs(low), abs(high)) or 1.0
        return ResponseTransform("scaled", scale=10.0 ** (math.floor(math.log10(size)) - 1))
    return ResponseTransform("standardised", (low + high) / 2, (high - low) / 4)


def transform_into_reach(low: float, high: float) -> str | None:
    """The transform that brings a measured response to numbers as the bundled policy can write them.

    It was made for responses of sizes within `WRITTEN`: for prices of millions the middles of its priors lie
    at tens of thousands.

    Args:
        low: Smallest measured value, in the response's own unit.
        high: Largest measured value, in the same unit.

    Returns:
        A name of `TRANSFORMS`: `"standardised"` for values that differ by less than a thousandth of their
        size, else `"scaled"`; `None` where none is needed.
    """
    size = max(abs(low), abs(high))
    if size == 0 or WRITTEN[0] <= size <= WRITTEN[1]:
        return None
    return "standardised" if high - low < 1e-3 * size else "scaled"
