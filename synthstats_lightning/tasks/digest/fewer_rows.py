"""What a digest would say of fewer rows of the same kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from synthstats_lightning.tasks.digest.digest import Digest


def as_of_fewer_rows(digest: Digest, rows: int) -> Digest:
    """A digest whose statistics are of the size that so many of its rows would give them, about.

    Nats grow with the rows, t statistics with their root; shares, correlations and scales do not. A reader
    that knows the statistics of hundreds of rows is not led astray by those of tens of thousands.

    Args:
        digest: What all rows say.
        rows: How many rows it is to sound like; one of no more rows stays as it is.

    Raises:
        ValueError: If `rows` is below 1.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    if digest.rows <= rows:
        return digest
    share = rows / digest.rows
    root = math.sqrt(share)
    residuals, order = digest.residuals, digest.order
    if residuals is not None:
        logs = residuals.log_normal
        residuals = replace(
            residuals,
            families=_times(residuals.families, share),
            log_normal=None if logs is None else share * logs,
        )
    return replace(
        digest,
        regression=None if digest.regression is None else _times(digest.regression, root),
        scan=None
        if digest.scan is None
        else tuple(
            replace(each, gain=share * each.gain, shortfalls=_times(each.shortfalls, share))
            for each in digest.scan
        ),
        residuals=residuals,
        groups=None
        if digest.groups is None
        else tuple(
            replace(each, f=_f(each.f, share), slope_f=_f(each.slope_f, share) if each.slope_of else 0.0)
            for each in digest.groups
        ),
        order=None if order is None else replace(order, jump=root * order.jump),
    )


def _times(values: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in values.items()}


def _f(value: float, share: float) -> float:
    """An F statistic of fewer rows: 1 where nothing differs, however many there are."""
    return 1.0 + share * (value - 1.0)
