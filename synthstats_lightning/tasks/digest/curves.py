"""Candidate curves of a covariate, which do not depend on the response, and what all of them gain at once."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from synthstats_lightning.tasks.digest.least_squares import CLEAR, Rest, scaled
from synthstats_lightning.tasks.digest.moments import distinct, quantiles

Column = Float[np.ndarray, " rows"]
CUTS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Quantiles of a covariate at which steps and bends are tried."""
WAVES = (1, 2, 3, 4, 6)
"""Waves over the range of a covariate that are tried."""
FEWEST = {"quadratic": 3, "step": 5, "bend": 5, "wave": 8}
"""Different values that a covariate needs for a form beyond a straight line; 4 where it is not named."""
MOST_KEPT = 2000
"""Rows up to which the candidates of a covariate are kept."""


class Curve(NamedTuple):
    """One candidate.

    Attributes:
        form: Name of the form, which several candidates may have.
        columns: What the response is regressed on.
        chosen: Numbers in the columns that the response chooses, such as a cut.
    """

    form: str
    columns: Float[np.ndarray, "rows columns"]
    chosen: int


class Curves(NamedTuple):
    """All candidates of a covariate, and their columns side by side.

    Of two and three columns the first is always the covariate itself: these candidates share its projection.

    Attributes:
        candidates: The candidates; none of a covariate that does not vary.
        columns: Scaled columns: the covariate, further columns of one, second ones, third ones.
        ends: Where in `columns` those of one column end, and where second ones do.
        second: Of each candidate with a third column the place of its second, from the first second one on.
        order: Place of each candidate among those of one column, of two and of three, in this order.
        parameters: Columns of each candidate and numbers that the response chooses.
    """

    candidates: tuple[Curve, ...]
    columns: Float[np.ndarray, "rows columns"]
    ends: tuple[int, int]
    second: Int[np.ndarray, " threes"]
    order: Int[np.ndarray, " candidates"]
    parameters: Int[np.ndarray, " candidates"]


def curves(values: Column) -> Curves:
    """Candidates of a covariate; those of the last ones are kept, as programs for one table share them.

    Args:
        values: Values of a covariate.
    """
    whole = np.ascontiguousarray(values, np.float64)
    return _kept(whole.tobytes()) if len(whole) <= MOST_KEPT else _curves(whole)


@lru_cache(maxsize=32)
def _kept(values: bytes) -> Curves:
    return _curves(np.frombuffer(values, np.float64))


def _curves(values: Column) -> Curves:
    candidates = tuple(_candidates(values))
    none = np.empty(0, np.int64)
    if not candidates:
        return Curves((), np.empty((0, 0)), (0, 0), none, none, none)
    sizes = [each.columns.shape[1] for each in candidates]
    one, two, three = ([place for place, size in enumerate(sizes) if size == n] for n in (1, 2, 3))
    columns = [candidates[place].columns[:, 0] for place in one]
    columns += [candidates[place].columns[:, 1] for place in (*two, *three)]
    columns += [candidates[place].columns[:, 2] for place in three]
    ends = len(one), len(one) + len(two) + len(three)
    second = np.arange(len(two), len(two) + len(three))
    order = np.argsort(np.array([*one, *two, *three]))
    parameters = np.array([size + each.chosen for size, each in zip(sizes, candidates, strict=True)])
    return Curves(candidates, scaled(np.column_stack(columns)), ends, second, order, parameters)


def _candidates(values: Column) -> list[Curve]:
    """Candidates, the straight line first.

    With z the covariate from 0 at its smallest value to 1 at its largest: linear, log, square root,
    reciprocal, quadratic, cubic, exp(−4z) and exp(−12z) for what levels off, exp(2z) for growth, a step, a
    bend of a line, a wave about a line.
    """
    different = distinct(values)
    if different < 2:
        return []
    low, high = float(values.min()), float(values.max())
    z = (values - low) / (high - low)
    found = [Curve("linear", values[:, None], 0)]
    if different >= FEWEST["quadratic"]:
        found.append(Curve("quadratic", np.column_stack([z, z**2]), 0))
    if different < 4:
        return found
    found.append(Curve("cubic", np.column_stack([z, z**2, z**3]), 0))
    if low > 0:
        found.append(Curve("log", np.log(values)[:, None], 0))
        found.append(Curve("reciprocal", 1 / values[:, None], 0))
    if low >= 0:
        found.append(Curve("sqrt", np.sqrt(values)[:, None], 0))
    for name, rate in {"exp(-4z)": -4.0, "exp(-12z)": -12.0, "exp(2z)": 2.0}.items():
        found.append(Curve(name, np.exp(rate * z)[:, None], 0))
    cuts = np.unique(quantiles(z, CUTS))
    cuts = cuts[(cuts > 0) & (cuts < 1)]
    if different >= FEWEST["step"]:
        for cut in cuts:
            found.append(Curve("step", (z > cut).astype(np.float64)[:, None], 1))
            found.append(Curve("bend", np.column_stack([z, np.maximum(z - cut, 0.0)]), 1))
    if different >= FEWEST["wave"]:
        for waves in WAVES:
            if 4 * waves <= different:
                angle = 2 * np.pi * waves * z
                found.append(Curve("wave", np.column_stack([z, np.sin(angle), np.cos(angle)]), 1))
    return found


def gains(of: Curves, rest: Rest) -> Float[np.ndarray, " candidates"]:
    """What each candidate gains, in nats: `Rest.nats` of all of them from one table of cross products.

    Cross products lose digits where a column lies almost in others, or where hardly anything is left of the
    response; such candidates are fitted one by one.

    Args:
        of: Candidates of a covariate that varies.
        rest: The response beyond the covariates that are kept.
    """
    ones, twos = of.ends
    beyond = rest.beyond(of.columns)
    products, along = beyond.T @ beyond, rest.values @ beyond
    sizes, whole = products.diagonal(), float(rest.values @ rest.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        left_one = whole - along[:ones] ** 2 / sizes[:ones]
        # columns beyond the straight line, then third ones beyond the second ones too
        with_line = products[0, ones:] / sizes[0]
        sizes_two = sizes[ones:] - with_line * products[0, ones:]
        along_two = along[ones:] - with_line * along[0]
        seconds = twos - ones
        left_two = left_one[:1] - along_two[:seconds] ** 2 / sizes_two[:seconds]
        second = of.second
        shared = products[ones + second, np.arange(twos, len(sizes))] - with_line[second] * products[0, twos:]
        with_second = shared / sizes_two[second]
        sizes_three = sizes_two[seconds:] - with_second * shared
        along_three = along_two[seconds:] - with_second * along_two[second]
        left_three = left_two[second] - along_three**2 / sizes_three
        clear = sizes > CLEAR * len(beyond)
        clear_two = clear[ones:] & clear[:1] & (sizes_two > CLEAR * sizes[ones:])
        clear_three = clear_two[second] & clear_two[seconds:] & (sizes_three > CLEAR * sizes[twos:])
    pairs = seconds - len(second)
    squares = np.concatenate([left_one, left_two[:pairs], left_three])[of.order]
    clear = np.concatenate([clear[:ones], clear_two[:pairs], clear_three])[of.order]
    clear &= squares > CLEAR * whole
    found = rest.nats_of(squares, of.parameters)
    for place in np.flatnonzero(~clear):
        candidate = of.candidates[place]
        found[place] = rest.nats(candidate.columns, candidate.chosen)
    return found
