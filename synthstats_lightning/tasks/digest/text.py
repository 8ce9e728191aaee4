"""A digest as text, for people and for large language models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from synthstats_lightning.tasks.columns import number
from synthstats_lightning.tasks.digest.digest import Digest
from synthstats_lightning.tasks.digest.groups import GroupSummary
from synthstats_lightning.tasks.digest.residuals import ResidualSummary
from synthstats_lightning.tasks.digest.scan import CovariateScan

NOTHING = 1e-12
"""Sizes below it are zero: every figure of a digest has a scale of about one."""
MOST = 12
"""Covariates that a section names at most."""


def digest_text(digest: Digest) -> str:
    """A line or two for each section that there is.

    Args:
        digest: What is told.
    """
    return "\n".join(_lines(digest))


def _lines(digest: Digest) -> Iterator[str]:
    on_scale = "" if digest.scale == "its own scale" else f" ({digest.scale})"
    yield f"digest of {digest.name} in {digest.rows} rows:"
    if (own := digest.response) is not None:
        quantiles = " ".join(number(value) for value in own.quantiles)
        ratio = "" if own.ratio is None else f", variance/mean {_two(own.ratio)}"
        yield (
            f"mean {number(own.mean)}, sd {number(own.deviation)}, 5 25 50 75 95 % at {quantiles}, skewness"
            f" {_two(own.skewness)}, excess kurtosis {_two(own.kurtosis)}{ratio}"
        )
    if digest.cut_short:
        yield (
            f"{digest.cut_short} of {digest.rows} rows were cut short: what follows takes their limits for"
            " the values"
        )
    if digest.regression is not None:
        strongest = sorted(digest.regression.items(), key=lambda item: -abs(item[1]))
        told = [f"{column} {_two(value)}" for column, value in strongest[:MOST]]
        yield f"t in the linear regression on all covariates{on_scale}: {_listed(told, len(strongest))}"
    if digest.scan is not None:
        for scan in digest.scan[:MOST]:
            yield _scan_line(scan, on_scale, scan.name in digest.numbering)
        if len(digest.scan) > MOST:
            rest = max(scan.gain for scan in digest.scan[MOST:])
            yield f"{len(digest.scan) - MOST} more covariates gain at most {_two(rest)} nats"
    for name, other in digest.same.items():
        yield f"{name} is a linear function of {other}"
    if digest.residuals is not None:
        yield from _residual_lines(digest.residuals)
    if (counts := digest.counts) is not None:
        dispersed = counts.expected_zeros_dispersed
        more = "" if dispersed is None else f", {_share(dispersed)} if overdispersed"
        yield (
            f"{counts.family} regression on the best forms: dispersion {_two(counts.dispersion)}, zeros"
            f" {_share(counts.zeros)} (expected {_share(counts.expected_zeros)}{more})"
        )
    for group in digest.groups or ():
        yield _group_line(group, on_scale)
    if (order := digest.order) is not None:
        lags = ", ".join(f"lag {lag} {_two(value)}" for lag, value in order.autocorrelation.items())
        yield (
            f"residuals in the order of rows: autocorrelation {lags}; trend {_two(order.trend)}; largest"
            f" change of mean after row {order.jump_after} (t {_two(order.jump)})"
        )
    if (recording := digest.recording) is not None:
        spacing = "to more digits" if recording.spacing is None else f"to {recording.spacing:g}"
        yield (
            f"recorded {spacing}, {_share(recording.distinct)} of values differ;"
            f" {_share(recording.at_lowest)} of rows at the lowest {number(recording.lowest)},"
            f" {_share(recording.at_highest)} at the highest {number(recording.highest)}"
        )


def _scan_line(scan: CovariateScan, on_scale: str, numbers_rows: bool) -> str:
    behind = sorted(scan.shortfalls.items(), key=lambda item: item[1])[1:]
    told = ", ".join(f"{form} {_two(value)}" for form, value in behind)
    gain = f"{_two(abs(scan.gain))} nats {'better' if scan.gain > 0 else 'worse'} than leaving it out"
    about = " (it numbers the rows)" if numbers_rows else ""
    return f"{scan.name}{about}{on_scale}: best {scan.best}, {gain}{f'; nats behind: {told}' if told else ''}"


def _residual_lines(residuals: ResidualSummary) -> Iterator[str]:
    families = _pairs(residuals.families)
    logs = ""
    if (gain := residuals.log_normal) is not None:
        logs = f", log-normal {_two(abs(gain))} {'ahead of' if gain > 0 else 'behind'} Normal"
    yield (
        f"residuals of the best forms: sd {number(residuals.deviation)}, {_share(residuals.explained)}"
        f" explained, skewness {_two(residuals.skewness)}, excess kurtosis {_two(residuals.kurtosis)}; nats"
        f" behind the best family: {families}{logs}"
    )
    strongest = sorted(residuals.scale_with.items(), key=lambda item: -abs(item[1]))
    told = [f"{name} {_two(value)}" for name, value in strongest[:MOST]]
    with_columns = f", with {_listed(told, len(strongest))}" if told else ""
    yield f"size of residuals: correlation with the fit {_two(residuals.scale_with_mean)}{with_columns}"


def _group_line(group: GroupSummary, on_scale: str) -> str:
    sizes = f"{group.smallest}" if group.smallest == group.largest else f"{group.smallest} to {group.largest}"
    told = (
        f"groups of {group.name}{on_scale}: {group.groups} of {sizes} rows, F {_two(group.f)}, sd of means"
        f" {_two(group.spread)} of the sd within, highest {number(group.highest)}, lowest"
        f" {number(group.lowest)}"
    )
    if not group.slope_of:
        return told
    spread = f"sd {_two(group.slope_spread)} of the common slope"
    return f"{told}; slopes of {group.slope_of}: F {_two(group.slope_f)}, {spread}"


def _pairs(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_two(value)}" for name, value in values.items())


def _listed(told: Iterable[str], total: int) -> str:
    shown = list(told)
    more = f" and {total - len(shown)} smaller" if total > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _two(value: float) -> str:
    """Two significant digits, and no negative zero; what rounding has left of a zero is one."""
    return f"{float(f'{value:.2g}') + 0.0:g}" if abs(value) > NOTHING else "0"


def _share(value: float) -> str:
    return f"{round(100 * value, 1):g} %"
