"""Sections of a configuration beside `model`, `data` and `trainer`: what belongs to a run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar, TQDMProgressBar

from synthstats_lightning.callbacks import (
    BenchmarkEvaluation,
    PosteriorReport,
    PredictionWriter,
    ProgramScoring,
    TrainingMetrics,
    UnseenTasks,
)
from synthstats_lightning.callbacks.course.best_adapter import BestAdapter
from synthstats_lightning.callbacks.course.free_cores import FreeCores
from synthstats_lightning.callbacks.episodes.episode_scoring import EpisodeScoring
from synthstats_lightning.callbacks.proposals.chat_evaluation import ChatEvaluation
from synthstats_lightning.callbacks.proposals.chat_proposals import ChatProposals
from synthstats_lightning.callbacks.proposals.first_regressions import FirstRegressions
from synthstats_lightning.callbacks.run_progress import RunProgress
from synthstats_lightning.callbacks.time_budget import TimeBudget
from synthstats_lightning.rollouts import ServerRollouts
from synthstats_lightning.runtime.command_time import command_began
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask

SECTIONS: dict[str, type[Callback]] = {
    "budget": TimeBudget,
    "rollouts": ServerRollouts,
    "regressions": FirstRegressions,
    "scoring": ProgramScoring,
    "proposals": ChatProposals,
    "metrics": TrainingMetrics,
    "unseen_tasks": UnseenTasks,
    "benchmark": BenchmarkEvaluation,
    "report": PosteriorReport,
    "checkpoint": ModelCheckpoint,
}
"""Name of a section, and the callback whose arguments it holds; in the order of the run's callbacks."""
OBJECTS = {"buffer", "tasks"}
"""Arguments of `ProgramScoring` that are objects of the data module, and no values of a configuration."""
REFRESH_RATE = 5
"""Training steps between updates of the progress bar."""


def add_sections(parser: Any) -> None:
    """Adds the sections to a subcommand's parser.

    Args:
        parser: The parser that takes the sections, of jsonargparse.
    """
    for name, callback in SECTIONS.items():
        skip = OBJECTS if name == "scoring" else set()
        parser.add_class_arguments(
            callback, name, instantiate=False, sub_configs=True, fail_untyped=False, skip=skip
        )
    parser.add_argument(
        "--scoring.transcripts",
        type=bool,
        default=True,
        help="Whether episodes, of tasks of several turns, are written to transcripts.jsonl and .txt",
    )
    parser.set_defaults(
        {"metrics.every_n_steps": None, "unseen_tasks.tasks": [], "benchmark.num_programs": None}
    )


def section_callbacks(config: Namespace, tasks: Sequence[Any], fits: bool = False) -> list[Callback]:
    """The run's callbacks: those of the sections, then the user's own.

    Args:
        config: Of a subcommand, with its classes made.
        tasks: The data module's tasks; where they have several turns, `scoring` makes an `EpisodeScoring`.
        fits: Whether the run trains, and does nothing else: its progress is that of its phases.

    Raises:
        ValueError: If a value is out of range, or a callback of the user's is one that a section makes.
    """
    trainer = config.trainer
    own = trainer.get("callbacks") or []
    own = list(own) if isinstance(own, list | tuple) else [own]
    for callback in own:
        if isinstance(callback, ProgramScoring | PosteriorReport):
            section = "scoring" if isinstance(callback, ProgramScoring) else "report"
            raise ValueError(
                f"trainer.callbacks must not hold {type(callback).__name__}: the section `{section}` makes"
                " it, and takes its arguments"
            )
    scoring, episodes = config.scoring.as_dict(), bool(tasks)
    episodes &= all(isinstance(task, ExperimentTask) for task in tasks)
    if not episodes:
        del scoring["transcripts"]
    elif scoring["max_programs"] is not None:
        limit = scoring["max_programs"]
        raise ValueError(f"scoring.max_programs must be null for tasks of several turns, got {limit}")
    shown = trainer.get("enable_progress_bar") is not False and not _any(own, ProgressBar)
    made: list[Callback] = []
    budget = None
    if config.budget.minutes is not None:
        budget = TimeBudget(**config.budget)
        budget.started = command_began()
        made.append(budget)
    if shown and fits:
        made.append(RunProgress(budget))
    rollouts = ServerRollouts(**config.rollouts)
    if rollouts.asked:  # before what samples: a round is written under the version just published
        made.append(rollouts)
    if config.regressions.families:  # before what scores: they are handed over before the warm-up
        made.append(FirstRegressions(**config.regressions))
    made.append(EpisodeScoring(**scoring) if episodes else ProgramScoring(**scoring))
    if config.proposals.url and scoring["max_programs"] is not None:
        raise ValueError(
            "scoring.max_programs must be null beside proposals.url, whose programs it would not count;"
            f" got {scoring['max_programs']}"
        )
    if config.proposals.url:  # behind what scores, before what reports
        made.append(ChatProposals(**config.proposals))
    if config.metrics.every_n_steps is not None:
        made.append(TrainingMetrics(**config.metrics))
    if config.unseen_tasks.tasks:
        made.append(UnseenTasks(**config.unseen_tasks))
    if config.benchmark.num_programs is not None:
        made.append(BenchmarkEvaluation(**config.benchmark))
    if config.report.num_programs is not None:
        made.append(PosteriorReport(**config.report))
    made.append(PredictionWriter())
    if shown and not _any(made, ProgressBar):
        made.append(TQDMProgressBar(refresh_rate=REFRESH_RATE))
    if trainer.get("enable_checkpointing") is not False:
        made.append(ModelCheckpoint(**config.checkpoint))
    return made + own


def chat_callbacks(config: Namespace, tasks: Sequence[Any]) -> list[Callback]:
    """The callbacks of a chat model's evaluation, then the user's own.

    Args:
        config: Of a subcommand, with its classes made.
        tasks: The data module's tasks.

    Raises:
        ValueError: If the tasks have several turns.
    """
    if any(isinstance(task, ExperimentTask) for task in tasks):
        raise ValueError("policy must be left out for tasks of several turns: a chat model writes programs")
    scoring = config.scoring.as_dict()
    del scoring["transcripts"]
    made: list[Callback] = [ChatEvaluation(ProgramScoring(**scoring))]
    if config.benchmark.num_programs is not None:
        made.append(BenchmarkEvaluation(**config.benchmark))
    own = config.trainer.get("callbacks") or []
    return made + (list(own) if isinstance(own, list | tuple) else [own])


def imitation_callbacks(config: Namespace) -> list[Callback]:
    """The callbacks of a run that imitates given examples and scores nothing, then the user's own.

    Args:
        config: Of a subcommand, with its classes made.

    Raises:
        ValueError: If its time is limited by the section of runs that report.
    """
    if config.budget.minutes is not None:
        raise ValueError("budget.minutes is for runs that end with a report; here it is trainer.max_time")
    trainer = config.trainer
    own = trainer.get("callbacks") or []
    own = list(own) if isinstance(own, list | tuple) else [own]
    made: list[Callback] = [BestAdapter(), FreeCores()]
    if trainer.get("enable_progress_bar") is not False and not _any(own, ProgressBar):
        made.append(TQDMProgressBar(refresh_rate=REFRESH_RATE))
    if trainer.get("enable_checkpointing") is not False:
        made.append(ModelCheckpoint(**config.checkpoint))
    return made + own


def _any(callbacks: list[Callback], kind: type[Callback]) -> bool:
    return any(isinstance(callback, kind) for callback in callbacks)
