"""What a program that is not simple may have besides its family and form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.request import num_levels

MOST_SCALES = 12
"""Levels at most of an index whose levels have a scale each."""


class Feature(NamedTuple):
    """What a program may have besides.

    Attributes:
        possible: Takes a draft, whether the family has a scale and whether the form has groups already.
        means: The feature of `programs.forms.features.FEATURES` that it is.
    """

    possible: Callable[[Draft, bool, bool], bool]
    means: str


def _rows_may_vary(draft: Draft, scaled: bool, grouped: bool) -> bool:
    response = draft.request.response
    return response.kind == "count" and not draft.request.ordered and bool(draft.request.covariates)


FEATURES = {
    "varying_scale": Feature(
        lambda draft, scaled, grouped: scaled and bool(draft.request.numeric), "varying spread"
    ),
    "group_scale": Feature(
        lambda draft, scaled, grouped: (
            scaled and any(num_levels(column) <= MOST_SCALES for column in draft.request.indices)
        ),
        "varying spread",
    ),
    "row_effects": Feature(_rows_may_vary, "hierarchy"),
    "group_effects": Feature(
        lambda draft, scaled, grouped: not grouped and bool(draft.request.pools), "hierarchy"
    ),
}
"""Features by the name that their probability has in the weights."""


def add_features(draft: Draft, location: str, wanted: set[str]) -> str:
    """The location with the terms that features add to it.

    Args:
        draft: The program so far.
        location: Source of the location without them.
        wanted: Names of `FEATURES`.
    """
    draft.features |= {FEATURES[name].means for name in wanted}
    if "group_effects" in wanted:
        group = draft.rng.choice(draft.request.pools)
        effects = draft.pooled("u", str(num_levels(group)), 0.25 * draft.target.span)
        location = plus(location, f"{effects}[{group.name}]")
    if "row_effects" in wanted:
        draft.features.add("overdispersion")
        effects = draft.pooled("e", f"len({draft.request.covariates[0].name})", 0.2 * draft.target.span)
        location = plus(location, effects)
    return location
