"""Data sets with a description, named covariates and one named response."""

from synthstats_lightning.tasks.baseline import baseline_program
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.csv_task import CSVTask
from synthstats_lightning.tasks.dugongs import Dugongs
from synthstats_lightning.tasks.eight_schools import EightSchools
from synthstats_lightning.tasks.intake import UnderstoodColumn, UnderstoodData, understand
from synthstats_lightning.tasks.peregrines import Peregrines
from synthstats_lightning.tasks.prompt import Prompt, task_prompt
from synthstats_lightning.tasks.reference_programs import reference_program
from synthstats_lightning.tasks.registry import BUNDLED_TASKS, expand_tasks, get_task, task_names
from synthstats_lightning.tasks.simulated import SimulatedTask
from synthstats_lightning.tasks.surgical import Surgical
from synthstats_lightning.tasks.table_task import TableTask
from synthstats_lightning.tasks.task import Task
from synthstats_lightning.tasks.task_collection import SimulatedTasks, TaskCollection

__all__ = [
    "BUNDLED_TASKS",
    "CSVTask",
    "Column",
    "Dugongs",
    "EightSchools",
    "Peregrines",
    "Prompt",
    "SimulatedTask",
    "SimulatedTasks",
    "Surgical",
    "TableTask",
    "Task",
    "TaskCollection",
    "UnderstoodColumn",
    "UnderstoodData",
    "baseline_program",
    "expand_tasks",
    "get_task",
    "reference_program",
    "task_names",
    "task_prompt",
    "understand",
]
