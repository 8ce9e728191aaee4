"""Rollouts: inference servers write a run's training programs, under adapters published as they learn."""

from synthstats_lightning.rollouts.adapter_versions import AdapterVersions
from synthstats_lightning.rollouts.connection import Connection
from synthstats_lightning.rollouts.errors import RolloutError
from synthstats_lightning.rollouts.server_backend import ServerBackend
from synthstats_lightning.rollouts.server_rollouts import ServerRollouts

__all__ = ["AdapterVersions", "Connection", "RolloutError", "ServerBackend", "ServerRollouts"]
