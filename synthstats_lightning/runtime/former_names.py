"""Classes that have moved: checkpoints name classes, and older ones by where these were then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

FORMER_NAMES = {
    "synthstats_lightning.episodes.EpisodeScoring": "synthstats_lightning.callbacks.episodes.EpisodeScoring",
    "synthstats_lightning.episodes.ExperimentTask": "synthstats_lightning.tasks.experiments.ExperimentTask",
    "synthstats_lightning.episodes.ExperimentTasks": "synthstats_lightning.tasks.experiments.ExperimentTasks",
    "synthstats_lightning.episodes.episode_scoring.EpisodeScoring": (
        "synthstats_lightning.callbacks.episodes.episode_scoring.EpisodeScoring"
    ),
    "synthstats_lightning.episodes.experiment_task.ExperimentTask": (
        "synthstats_lightning.tasks.experiments.experiment_task.ExperimentTask"
    ),
    "synthstats_lightning.episodes.experiment_task.ExperimentTasks": (
        "synthstats_lightning.tasks.experiments.experiment_task.ExperimentTasks"
    ),
    "synthstats_lightning.executors.DaskExecutor": "synthstats_lightning.pool.executors.DaskExecutor",
    "synthstats_lightning.reference.settings.ReferenceSettings": (
        "synthstats_lightning.pool.reference.settings.ReferenceSettings"
    ),
    "synthstats_lightning.scorer.ProgramScorer": "synthstats_lightning.pool.scorer.ProgramScorer",
}
"""From the dotted path of a class as it was to what it is today."""
HYPER_PARAMETERS = "hyper_parameters"
"""Where Lightning keeps the arguments of a module in a checkpoint."""
_KEYS = ("class_path", "_class_path")


def with_present_names(value: Any) -> Any:
    """Plain data in which classes are called what they are called today.

    Args:
        value: Dictionaries, lists and numbers, such as hyper-parameters; classes are named under the keys
            `class_path` and `_class_path`.
    """
    if isinstance(value, dict):
        return {
            key: FORMER_NAMES.get(item, item)
            if key in _KEYS and isinstance(item, str)
            else with_present_names(item)
            for key, item in value.items()
        }
    return [with_present_names(item) for item in value] if isinstance(value, list) else value


def saved_hyper_parameters(path: Any) -> dict[str, Any]:
    """Hyper-parameters of a checkpoint under present names; empty if it has none.

    Args:
        path: The file; of anything but a file on this machine nothing is said.
    """
    found: dict[str, Any] = with_present_names(_hyper_parameters(path))
    return found


def renamed_hyper_parameters(path: Any) -> dict[str, Any]:
    """Hyper-parameters of a checkpoint under present names; empty if it has no former names.

    Args:
        path: The file; of anything but a file on this machine nothing is said.
    """
    saved = _hyper_parameters(path)
    renamed: dict[str, Any] = with_present_names(saved)
    return {} if renamed == saved else renamed


def _hyper_parameters(path: Any) -> dict[str, Any]:
    if not isinstance(path, str | Path) or not Path(path).is_file():
        return {}
    checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    found: dict[str, Any] = checkpoint.get(HYPER_PARAMETERS, {})
    return found
