"""A response that programs see transformed, with what that does to its density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[np.float64]]
Numbers = Values | np.ndarray[Any, np.dtype[np.int64]]
TRANSFORMS = ("log", "standardised")
"""How a task may transform a continuous response."""


@dataclass(frozen=True)
class ResponseTransform:
    """From the response as it was measured to what programs see of it, and back.

    Attributes:
        kind: `"log"`, or `"standardised"`: minus `centre`, over `scale`.
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
        return "on the log scale" if self.kind == "log" else "standardised"


def named_transform(kind: str, low: float, high: float) -> ResponseTransform:
    """The transform of a name.

    To standardise takes the middle and a quarter of the range, which a prompt tells anyway: mean and standard
    deviation would tell more of the response.

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
    return ResponseTransform("standardised", (low + high) / 2, (high - low) / 4)
