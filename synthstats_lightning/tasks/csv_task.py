"""A user's own data: a task from a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthstats_lightning.runtime.shipped import own_or_shipped
from synthstats_lightning.tasks.csv_file import read_csv
from synthstats_lightning.tasks.task import Task


class CSVTask(Task):
    """A task from a CSV file with a header line.

    Args:
        path: The CSV file; a relative path is taken from the working directory.
        response: Name of the response column.
        description: One sentence for the prompt.
        name: Short name; the file's name without its ending by default.
        columns: Columns to use; all by default.
        units: Column name to unit, for the prompt.
        shown_rows: Rows of the response that the prompt shows.
        response_kind: What the response is: `"continuous"`, `"count"` or `"binary"`; by default what its
            values look like.
        rounding: Spacing of the values that a continuous response was recorded to, such as 0.01; it is then
            scored by the probability of each row's interval.
        held_out: Number of last rows that `heldout_lpd` predicts and nothing else counts.
        total: What a count response is out of: a number, or the name of a column.
        ranges: Column name to smallest and largest value, as the prompt gives them; by default those of the
            data.
        plain_description: The description without domain knowledge, for `domain_knowledge=False`.
        domain_knowledge: Whether the prompt has the columns' own names and units; without it they are `x` and
            `y`.
        limits: Smallest value, `"lower"`, and largest, `"upper"`, at which a continuous response could be
            observed: `pm.Censored` may have them.
        quantities: Name to meaning of what a program must declare with `pm.Deterministic`.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If the response is not a column or is constant, a value is not a number, or `Task` refuses
            the data.
    """

    def __init__(
        self,
        path: str | Path,
        response: str,
        description: str,
        name: str | None = None,
        columns: list[str] | None = None,
        units: dict[str, str] | None = None,
        shown_rows: int = 0,
        response_kind: str | None = None,
        rounding: float | None = None,
        held_out: int = 0,
        total: str | int | None = None,
        ranges: dict[str, tuple[float, float]] | None = None,
        plain_description: str | None = None,
        domain_knowledge: bool = True,
        quantities: dict[str, str] | None = None,
        limits: dict[str, float] | None = None,
    ) -> None:
        path = own_or_shipped(path)
        data = read_csv(path)
        if response not in data:
            raise ValueError(f"response {response!r} is not a column of {path}; columns: {', '.join(data)}")
        if columns is not None:
            missing = [key for key in columns if key not in data]
            if missing:
                raise ValueError(f"columns {missing} are not in {path}; columns: {', '.join(data)}")
            data = {key: values for key, values in data.items() if key in {*columns, response}}
        more: dict[str, Any] = {
            "held_out": held_out,
            "total": total,
            "ranges": ranges,
            "plain_description": plain_description,
            "domain_knowledge": domain_knowledge,
            "quantities": quantities,
            "limits": limits,
        }
        super().__init__(
            name or path.stem,
            description,
            data,
            response,
            units,
            shown_rows,
            response_kind,
            rounding,
            **more,
        )
        self.check_varies()
