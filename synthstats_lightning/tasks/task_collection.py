"""Several tasks at once: the instances of one environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from synthstats_lightning.tasks.simulated import DesignValue, SimulatedTask
from synthstats_lightning.tasks.simulators.base import Simulator
from synthstats_lightning.tasks.task import Task


class TaskCollection:
    """What stands for several tasks in a data module's `tasks`.

    Args:
        tasks: The tasks, of different names.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = list(tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class SimulatedTasks(TaskCollection):
    """Many instances of one environment: the same design and settings, other latents.

    Instances of seeds `first_seed`, `first_seed + 1`, ... are called `NAME/SEED`. Those to train on and those
    to test on differ in `first_seed`.

    Args:
        simulator: The environment, or its name in `SIMULATORS`.
        instances: Number of instances, each a task.
        first_seed: Seed of the first instance.
        num_observations: Number of observed designs of each instance, as in `SimulatedTask`.
        design: How designs are chosen: `"random"`, `"grid"`, or a list of them.
        held_out: Number of evaluation points that `heldout_lpd` predicts.
        shown_rows: Rows of the response that the prompt shows; they only condition.
        goal: What is to be found out: a name in `Simulator.goals`.
        domain_knowledge: Whether prompts say what the environment is about.
        response_range: Where the response's range in the prompt comes from, as in `SimulatedTask`.
        name: What stands before the slash; the simulator's name by default.

    Raises:
        ValueError: If `instances` is below 1, or see `SimulatedTask`.
    """

    def __init__(
        self,
        simulator: str | Simulator,
        instances: int = 10,
        first_seed: int = 0,
        num_observations: int | None = None,
        design: Literal["random", "grid"] | list[DesignValue] = "random",
        held_out: int = 0,
        shown_rows: int = 0,
        goal: str = "prediction",
        domain_knowledge: bool = True,
        response_range: Literal["observed", "prior"] = "observed",
        name: str | None = None,
    ) -> None:
        if instances < 1:
            raise ValueError(f"instances must be at least 1, got {instances}")
        tasks: list[SimulatedTask] = []
        for seed in range(first_seed, first_seed + instances):
            task = SimulatedTask(
                simulator,
                seed,
                num_observations,
                design,
                held_out,
                shown_rows,
                goal,
                domain_knowledge,
                response_range,
                name,
            )
            task.name = f"{task.name}/{seed}"
            tasks.append(task)
        super().__init__(tasks)
