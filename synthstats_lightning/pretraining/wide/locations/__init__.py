"""Classes of locations."""

from __future__ import annotations

from synthstats_lightning.pretraining.wide.locations import (
    curves,
    groups,
    mechanisms,
    series,
    sums,
    surfaces,
)
from synthstats_lightning.pretraining.wide.locations.form import Form

FORMS: dict[str, Form] = {
    **curves.FORMS,
    **sums.FORMS,
    **surfaces.FORMS,
    **groups.FORMS,
    **series.FORMS,
    **mechanisms.FORMS,
}
"""Every class of locations by name."""

__all__ = ["FORMS", "Form"]
