"""Language models that write probabilistic programs in proportion to how well they explain data.

Public names are imported when they are first used, so that `import synthstats_lightning` is quick and quiet.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from synthstats_lightning.__about__ import __version__

if TYPE_CHECKING:
    from synthstats_lightning.callbacks import (
        BenchmarkEvaluation,
        PosteriorReport,
        PredictionWriter,
        ProgramScoring,
        UnseenTasks,
    )
    from synthstats_lightning.datamodule import ReplayDataModule
    from synthstats_lightning.module import GFlowNetModule
    from synthstats_lightning.objectives import TrajectoryBalance
    from synthstats_lightning.policy import load_policy
    from synthstats_lightning.pool.scorer import ProgramScorer, score_program
    from synthstats_lightning.reports.run_posterior import RunPosterior, load_posterior
    from synthstats_lightning.scoring.reward import Reward
    from synthstats_lightning.scoring.score import Score
    from synthstats_lightning.scoring.terms import Likelihood, LLMVerifier, RewardTerm
    from synthstats_lightning.tasks import (
        CSVTask,
        SimulatedTask,
        SimulatedTasks,
        TableTask,
        Task,
        get_task,
        understand,
    )
    from synthstats_lightning.warm_start import DemonstrationDataModule

_HOMES = {
    "BenchmarkEvaluation": "callbacks",
    "CSVTask": "tasks",
    "DemonstrationDataModule": "warm_start",
    "GFlowNetModule": "module",
    "LLMVerifier": "scoring.terms",
    "Likelihood": "scoring.terms",
    "PosteriorReport": "callbacks",
    "PredictionWriter": "callbacks",
    "ProgramScorer": "pool.scorer",
    "ProgramScoring": "callbacks",
    "ReplayDataModule": "datamodule",
    "Reward": "scoring.reward",
    "RewardTerm": "scoring.terms",
    "RunPosterior": "reports.run_posterior",
    "Score": "scoring.score",
    "SimulatedTask": "tasks",
    "SimulatedTasks": "tasks",
    "TableTask": "tasks",
    "Task": "tasks",
    "TrajectoryBalance": "objectives",
    "UnseenTasks": "callbacks",
    "get_task": "tasks",
    "load_policy": "policy",
    "load_posterior": "reports.run_posterior",
    "score_program": "pool.scorer",
    "understand": "tasks",
}

__all__ = [
    "BenchmarkEvaluation",
    "CSVTask",
    "DemonstrationDataModule",
    "GFlowNetModule",
    "LLMVerifier",
    "Likelihood",
    "PosteriorReport",
    "PredictionWriter",
    "ProgramScorer",
    "ProgramScoring",
    "ReplayDataModule",
    "Reward",
    "RewardTerm",
    "RunPosterior",
    "Score",
    "SimulatedTask",
    "SimulatedTasks",
    "TableTask",
    "Task",
    "TrajectoryBalance",
    "UnseenTasks",
    "__version__",
    "get_task",
    "load_policy",
    "load_posterior",
    "score_program",
    "understand",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
