"""Pictures of a few characters: points in Braille, counts in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]
BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character, by row and column of its dots."""
BLOCKS = " ▁▂▃▄▅▆▇█"


def scatter(x: Values, y: Values, width: int = 16, height: int = 3) -> str:
    """Points as dots of Braille characters, `y` upwards.

    Args:
        x: Values to the right.
        y: Values upwards, as many.
        width: Characters in a line.
        height: Number of lines.
    """
    cells = np.zeros((height, width), dtype=np.int64)
    columns, rows = _places(x, 2 * width), 4 * height - 1 - _places(y, 4 * height)
    bits = np.array(DOTS)[rows % 4, columns % 2]
    np.bitwise_or.at(cells, (rows // 4, columns // 2), bits)
    return "\n".join("".join(chr(BRAILLE + cell) for cell in line) for line in cells.tolist())


def histogram(values: Values, width: int = 16) -> str:
    """Counts in equal intervals as blocks.

    Args:
        values: Numbers to count.
        width: Number of intervals.
    """
    counts = np.bincount(_places(values, width), minlength=width)
    heights = np.ceil(counts / counts.max() * (len(BLOCKS) - 1)).astype(int)
    return "".join(BLOCKS[height] for height in heights)


def _places(values: Values, number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    low, high = float(values.min()), float(values.max())
    if high == low:
        return np.full(len(values), number // 2)
    return np.minimum((values - low) / (high - low) * number, number - 1).astype(np.int64)
