"""How much groups differ: in their means, and in the slope of the covariate that matters most."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from synthstats_lightning.tasks.digest.least_squares import fit, scaled

Column = Float[np.ndarray, " rows"]
FEWEST = 3
"""Rows of a group whose slope is compared."""


@dataclass(frozen=True)
class GroupSummary:
    """One column of groups.

    Attributes:
        name: Name of the column.
        groups: How many groups have rows.
        smallest: Rows of the smallest group.
        largest: Rows of the largest group.
        f: F statistic of the groups' means, other covariates of |t| above 2 kept linear.
        spread: Standard deviation of the groups' means beyond their sampling error, in standard deviations of
            the rows within groups.
        highest: Number of the group of highest mean.
        lowest: Number of the group of lowest mean.
        slope_of: Covariate whose slope is compared; empty if there is none.
        slope_f: F statistic of one slope a group against one slope.
        slope_spread: Standard deviation of slopes beyond their sampling error, in common slopes.
    """

    name: str
    groups: int
    smallest: int
    largest: int
    f: float
    spread: float
    highest: float
    lowest: float
    slope_of: str = ""
    slope_f: float = 0.0
    slope_spread: float = 0.0


def summarise_groups(
    name: str,
    labels: Column,
    response: Column,
    others: Float[np.ndarray, "rows columns"],
    slope: tuple[str, Column] | None,
) -> GroupSummary | None:
    """Compares groups.

    Args:
        name: Name of the column of groups.
        labels: Group of each row.
        response: The response on the scale of the scan.
        others: Design of the other covariates that matter, intercept included.
        slope: Covariate whose slopes are compared, name and values.

    Returns:
        The comparison; `None` where there are not two groups, or no row more than groups.
    """
    groups, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    indicators = (index[:, None] == np.arange(len(groups))).astype(np.float64)
    without, within = fit(others, response), fit(np.column_stack([others, indicators]), response)
    free = len(response) - within.rank
    if len(groups) < 2 or free < 1 or within.rank == without.rank:
        return None
    noise = within.squares / free
    f = (without.squares - within.squares) / (within.rank - without.rank) / noise
    # of unequal groups: the size that makes the expected mean square one of equal groups
    typical = (len(response) - float((sizes**2).sum()) / len(response)) / (len(groups) - 1)
    means = np.array([without.residuals[index == group].mean() for group in range(len(groups))])
    found = GroupSummary(
        name=name,
        groups=len(groups),
        smallest=int(sizes.min()),
        largest=int(sizes.max()),
        f=float(f),
        spread=float(np.sqrt(max(f - 1, 0.0) / typical)),
        highest=float(groups[means.argmax()]),
        lowest=float(groups[means.argmin()]),
    )
    if slope is None:
        return found
    return _with_slopes(found, index, response, *slope)


def _with_slopes(
    found: GroupSummary, index: Int[np.ndarray, " rows"], response: Column, name: str, values: Column
) -> GroupSummary:
    """The comparison with slopes, where at least two groups have one."""
    x = scaled(values[:, None])[:, 0]
    kept = [
        group
        for group in range(found.groups)
        if (index == group).sum() >= FEWEST and np.ptp(x[index == group]) > 0
    ]
    if len(kept) < 2:
        return found
    squares, free, sums, slopes = 0.0, 0, [], []
    for group in kept:
        rows = index == group
        own = x[rows] - x[rows].mean()
        centred = response[rows] - response[rows].mean()
        sums.append(float(own @ own))
        slopes.append(float(own @ centred) / sums[-1])
        squares += float(((centred - slopes[-1] * own) ** 2).sum())
        free += int(rows.sum()) - 2
    weights, each = np.array(sums), np.array(slopes)
    common = float((weights * each).sum() / weights.sum())
    between = float((weights * (each - common) ** 2).sum())
    noise = max(squares / free, np.finfo(np.float64).tiny)
    slope_f = between / (len(kept) - 1) / noise
    typical = (weights.sum() - (weights**2).sum() / weights.sum()) / (len(kept) - 1)
    spread = np.sqrt(max(slope_f - 1, 0.0) * noise / typical)
    size = max(abs(common), np.finfo(np.float64).tiny)
    return replace(found, slope_of=name, slope_f=float(slope_f), slope_spread=float(min(spread / size, 1e6)))
