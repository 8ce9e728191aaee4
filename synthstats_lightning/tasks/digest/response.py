"""The response by itself: where it lies, of which shape, how it was recorded and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.moments import distinct, quantiles, shape_moments

Column = Float[np.ndarray, " rows"]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
DIGITS = range(-3, 7)
"""Decimals that values may be recorded to."""


@dataclass(frozen=True)
class ResponseSummary:
    """The response in the rows that count.

    Attributes:
        mean: Mean of the rows that count.
        deviation: Its standard deviation.
        quantiles: At 5, 25, 50, 75 and 95 per cent.
        skewness: Third standardised moment.
        kurtosis: Fourth standardised moment less 3.
        ratio: Variance over mean, of counts; `None` otherwise.
    """

    mean: float
    deviation: float
    quantiles: tuple[float, ...]
    skewness: float
    kurtosis: float
    ratio: float | None


@dataclass(frozen=True)
class RecordingSummary:
    """How the response was recorded.

    Attributes:
        spacing: Power of ten that all values are multiples of; `None` if they have more digits.
        distinct: Share of the rows' values that are different ones.
        lowest: The smallest value that was recorded.
        at_lowest: Share of rows that have it.
        highest: The largest value that was recorded.
        at_highest: Share of rows that have it.
    """

    spacing: float | None
    distinct: float
    lowest: float
    at_lowest: float
    highest: float
    at_highest: float


def summarise_response(values: Column, is_count: bool) -> ResponseSummary:
    """Describes the response.

    Args:
        values: The response in the rows that count.
        is_count: Whether it counts something.
    """
    mean = float(values.mean())
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    ratio = deviation**2 / mean if is_count and mean > 0 else None
    return ResponseSummary(
        mean, deviation, tuple(quantiles(values, QUANTILES)), *shape_moments(values), ratio
    )


def summarise_recording(values: Column) -> RecordingSummary:
    """Describes how the response was recorded.

    Args:
        values: The response in the rows that count.
    """
    low, high = float(values.min()), float(values.max())
    return RecordingSummary(
        spacing=_spacing(values),
        distinct=distinct(values) / len(values),
        lowest=low,
        at_lowest=float((values == low).mean()),
        highest=high,
        at_highest=float((values == high).mean()),
    )


def _spacing(values: Column) -> float | None:
    """The largest power of ten that divides all values, up to rounding; `None` below a millionth."""
    few = [float(value) for value in values[:3]]
    for digits in DIGITS:
        if any(
            abs(value - round(value)) > 2e-7 + 1e-15 * abs(value)
            for value in (each * 10.0**digits for each in few)
        ):
            continue
        steps = values * 10.0**digits
        # a power of ten divides nothing but 0 by chance where all values are smaller than it
        near = np.abs(steps - np.rint(steps)) <= 1e-7 + 4e-16 * np.abs(steps)
        if np.abs(steps).max() >= 1 and near.all():
            return float(10.0**-digits)
    return None
