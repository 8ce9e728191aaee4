"""A digest and a request as numbers for small networks: what a request says, and what the data add."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest.digest import Digest
from synthstats_lightning.tasks.digest.scan import CovariateScan

Features = Float[np.ndarray, " _"]
KINDS = ("continuous", "count", "integer", "binary")
FORMS = (
    "linear",
    "quadratic",
    "cubic",
    "log",
    "reciprocal",
    "sqrt",
    "exp(-4z)",
    "exp(-12z)",
    "exp(2z)",
    "step",
    "bend",
    "wave",
)
"""Forms of the scan whose shortfalls are told."""
FAMILIES = ("Normal", "Laplace", "Student t3", "Cauchy")
MOST_COLUMNS = 3
"""Covariates that are told apart: the grammar has no more."""
LAST = 1e4
"""Largest size of a statistic that is told apart."""


def request_features(columns: Iterable[Column], response: Column, rows: int) -> Features:
    """What a request says of the response, rows and covariates together.

    Args:
        columns: The covariates as the prompt describes them.
        response: As the prompt describes it.
        rows: Rows that the request names.
    """
    return np.array([*_column(response), math.log(rows), float(min(len(list(columns)), MOST_COLUMNS))])


def column_features(column: Column) -> Features:
    """What a request says of one covariate.

    Args:
        column: As the prompt describes it.
    """
    named = float(len(column.levels) > 2 or column.role == "group")
    return np.array([*_column(column), named])


def digest_features(digest: Digest, response: Column) -> Features:
    """What the rows that count say of the response and of what is left of it.

    Args:
        digest: The digest of a data set, with all its sections.
        response: As the prompt describes it; ends are told relative to its range.
    """
    values: list[float] = []
    own = digest.response
    span = max(response.high - response.low, math.ulp(1.0))
    if own is None:
        values += [0.0] * 11
    else:
        values += [_log(own.deviation / span), _tame(own.skewness), _tame(own.kurtosis)]
        values += [_tame(4 * (quantile - response.low) / span) for quantile in own.quantiles]
        values += [_tame(4 * (own.mean - response.low) / span)]
        values += [0.0 if own.ratio is None else _log(own.ratio), float(own.ratio is not None)]
    recording = digest.recording
    values += [0.0, 0.0] if recording is None else [recording.at_lowest, recording.at_highest]
    values += [max((_tame(scan.gain) for scan in digest.scan or ()), default=0.0)]
    left = digest.residuals
    if left is None:
        values += [0.0] * (9 + len(FAMILIES))
    else:
        values += [_log(left.deviation / span), _log(max(1 - left.explained, 1e-6))]
        values += [_tame(left.skewness), _tame(left.kurtosis)]
        values += [_tame(left.families.get(name, 0.0)) for name in FAMILIES]
        normal = left.log_normal
        values += [0.0 if normal is None else _tame(normal), float(normal is not None)]
        values += [left.scale_with_mean, max(map(abs, left.scale_with.values()), default=0.0), 1.0]
    counts = digest.counts
    if counts is None:
        values += [0.0] * 6
    else:
        dispersed = counts.expected_zeros_dispersed
        values += [_log(counts.dispersion), counts.zeros, counts.expected_zeros]
        values += [counts.expected_zeros if dispersed is None else dispersed]
        values += [float(counts.family == "Binomial"), 1.0]
    return np.array(values)


def scan_features(name: str, digest: Digest) -> Features:
    """What the rows that count say of one covariate.

    Args:
        name: Name of the covariate to tell of.
        digest: The digest of a data set, with all its sections.
    """
    scans = list(digest.scan or ())
    place, scan = next(((i, each) for i, each in enumerate(scans) if each.name == name), (len(scans), None))
    t = (digest.regression or {}).get(name, 0.0)
    spread = 0.0 if digest.residuals is None else digest.residuals.scale_with.get(name, 0.0)
    best = scans[0].gain if scans else 0.0
    group = next((each for each in digest.groups or () if each.name == name), None)
    gain = 0.0 if scan is None else scan.gain
    return np.array(
        [
            _tame(t),
            _tame(gain),
            _tame(best - gain),
            float(min(place, 4)),
            spread,
            float(scan is None),
            *_shortfalls(scan),
            0.0 if group is None else _log(max(group.f, 1e-3)),
            float(group is not None),
        ]
    )


def _shortfalls(scan: CovariateScan | None) -> list[float]:
    known = {} if scan is None else scan.shortfalls
    values = [_tame(known.get(form, 0.0)) for form in FORMS]
    return [*values, *(float(form in known) for form in FORMS)]


def _column(column: Column) -> list[float]:
    span = max(column.high - column.low, math.ulp(1.0))
    size = max(abs(column.low), abs(column.high), math.ulp(1.0))
    ratio = column.high / column.low if column.low > 0 else 1.0
    return [
        *(float(column.kind == kind) for kind in KINDS),
        float(column.low > 0),
        float(column.low == 0),
        _tame(math.log(ratio)),
        _tame(size / span),
        _tame(0.2 * math.log(span)),
    ]


def _tame(value: float) -> float:
    """A number of any size as one of a few units; 0 of what is not finite."""
    return math.asinh(max(-LAST, min(LAST, value))) if math.isfinite(value) else 0.0


def _log(value: float) -> float:
    return math.log(max(min(value, LAST), 1 / LAST)) if math.isfinite(value) else 0.0
