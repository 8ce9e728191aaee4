"""Lightning callbacks: sampling and scoring programs, and reports."""

from synthstats_lightning.callbacks.benchmark_evaluation import BenchmarkEvaluation
from synthstats_lightning.callbacks.posterior_report import PosteriorReport
from synthstats_lightning.callbacks.prediction_writer import PredictionWriter
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.training_metrics import TrainingMetrics
from synthstats_lightning.callbacks.unseen_tasks import UnseenTasks

__all__ = [
    "BenchmarkEvaluation",
    "PosteriorReport",
    "PredictionWriter",
    "ProgramScoring",
    "TrainingMetrics",
    "UnseenTasks",
]
