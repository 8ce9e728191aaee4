"""Runs that other systems start, follow and compare: job files, events and results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthstats_lightning.jobs.configs import GraphConfig, JobError, RLConfig, SFTConfig
    from synthstats_lightning.jobs.run_events import RunEvents
    from synthstats_lightning.jobs.translation import Translation, translate

_HOMES = {
    "GraphConfig": "configs",
    "JobError": "configs",
    "RLConfig": "configs",
    "RunEvents": "run_events",
    "SFTConfig": "configs",
    "Translation": "translation",
    "translate": "translation",
}

__all__ = ["GraphConfig", "JobError", "RLConfig", "RunEvents", "SFTConfig", "Translation", "translate"]


def __getattr__(name: str) -> Any:
    """Following a run needs neither Lightning nor the translation."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
