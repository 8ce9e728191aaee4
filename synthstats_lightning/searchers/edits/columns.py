"""What edits know of a task: names and ranges that its prompt says, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from synthstats_lightning.tasks import Task


@dataclass(frozen=True)
class EditedTask:
    """The columns that edited programs may use.

    Attributes:
        ranges: Covariate to its smallest and largest value.
        response: Name of the response.
        response_range: Its smallest and largest value, as the prompt says them.
    """

    ranges: dict[str, tuple[float, float]]
    response: str
    response_range: tuple[float, float]

    @classmethod
    def of(cls, task: Task) -> EditedTask:
        """What a task's prompt says of its columns.

        Args:
            task: Any task with rows.
        """
        columns = task.columns
        ranges = {name: (float(columns[name].low), float(columns[name].high)) for name in task.predictors}
        own = columns[task.response]
        return cls(ranges, task.response, (float(own.low), float(own.high)))
