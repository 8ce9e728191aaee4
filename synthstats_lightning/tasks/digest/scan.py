"""Which curve of each covariate explains the response best, and how far behind the others are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.least_squares import Rest

Column = Float[np.ndarray, " rows"]
CUTS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Quantiles of a covariate at which steps and bends are tried."""
WAVES = (1, 2, 3, 4, 6)
"""Waves over the range of a covariate that are tried."""
FEWEST = {"quadratic": 3, "step": 5, "bend": 5, "wave": 8}
"""Different values that a covariate needs for a form beyond a straight line; 4 where it is not named."""


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


def scan_covariate(name: str, values: Column, rest: Rest) -> CovariateScan | None:
    """Tries every form of a covariate.

    Args:
        name: Name of the covariate.
        values: Its values in the rows that count.
        rest: The response beyond the covariates that are kept.

    Returns:
        The forms' gains; `None` of a covariate that does not vary.
    """
    gains: dict[str, float] = {}
    for form, columns, chosen in forms(values):
        gain = rest.nats(columns, chosen)
        gains[form] = max(gain, gains.get(form, -np.inf))
    if not gains:
        return None
    best = max(gains, key=gains.__getitem__)
    shortfalls = {form: gains[best] - gain for form, gain in gains.items()}
    return CovariateScan(name, best, gains[best], shortfalls)


def forms(values: Column) -> Iterator[tuple[str, Float[np.ndarray, "rows columns"], int]]:
    """Names of forms, their columns, and how many numbers in them are chosen by the response.

    With z the covariate from 0 at its smallest value to 1 at its largest: linear, log, square root,
    reciprocal, quadratic, cubic, exp(−4z) and exp(−12z) for what levels off, exp(2z) for growth, a step, a
    bend of a line, a wave about a line.

    Args:
        values: Values of a covariate.
    """
    distinct = len(np.unique(values))
    if distinct < 2:
        return
    yield "linear", values[:, None], 0
    low, high = float(values.min()), float(values.max())
    z = (values - low) / (high - low)
    if distinct >= FEWEST["quadratic"]:
        yield "quadratic", np.column_stack([z, z**2]), 0
    if distinct < 4:
        return
    yield "cubic", np.column_stack([z, z**2, z**3]), 0
    if low > 0:
        yield "log", np.log(values)[:, None], 0
        yield "reciprocal", 1 / values[:, None], 0
    if low >= 0:
        yield "sqrt", np.sqrt(values)[:, None], 0
    for name, rate in {"exp(-4z)": -4.0, "exp(-12z)": -12.0, "exp(2z)": 2.0}.items():
        yield name, np.exp(rate * z)[:, None], 0
    cuts = np.unique(np.quantile(z, CUTS))
    cuts = cuts[(cuts > 0) & (cuts < 1)]
    if distinct >= FEWEST["step"]:
        for cut in cuts:
            yield "step", (z > cut).astype(np.float64)[:, None], 1
            yield "bend", np.column_stack([z, np.maximum(z - cut, 0.0)]), 1
    if distinct >= FEWEST["wave"]:
        for waves in WAVES:
            if 4 * waves <= distinct:
                angle = 2 * np.pi * waves * z
                yield "wave", np.column_stack([z, np.sin(angle), np.cos(angle)]), 1


def best_columns(name: str, values: Column, rest: Rest) -> Float[np.ndarray, "rows columns"]:
    """The columns of a named form, with the cut or wave that the response prefers.

    Args:
        name: Name of a form that is defined for the covariate.
        values: Values of the covariate.
        rest: The response beyond the covariates that are kept.
    """
    candidates = [columns for form, columns, _ in forms(values) if form == name]
    return max(candidates, key=rest.nats)
