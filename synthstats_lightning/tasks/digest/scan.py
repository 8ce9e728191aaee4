"""Which curve of each covariate explains the response best, and how far behind the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.curves import curves, gains
from synthstats_lightning.tasks.digest.least_squares import Rest

Column = Float[np.ndarray, " rows"]


@dataclass(frozen=True)
class CovariateScan:
    """One covariate's candidate curves, other covariates of |t| above 2 kept linear.

    Attributes:
        name: Name of the covariate.
        best: Name of the best form.
        gain: Nats by which the best form beats leaving the covariate out: half n times the log of the ratio
            of residual squares, less half log n a parameter; below 0 it is better left out.
        shortfalls: Form to nats behind the best; a form is missing where it is not defined.
    """

    name: str
    best: str
    gain: float
    shortfalls: Mapping[str, float]


def scan_covariate(
    name: str, values: Column, rest: Rest
) -> tuple[CovariateScan, Float[np.ndarray, "rows columns"]] | None:
    """Tries every form of a covariate.

    Args:
        name: Name of the covariate.
        values: Its values in the rows that count.
        rest: The response beyond the covariates that are kept.

    Returns:
        The forms' gains, and the columns of the best one with the cut or wave that the response prefers;
        `None` of a covariate that does not vary.
    """
    tried = curves(values)
    if not tried.candidates:
        return None
    found = gains(tried, rest).tolist()
    by_form: dict[str, float] = {}
    for candidate, gain in zip(tried.candidates, found, strict=True):
        by_form[candidate.form] = max(gain, by_form.get(candidate.form, -np.inf))
    best = max(by_form, key=by_form.__getitem__)
    shortfalls = {form: by_form[best] - gain for form, gain in by_form.items()}
    columns = tried.candidates[found.index(by_form[best])].columns
    return CovariateScan(name, best, by_form[best], shortfalls), columns
