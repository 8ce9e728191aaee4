"""Tasks whose data the policy collects itself: the actions and states of episodes."""

from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode, Turn
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask, ExperimentTasks

__all__ = ["ExperimentEpisode", "ExperimentTask", "ExperimentTasks", "Turn"]
