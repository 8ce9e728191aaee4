"""Rows that a program foresees more finely than they are recorded.

The density of a continuous response that counts as exact has no largest value, so that a spike at a value
that the program holds as a constant, with a scale that is a constant too, earns whatever its width says. But
no value is known more finely than a double holds it, and one that occurs in several rows is recorded to no
less than some share of its distance from the next: no probability of such an interval is above 1. What a row
has by the prior alone is compared, since a free location pays for a tight scale by how seldom it fits. Rows
that do not have densities of their own, as those of a series, are let pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import Target, evaluate, is_coupled

DRAWS = 256
"""Draws from the prior in each of two means that must both be too high: by Markov's inequality one of them
is so by chance, for an honest row, as often as its density is above what it may be."""
LEAST_DRAWS, MOST_DENSITIES = 16, 2**20
"""Of many rows fewer: as many as make so many densities together, and no fewer than that."""
SHARE_OF_GAP = 0.01
"""A repeated value is recorded to no less than this share of its distance from the next."""


def widths(response: NDArray[Any]) -> Float[np.ndarray, " rows"]:
    """The narrowest interval that each value of a response can stand for.

    Args:
        response: Finite values `[rows]`.

    Returns:
        Widths in the response's unit: the spacing of doubles at the value, at 0 that at the smallest other
        one; for a value of several rows at least a share of its distance from the next. 0 where nothing is
        known: all values are 0.
    """
    values = response.astype(np.float64)
    sizes = np.abs(values)
    smallest = sizes[sizes > 0].min(initial=math.inf)
    if not math.isfinite(smallest):
        return np.zeros(len(values))
    width = np.spacing(np.where(sizes > 0, sizes, smallest))
    distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) > 1:
        gaps = np.diff(distinct)
        nearest = np.minimum(np.append(gaps, math.inf), np.insert(gaps, 0, math.inf))
        width = np.where(counts[place] > 1, np.maximum(width, SHARE_OF_GAP * nearest[place]), width)
    return width


def check_resolved(target: Target, response: NDArray[Any], first: int, generator: torch.Generator) -> None:
    """Refuses a program that gives a row more density than its value can be known to.

    Args:
        target: The model of all rows, of a continuous response that counts as exact; rows with one joint
            density are let pass.
        response: Values `[rows]` of scored rows and, before them, of those that only condition; held-out
            rows, which follow, are not among them.
        first: Rows at the start that only condition, and are not looked at.
        generator: Source of draws from the prior.

    Raises:
        ProgramFailure: `UNBOUNDED`, naming the row.
    """
    if is_coupled(target) or len(response) <= first:
        return
    width = widths(response)[first:]
    draws = max(LEAST_DRAWS, min(DRAWS, MOST_DENSITIES // max(1, len(response))))
    found = torch.full((len(width),), math.inf, dtype=torch.float64)
    with torch.no_grad():
        for _ in range(2):
            theta = target.sample_prior(draws if target.dimension > 0 else 1, generator)
            rows = evaluate(target, theta).log_likelihood[:, first : len(response)]
            found = torch.minimum(found, rows.logsumexp(0) - math.log(len(theta)))
    known = width > 0
    excess = np.where(known, found.numpy() + np.log(np.where(known, width, 1.0)), -math.inf)
    row = int(excess.argmax())
    if excess[row] > 0:
        raise ProgramFailure(
            FailureCategory.UNBOUNDED,
            f"row {first + row} has a log density of {float(found[row]):.4g} before it is seen, more than"
            f" a value known to {width[row]:.2g} can have; set `rounding`, the spacing of recorded values",
        )
