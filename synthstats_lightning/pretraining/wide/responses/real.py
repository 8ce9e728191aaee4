"""Responses on the real line: every distribution of the engine's table that has a location and a scale."""

from __future__ import annotations

from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses.family import (
    Family,
    observe,
    plain_or_certain,
    range_of,
)
from synthstats_lightning.pretraining.wide.responses.scales import write_scale
from synthstats_lightning.programs.distribution import Domain
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.forms.features import HEAVY
from synthstats_lightning.tasks.columns import Column

SHAPES = {Domain.POSITIVE: ("nu", "Gamma(2, 0.1)"), Domain.REAL: ("c", "Normal(0, 3)")}
"""By what values it may take, the name and prior of a parameter that is neither location nor scale."""


def _writes(law: str) -> Family:
    entry = DISTRIBUTIONS[law]
    place, scale = entry.location_and_scale or ("", "")

    def write(draft: Draft, location: str) -> None:
        values = {place: location, scale: write_scale(draft, draft.target.span)}
        for name, domain in zip(entry.parameters, entry.domains, strict=True):
            if name not in values:
                values[name] = draft.state(*SHAPES[domain])
        if len(values) == 2:
            observe(draft, law, *values.values())
        else:
            observe(draft, law, *(f"{name}={values[name]}" for name in entry.parameters))

    features = ("heavy tails",) if law in HEAVY else ()
    return Family("identity", range_of, write, plain_or_certain(law), scaled=True, features=features)


def error_column(request: Request) -> Column | None:
    """The column of known standard errors.

    Args:
        request: What is to be answered.
    """
    return request.with_role("standard error")


def _write_known_errors(draft: Draft, location: str) -> None:
    """Values of the rows around the location, observed with known errors; now and then no spread of rows."""
    column = error_column(draft.request)
    if column is None:
        raise ValueError("the request has no column of standard errors")
    if draft.rng.random() < 0.75:
        spread = draft.positive("tau", 0.3 * draft.target.span)
        location = draft.state("theta", f"Normal({location}, {spread}, shape=len({column.name}))")
        draft.features.add("hierarchy")
    observe(draft, "Normal", location, column.name)


def _write_two_components(draft: Draft, location: str) -> None:
    """Rows of two kinds, of which one has larger values."""
    share = draft.unit()
    shift = draft.positive("d", 0.5 * draft.target.span)
    scale = write_scale(draft, 0.7 * draft.target.span)
    parts = f"pm.Normal.dist({location}, {scale}), pm.Normal.dist({location} + {shift}, {scale})"
    _observe_mixture(draft, share, parts)


def _write_outliers(draft: Draft, location: str) -> None:
    """Few rows of a larger scale."""
    share = draft.state("p", f"Beta({draft.rng.choice((8, 18))}, 2)")
    scale = write_scale(draft, 0.5 * draft.target.span)
    wide = draft.positive("s", draft.target.span)
    _observe_mixture(draft, share, f"pm.Normal.dist({location}, {scale}), pm.Normal.dist({location}, {wide})")


def _observe_mixture(draft: Draft, share: str, parts: str) -> None:
    observe(draft, "Mixture", f"w=pt.stack([{share}, 1 - {share}])", f"comp_dists=[{parts}]")


def _no_limits(request: Request) -> bool:
    return not request.censoring and request.num_rows >= 20


FAMILIES: dict[str, Family] = {
    name: _writes(name)
    for name, entry in DISTRIBUTIONS.items()
    if entry.location_and_scale
    and all(
        domain in SHAPES or name in entry.location_and_scale
        for name, domain in zip(entry.parameters, entry.domains, strict=True)
    )
}
"""Families by the name of their distribution, and those of more than one."""
FAMILIES |= {
    "known_errors": Family(
        "identity",
        range_of,
        _write_known_errors,
        lambda request: error_column(request) is not None and not request.censoring,
    ),
    "two_components": Family("identity", range_of, _write_two_components, _no_limits, features=("mixture",)),
    "outliers": Family("identity", range_of, _write_outliers, _no_limits, features=("mixture",)),
}
