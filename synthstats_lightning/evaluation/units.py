"""An evaluation in pieces: one instance of one environment each, which any process can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from synthstats_lightning.evaluation.entrants import Writer
from synthstats_lightning.evaluation.measurement import Measurement
from synthstats_lightning.evaluation.protocol import EnvironmentRun, environment_scale
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.evaluation.standardisation import Standardisation
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.tasks.simulators import Simulator


class Unit(NamedTuple):
    """One instance of one environment.

    Attributes:
        environment: Name of the simulator.
        seed: Seed of the instance.
    """

    environment: str
    seed: int


def all_units(environments: Sequence[str], seeds: Sequence[int]) -> list[Unit]:
    """Every instance of every environment, environment by environment.

    Args:
        environments: Names of the simulators.
        seeds: Seeds of the instances.
    """
    return [Unit(environment, seed) for environment in environments for seed in seeds]


def dealt(units: Sequence[Unit], rank: int, size: int) -> list[Unit]:
    """The pieces of one process; together the processes do each once.

    Args:
        units: All pieces of the evaluation.
        rank: Which process it is, from 0.
        size: How many processes there are.
    """
    return list(units[rank::size])


class UnitEvaluation:
    """Measures pieces; what pieces of one environment share is computed once.

    Args:
        simulators: The environments; they are copied.
        settings: Budgets and predictions of the protocol; its seeds do not matter.
        oracle: Whether the environments' own programs take part.
    """

    def __init__(
        self, simulators: Sequence[Simulator], settings: EvaluationSettings, oracle: bool = True
    ) -> None:
        self._simulators = {simulator.name: simulator for simulator in simulators}
        self.settings = settings
        self.oracle = oracle
        self._scales: dict[str, Standardisation] = {}

    def begin(self, unit: Unit, scorer: ProgramScorer, policy: Writer | None) -> EnvironmentRun:
        """Has a policy write a piece's programs and hands them to the pool.

        Args:
            unit: The piece to measure.
            scorer: A running pool.
            policy: Writes programs; without it the two rows of a policy are left out.

        Raises:
            ValueError: If the environment has no such goal or no reference program.
        """
        simulator = self._simulators[unit.environment]
        if unit.environment not in self._scales:
            self._scales[unit.environment] = environment_scale(simulator, self.settings)
        return EnvironmentRun(
            simulator,
            scorer,
            replace(self.settings, seeds=(unit.seed,)),
            oracle=self.oracle,
            policy=policy,
            scale=self._scales[unit.environment],
        )

    def measure(
        self, units: Sequence[Unit], scorer: ProgramScorer, policy: Writer | None
    ) -> list[Measurement]:
        """Measures pieces; the pool has work while the policy writes.

        Args:
            units: The pieces to measure.
            scorer: A running pool.
            policy: Writes programs; without it the two rows of a policy are left out.

        Raises:
            ValueError: If an environment has no such goal or no reference program.
            RuntimeError: If a baseline program fails.
        """
        begun = [self.begin(unit, scorer, policy) for unit in units]
        return [measurement for run in begun for measurement in run.measurements()]
