"""Values of the response that a program holds as literals: found, counted and reported, never judged.

A program cannot read the response, but whoever wrote it may have seen some of it. Rows that a prompt shows
only condition, so copying them earns nothing; the count tells a reader that a program does.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.graph import ModelGraph

MIN_COPIES = 3
"""Fewer matches are taken for coincidence: a prior's 2.5 is nobody's copy."""
ORDINARY = 20
"""Whole numbers up to this size are in every program: they count only in the order of the data."""
SURPRISAL = 12.0
"""Bits of a run of literals in the order of the data beyond which it is no coincidence."""
TOLERANCE = 1e-6
"""Of a copy, relative to the value and to the spread of the response: `y - 1e-9` is one, too."""
MAX_LITERALS = 5_000
"""Most literals that are looked at."""

_NUMBER = re.compile(r"(?<![\w.])(-\s{0,4})?((?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)")


def source_literals(source: str) -> list[float]:
    """The numbers in a program's text, in order, those within strings too.

    The text is never parsed as Python: it may be made to break a parser.

    Args:
        source: Python source of any origin.
    """
    found = []
    for match in _NUMBER.finditer(source):
        try:
            value = float(match[2])
        except ValueError:  # underscores where Python allows none
            continue
        found.append(-value if match[1] else value)
        if len(found) == MAX_LITERALS:
            break
    return found


def graph_literals(graph: ModelGraph) -> list[float]:
    """The constants of a model graph, in order, but for whole numbers that count up: they number rows.

    Args:
        graph: The graph, from `programs.validation.parse_graph`.
    """
    found: list[float] = []
    for node in graph.nodes:
        if node.op == "constant":
            values = constant_array(node).astype(np.float64).ravel()[:MAX_LITERALS]
            numbers_rows = (np.diff(values) == 1.0).all() and (values == np.rint(values)).all()
            if len(values) < MIN_COPIES or not numbers_rows:
                found += values.tolist()
    return found[:MAX_LITERALS]


def literal_copies(literals: list[float], response: NDArray[Any]) -> int:
    """How many values of the response are among some literals.

    Values count that are no ordinary whole numbers, each as often as it occurs on both sides; so do those in
    a run of literals in the order of the data, ordinary or not, that is too long for coincidence.

    Args:
        literals: The numbers that `source_literals` or `graph_literals` found.
        response: The response's values, of shape `(rows,)`.

    Returns:
        A number of rows; 0 if fewer than `MIN_COPIES` match.
    """
    values = np.asarray(response, dtype=np.float64)
    numbers = np.array([x for x in literals if np.isfinite(x)], dtype=np.float64)
    if not len(values) or not len(numbers):
        return 0
    rows = Counter(values.tolist())
    found = Counter(_nearest(numbers, np.unique(values)))
    distinct = sum(
        min(count, rows[value])
        for value, count in found.items()
        if value is not None and (value != round(value) or abs(value) > ORDINARY)
    )
    copies = max(distinct, _longest_run(numbers, values, rows))
    return copies if copies >= MIN_COPIES else 0


def _nearest(
    numbers: Float[np.ndarray, " literals"], known: Float[np.ndarray, " values"]
) -> list[float | None]:
    """For each number the value that it copies, if any."""
    right = np.clip(np.searchsorted(known, numbers), 0, len(known) - 1)
    left = np.clip(right - 1, 0, None)
    closer = np.where(
        np.abs(known[left] - numbers) <= np.abs(known[right] - numbers), known[left], known[right]
    )
    allowed = TOLERANCE * np.maximum(np.abs(closer), 0.01 * np.ptp(known))
    near = np.abs(closer - numbers) <= allowed
    return [float(value) if ok else None for value, ok in zip(closer, near, strict=True)]


def _longest_run(
    numbers: Float[np.ndarray, " literals"], values: Float[np.ndarray, " rows"], rows: Counter[float]
) -> int:
    """Rows of the longest stretch of the response that stands among the numbers in order, if surprising."""
    bits = np.log2(len(values)) - np.log2([rows[value] for value in values.tolist()])
    allowed = TOLERANCE * np.maximum(np.abs(values), 0.01 * np.ptp(values))
    best = 0
    lengths = np.zeros(len(values) + 1, dtype=np.int64)
    surprisal = np.zeros(len(values) + 1)
    near = [value is not None for value in _nearest(numbers, np.unique(values))]
    for number, matches in zip(numbers, near, strict=True):
        if not matches:
            lengths[:], surprisal[:] = 0, 0.0
            continue
        same = np.abs(values - number) <= allowed
        lengths[1:] = np.where(same, lengths[:-1] + 1, 0)
        surprisal[1:] = np.where(same, surprisal[:-1] + bits, 0.0)
        long = lengths[1:][surprisal[1:] >= SURPRISAL]
        best = max(best, int(long.max(initial=0)))
    return best
