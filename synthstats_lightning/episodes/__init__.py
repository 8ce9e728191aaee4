"""Episodes of several turns: the policy experiments, reads the results, and submits a program.

Names are imported when they are first used: what an environment says needs no callbacks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthstats_lightning.episodes.episode import ExperimentEpisode, Turn
    from synthstats_lightning.episodes.episode_scorer import EpisodeScorer
    from synthstats_lightning.episodes.episode_scoring import EpisodeScoring
    from synthstats_lightning.episodes.experiment_task import ExperimentTask, ExperimentTasks

_HOMES = {
    "EpisodeScorer": "episode_scorer",
    "EpisodeScoring": "episode_scoring",
    "ExperimentEpisode": "episode",
    "ExperimentTask": "experiment_task",
    "ExperimentTasks": "experiment_task",
    "Turn": "episode",
}

__all__ = [
    "EpisodeScorer",
    "EpisodeScoring",
    "ExperimentEpisode",
    "ExperimentTask",
    "ExperimentTasks",
    "Turn",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
