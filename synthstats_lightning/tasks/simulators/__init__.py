"""Simulated environments of BoxingGym and SynthStats, in NumPy and SciPy only."""

from synthstats_lightning.tasks.simulators.base import Simulator, Variant
from synthstats_lightning.tasks.simulators.design import Design, DesignError, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal
from synthstats_lightning.tasks.simulators.registry import SIMULATORS

__all__ = ["SIMULATORS", "Design", "DesignError", "DesignField", "Goal", "Simulator", "Variant"]
