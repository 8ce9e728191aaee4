"""Evaluation points with as many ones as zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from synthstats_lightning.tasks.simulators.arrays import Array


class UnbalancedError(ValueError):
    """An instance without enough responses of one of the two classes."""


LIMIT = 100_000
"""Rows drawn at most before a response counts as too rare."""


def balanced_rows(
    draw: Callable[[int], dict[str, Array]], response: str, n: int, limit: int = LIMIT
) -> dict[str, Array]:
    """Rows whose binary response alternates 1, 0, 1, 0, ..., by drawing until there are enough of both.

    Args:
        draw: From a number to that many rows, one a design.
        response: Name of the response column.
        n: Rows to return.
        limit: Rows to draw at most.

    Raises:
        UnbalancedError: If one of the responses is too rare to be found within `limit` rows.
    """
    need = {1: (n + 1) // 2, 0: n // 2}
    rows_of: dict[int, list[dict[str, Array]]] = {1: [], 0: []}
    count = {1: 0, 0: 0}
    drawn, block = 0, 4 * n
    while any(count[value] < need[value] for value in need):
        if drawn >= limit:
            rare = min(need, key=lambda value: count[value] - need[value])
            raise UnbalancedError(
                f"balanced evaluation needs {need[rare]} rows with {response} = {rare},"
                f" but {drawn} random rows hold {count[rare]}; give balanced=False for such an instance"
            )
        rows = draw(min(block, limit - drawn))
        drawn += len(rows[response])
        block *= 4
        for value in need:
            chosen = rows[response] == value
            rows_of[value].append({key: values[chosen] for key, values in rows.items()})
            count[value] += int(chosen.sum())
    result: dict[str, Array] = {}
    for key in rows_of[1][0]:
        ones = np.concatenate([part[key] for part in rows_of[1]])[: need[1]]
        zeros = np.concatenate([part[key] for part in rows_of[0]])[: need[0]]
        result[key] = np.empty(n, dtype=ones.dtype)
        result[key][0::2], result[key][1::2] = ones, zeros
    return result
