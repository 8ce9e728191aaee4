"""Trajectories, the replay buffer and its priorities."""

from synthstats_lightning.replay.buffer import ReplayBuffer
from synthstats_lightning.replay.contents import composition
from synthstats_lightning.replay.demonstrations import Demonstration, read_demonstrations
from synthstats_lightning.replay.loader import ReplayLoader
from synthstats_lightning.replay.priority import rank_priorities
from synthstats_lightning.replay.sharding import load_shard
from synthstats_lightning.replay.trajectory import Trajectory, TrajectoryBatch, collate, empty_batch

__all__ = [
    "Demonstration",
    "ReplayBuffer",
    "ReplayLoader",
    "Trajectory",
    "TrajectoryBatch",
    "collate",
    "composition",
    "empty_batch",
    "load_shard",
    "rank_priorities",
    "read_demonstrations",
]
