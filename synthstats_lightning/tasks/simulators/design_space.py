"""Random designs, grids and complete lists of designs, from the fields of a design alone."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from synthstats_lightning.tasks.simulators.design import Design, DesignField


def random_entry(field: DesignField, rng: np.random.Generator) -> Any:
    """A uniform value of a numeric field.

    Args:
        field: The field; its range must be finite.
        rng: Source of the value.

    Raises:
        TypeError: If the field is a list or a category.
    """
    low, high = _range(field, "random_design")
    if field.kind == "continuous":
        value = float(rng.uniform(low, high))
        # uniform() may return its lower end
        return float(np.nextafter(low, high)) if field.open_ends and value == low else value
    return int(rng.integers(int(low), int(high) + 1))


def all_designs(fields: tuple[DesignField, ...]) -> list[Design]:
    """Every combination of values, where all fields are whole numbers in a range.

    Args:
        fields: What a design consists of.

    Raises:
        TypeError: If a field is not of whole numbers.
    """
    ranges = []
    for field in fields:
        low, high = _range(field, "all_designs")
        if field.kind == "continuous":
            raise TypeError(f"there is no finite list of designs: {field.name} is continuous")
        ranges.append(range(int(low), int(high) + 1))
    names = [field.name for field in fields]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*ranges)]


def grid(fields: tuple[DesignField, ...], n: int) -> list[Design]:
    """`n` designs of a regular grid over numeric fields, inside open ends.

    Args:
        fields: What a design consists of.
        n: How many, from 1.

    Raises:
        TypeError: If a field is a list or a category.
    """
    side = math.ceil(round(n ** (1.0 / len(fields)), 9))
    names = [field.name for field in fields]
    axes = [_axis(field, side) for field in fields]
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes)]
    return [points[index] for index in spread(len(points), n)]


def spread(count: int, n: int) -> list[int]:
    """Indices of `n` of `count` things, evenly spread; all different if `n` is at most `count`."""
    if n == 1:
        return [(count - 1) // 2]
    return [round(index) for index in np.linspace(0, count - 1, n).tolist()]


def _axis(field: DesignField, side: int) -> list[Any]:
    low, high = _range(field, "grid")
    if side == 1:
        values = [(low + high) / 2.0]
    elif field.open_ends:
        values = np.linspace(low, high, side + 2)[1:-1].tolist()
    else:
        values = np.linspace(low, high, side).tolist()
    return values if field.kind == "continuous" else [round(value) for value in values]


def _range(field: DesignField, method: str) -> tuple[float, float]:
    low, high = (0.0, 1.0) if field.kind == "binary" else (field.low, field.high)
    if field.length is not None or field.kind == "category" or not math.isfinite(high - low):
        raise TypeError(f"{method} must be written for the field {field.name}: it is no number in a range")
    return low, high
