"""Measuring an episode policy on environments that it has not seen."""

from __future__ import annotations

from typing import NamedTuple

from synthstats_lightning.policy import Policy, SamplingSettings, sample_episodes
from synthstats_lightning.pretraining.checks import problem
from synthstats_lightning.tasks import task_prompt
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask
from synthstats_lightning.tasks.simulators import SIMULATORS


class EpisodeFigures(NamedTuple):
    """Of episodes on one environment.

    Attributes:
        submitted: Share that ended with a program.
        valid: Share that ended with one that passes the static check.
        experiments: Mean number performed.
        refused: Mean number of actions that could not be done, or were beyond the budget.
    """

    submitted: float
    valid: float
    experiments: float
    refused: float


def evaluate_episodes(
    policy: Policy, *, seed: int, episodes: int = 30, experiments: int = 3, max_turn_tokens: int = 160
) -> dict[str, EpisodeFigures]:
    """Has a policy experiment on an instance of every simulator, and checks the programs' text.

    Args:
        policy: The policy that experiments.
        seed: Seeds the instances and the samples.
        episodes: On each environment.
        experiments: Budget of each.
        max_turn_tokens: Limit of a turn.
    """
    figures = {}
    settings = SamplingSettings(max_new_tokens=max_turn_tokens)
    for name in SIMULATORS:
        task = ExperimentTask(name, seed=seed, experiments=experiments)
        prompt = policy.encode_prompt(*task_prompt(task))
        drawn = sample_episodes(policy, [task], [prompt], episodes, settings, seed=seed)
        covariates = list(task.covariates)
        valid = [bool(text) and problem(text, covariates, task.response) is None for text in drawn.sources]
        refused = [turn.kind in ("invalid", "over_budget") for each in drawn.episodes for turn in each.turns]
        figures[name] = EpisodeFigures(
            submitted=sum(bool(text) for text in drawn.sources) / episodes,
            valid=sum(valid) / episodes,
            experiments=sum(len(each.observed) for each in drawn.episodes) / episodes,
            refused=sum(refused) / episodes,
        )
    return figures
