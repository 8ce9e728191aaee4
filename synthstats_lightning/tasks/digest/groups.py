"""How much groups differ: in their means, and in the slope of the covariate that matters most."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from synthstats_lightning.tasks.digest.least_squares import fit, floor, scaled

Column = Float[np.ndarray, " rows"]
FEWEST = 3
"""Rows of a group whose slope is compared."""
CONSTANT = 1e-20
"""Mean square within groups, of a column of variance 1, that is nothing but rounding."""
HARDLY = 1e-6
"""The same of a column that hardly varies within groups."""
MOST_INDICATORS = 300
"""Groups up to which a regression has a column for each."""


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

    def gain(self, rows: int) -> float:
        """Nats by which a mean of each group beats one mean, less half log n for each mean more, as a scan's.

        Args:
            rows: Rows that count.
        """
        more, left = self.groups - 1, rows - self.groups
        if more < 1 or left < 1 or not math.isfinite(self.f):
            return 0.0
        return rows / 2 * math.log1p(max(self.f, 0.0) * more / left) - more / 2 * math.log(rows)


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
    without = fit(others, response)
    squares, rank = _within(index, sizes, others, response)
    free = len(response) - rank
    if len(groups) < 2 or free < 1 or rank == without.rank:
        return None
    noise = squares / free
    f = (without.squares - squares) / (rank - without.rank) / noise
    # of unequal groups: the size that makes the expected mean square one of equal groups
    typical = (len(response) - float((sizes**2).sum()) / len(response)) / (len(groups) - 1)
    means = np.bincount(index, without.residuals) / sizes
    same = 1e-9 * float(
        np.abs(without.residuals).max()
    )  # of groups that differ by rounding the first is named
    found = GroupSummary(
        name=name,
        groups=len(groups),
        smallest=int(sizes.min()),
        largest=int(sizes.max()),
        f=float(f),
        spread=float(np.sqrt(max(f - 1, 0.0) / typical)),
        highest=float(groups[(means >= means.max() - same).argmax()]),
        lowest=float(groups[(means <= means.min() + same).argmax()]),
    )
    if slope is None:
        return found
    return _with_slopes(found, index, response, *slope)


def _within(
    index: Int[np.ndarray, " rows"],
    sizes: Int[np.ndarray, " groups"],
    others: Float[np.ndarray, "rows columns"],
    response: Column,
) -> tuple[float, int]:
    """Residual sum of squares and rank of a regression on others and one mean a group."""
    if len(sizes) > 1:
        centred = others[:, 1:] - (_sums(index, others[:, 1:], len(sizes)) / sizes[:, None])[index]
        values = response - (np.bincount(index, response) / sizes)[index]
        spread = (centred * centred).sum(0)
        # what is the same throughout each group is a sum of the groups' means
        centred = centred[:, spread > CONSTANT * len(response)]
        if not centred.shape[1]:
            return max(float(values @ values), floor(response)), len(sizes)
        found = fit(centred, values)
        hardly = int((spread > HARDLY * len(response)).sum()) < centred.shape[1]
        # columns that hardly vary within groups are left to the whole regression's count of its rank
        if len(sizes) > MOST_INDICATORS or (not hardly and found.rank == centred.shape[1]):
            return max(float(found.residuals @ found.residuals), floor(response)), len(sizes) + found.rank
    indicators = (index[:, None] == np.arange(len(sizes))).astype(np.float64)
    whole = fit(np.column_stack([others, indicators]), response)
    return whole.squares, whole.rank


def _sums(
    index: Int[np.ndarray, " rows"], columns: Float[np.ndarray, "rows columns"], groups: int
) -> Float[np.ndarray, "groups columns"]:
    found = np.zeros((groups, columns.shape[1]))
    np.add.at(found, index, columns)
    return found


def _with_slopes(
    found: GroupSummary, index: Int[np.ndarray, " rows"], response: Column, name: str, values: Column
) -> GroupSummary:
    """The comparison with slopes, where at least two groups have one."""
    x = scaled(values[:, None])[:, 0]
    sizes = np.bincount(index)
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, index, x)
    np.maximum.at(high, index, x)
    kept = (sizes >= FEWEST) & (high > low)
    if kept.sum() < 2:
        return found
    own = x - (np.bincount(index, x) / sizes)[index]
    centred = response - (np.bincount(index, response) / sizes)[index]
    sums = np.bincount(index, own * own)
    slopes = np.bincount(index, own * centred) / np.where(kept, sums, 1.0)
    left = np.where(kept[index], centred - slopes[index] * own, 0.0)
    squares, free = float(left @ left), int((sizes[kept] - 2).sum())
    weights, each = sums[kept], slopes[kept]
    common = float((weights * each).sum() / weights.sum())
    between = float((weights * (each - common) ** 2).sum())
    noise = max(squares / free, np.finfo(np.float64).tiny)
    slope_f = between / (len(weights) - 1) / noise
    typical = (weights.sum() - (weights**2).sum() / weights.sum()) / (len(weights) - 1)
    spread = np.sqrt(max(slope_f - 1, 0.0) * noise / typical)
    size = max(abs(common), np.finfo(np.float64).tiny)
    return replace(found, slope_of=name, slope_f=float(slope_f), slope_spread=float(min(spread / size, 1e6)))
