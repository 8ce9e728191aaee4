"""Trajectories, the replay buffer and its priorities."""

from synthstats_lightning.replay.buffer import ReplayBuffer
from synthstats_lightning.replay.demonstrations import Demonstration, read_demonstrations
from synthstats_lightning.replay.loader import ReplayLoader
from synthstats_lightning.replay.priority import rank_priorities
from synthstats_lightning.replay.trajectory import Trajectory, TrajectoryBatch, collate

__all__ = [
    "Demonstration",
    "ReplayBuffer",
    "ReplayLoader",
    "Trajectory",
    "TrajectoryBatch",
    "collate",
    "rank_priorities",
    "read_demonstrations",
]
