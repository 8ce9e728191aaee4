"""From a table as people have it to the columns of a task."""

from synthstats_lightning.tasks.intake.raw_table import RawTable
from synthstats_lightning.tasks.intake.table_reading import read_table
from synthstats_lightning.tasks.intake.understand import understand
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn, UnderstoodData

__all__ = ["RawTable", "UnderstoodColumn", "UnderstoodData", "read_table", "understand"]
