"""Columns that tell the response itself: a rate beside its count, a difference beside its parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.intake.encodings import Numbers

EXACT = 1e-9
"""Share of the response's variance that rounding may leave where columns tell the rest."""
SPARE = 6
"""Rows more than there are columns, from which on an exact fit is no chance."""
MOST_TOLD = 4
"""Columns at most that are said to tell the response."""
MOST_LOOKED_AT = 60
"""Columns up to which it is looked for any."""


def telling(covariates: Mapping[str, Numbers], response: Numbers) -> tuple[str, ...]:
    """Columns of numbers of which the response is an exact linear function; empty where there are none.

    Args:
        covariates: Name to values of columns of numbers, NaN where they are missing.
        response: Values, NaN where they are missing.
    """
    names = list(covariates)
    if not names or len(names) > MOST_LOOKED_AT:
        return ()
    x = np.column_stack([covariates[name] for name in names])
    known = ~np.isnan(x).any(1) & ~np.isnan(response)
    x, y = x[known], response[known]
    if len(y) < len(names) + SPARE or len(np.unique(y)) < 3:
        return ()
    spread = x.std(0)
    x = (x - x.mean(0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y.mean()) / y.std()
    if not _fits(x, y):
        return ()
    # one after the other is left out where the others tell it, too
    needed = list(range(len(names)))
    for place in range(len(names)):
        rest = [each for each in needed if each != place]
        if rest and _fits(x[:, rest], y):
            needed = rest
    return tuple(names[place] for place in needed) if len(needed) <= MOST_TOLD else ()


def told_of(names: tuple[str, ...], response: str) -> str:
    """A sentence on columns that tell the response, and what to do about them.

    Args:
        names: The columns, by the table's own names.
        response: Name of the response.
    """
    shown = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"
    out = ", ".join(f"{name}: left_out" for name in names[-1:])
    verb = "tells" if len(names) == 1 else "tell"
    return (
        f"{shown} {verb} {response} exactly, as a linear function does, so that programs with them explain"
        f" nothing. If that is no law of nature: roles: {{{out}}}"
    )


def _fits(x: Float[np.ndarray, "rows columns"], y: Numbers) -> bool:
    slopes = np.linalg.lstsq(x, y, rcond=None)[0]
    return bool(((y - x @ slopes) ** 2).mean() < EXACT)
