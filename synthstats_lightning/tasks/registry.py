"""Tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthstats_lightning.tasks.dugongs import Dugongs
from synthstats_lightning.tasks.eight_schools import EightSchools
from synthstats_lightning.tasks.peregrines import Peregrines
from synthstats_lightning.tasks.simulated import SimulatedTask
from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.surgical import Surgical
from synthstats_lightning.tasks.task import Task
from synthstats_lightning.tasks.task_collection import TaskCollection

BUNDLED_TASKS: dict[str, Callable[[], Task]] = {
    "dugongs": Dugongs,
    "eight_schools": EightSchools,
    "peregrines": Peregrines,
    "surgical": Surgical,
}
"""Real data sets that come with the package."""


def task_names() -> list[str]:
    """Names that `get_task` knows: the real data sets and, with their defaults, the simulators."""
    return [*sorted(BUNDLED_TASKS), *sorted(SIMULATORS)]


def get_task(task: str | Task) -> Task:
    """A task by its name, or the task itself.

    Args:
        task: A real data set (`"dugongs"`), or a simulator (`"death_process"`): its instance of seed 0,
            observed at random designs, see `SimulatedTask`.

    Raises:
        ValueError: If nothing bundled has that name.
    """
    if isinstance(task, Task):
        return task
    if task in BUNDLED_TASKS:
        return BUNDLED_TASKS[task]()
    if task in SIMULATORS:
        return SimulatedTask(task)
    raise ValueError(
        f"task {task!r} is not one of: {', '.join(task_names())};"
        " for your own data give a CSVTask by class_path (see configs/tasks/csv.yaml),"
        " for your own simulator a SimulatedTask (see configs/tasks/simulated.yaml)"
    )


def expand_tasks(tasks: Sequence[str | Task | TaskCollection]) -> list[Task]:
    """All tasks that names, tasks and collections stand for, in order.

    Args:
        tasks: Tasks, names of tasks, and collections, each of which stands for all its tasks.

    Raises:
        ValueError: If a name is unknown.
    """
    expanded: list[Task] = []
    for item in tasks:
        if isinstance(item, TaskCollection):
            expanded += item.tasks
        else:
            expanded.append(get_task(item))
    return expanded
