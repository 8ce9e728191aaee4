"""The scale of a response: one for all rows, one for each group, or one that goes with a covariate."""

from __future__ import annotations

import math

from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.request import num_levels


def write_scale(draft: Draft, span: float) -> str:
    """States the scale of a response and returns its source.

    Args:
        draft: The program so far; its features say what the scale goes with.
        span: Length of the response's range on the scale of its location.
    """
    rng = draft.rng
    typical = span * 10 ** rng.uniform(-1.4, -0.2)
    if "varying_scale" in draft.features:
        axis = draft.axis(rng.choice(draft.request.numeric))
        level = draft.real("e", round(math.log(typical), 1), 0.7)
        slope = draft.real("f", 0.0, 1.2 / axis.span)
        return draft.define("s", f"pt.exp({level} + {slope}*{axis.expression})")
    if "group_scale" in draft.features:
        group = rng.choice([c for c in draft.request.indices if num_levels(c) <= 12])
        scales = draft.state("s", f"HalfNormal({text(coarse(typical))}, shape={num_levels(group)})")
        return f"{scales}[{group.name}]"
    return draft.positive("s", typical)
