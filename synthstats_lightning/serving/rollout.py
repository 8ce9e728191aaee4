"""A task's episode from what a client did in it: its answers, and what its program predicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.experiments import ExperimentEpisode, ExperimentTask

QUANTILES = (0.05, 0.5, 0.95)
"""Of each predicted response."""


class Rollout(NamedTuple):
    """An episode and the data that its program is scored on.

    Attributes:
        episode: What was done, and what the environment answered.
        given: What the episode observed, then the evaluation points; `None` where it has no program.
    """

    episode: ExperimentEpisode
    given: Task | None


def turns_of(experiments: Sequence[Any], program: str | None) -> list[str]:
    """The turns of a client that says what it does, and does not write as a policy does.

    Args:
        experiments: Designs in order, each as `Simulator.validate` reads it.
        program: What is submitted in the end; nothing with `None`.
    """
    turns = [json.dumps({"tool": "observe", "arguments": design}) for design in experiments]
    if program is not None:
        turns.append(json.dumps({"tool": "submit", "arguments": {"program": program}}))
    return turns


def roll_out(task: ExperimentTask, turns: Sequence[str]) -> Rollout:
    """Replays an episode: the same turns always get the same answers.

    Args:
        task: What it is an episode of.
        turns: What the client wrote, in order.

    Raises:
        ValueError: If the episode is over before the last of them.
    """
    episode = task.begin()
    for number, turn in enumerate(turns):
        if episode.over:
            raise ValueError(f"turns must end with the episode, which is over after {number} of {len(turns)}")
        episode.answer(turn)
    return Rollout(episode, task.given(episode) if episode.program else None)


def episode_fields(episode: ExperimentEpisode) -> dict[str, Any]:
    """What a client is told of an episode: kind and answer of each turn, and what is left.

    Args:
        episode: Over or not.
    """
    return {
        "turns": [
            {"kind": turn.kind, "answer": turn.answer, "design": _plain(turn.design)}
            for turn in episode.turns
        ],
        "over": episode.over,
        "experiments_left": episode.experiments_left,
        "turns_left": episode.turns_left,
    }


def predicted_points(task: Task, forecast: Forecast) -> list[dict[str, Any]]:
    """What a program predicts of each evaluation point; the points' responses are not told.

    Args:
        task: What the program is scored on, whose last rows are the evaluation points.
        forecast: What the program predicts of these rows.

    Returns:
        For each point its covariates and the quantiles of its response, `None` where a program predicts no
        number.
    """
    first = task.num_rows - task.held_out
    with np.errstate(all="ignore"):
        found = np.full((len(QUANTILES), task.held_out), np.nan)
        defined = np.isfinite(forecast.draws).any(0)
        found[:, defined] = np.nanquantile(forecast.draws[:, defined], QUANTILES, axis=0)
    return [
        {
            "covariates": {name: values[first + row].item() for name, values in task.covariates.items()},
            "quantiles": {
                f"{level:g}": float(value) if np.isfinite(value) else None
                for level, value in zip(QUANTILES, found[:, row], strict=True)
            },
        }
        for row in range(task.held_out)
    ]


def _plain(value: Any) -> Any:
    """A design in types of JSON."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
