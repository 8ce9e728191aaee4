"""What a policy is told of a task."""

from __future__ import annotations

from typing import NamedTuple

from synthstats_lightning.tasks.task import Column, Task

RULES = """\
Write one PyMC program that models the response of a data set.
Answer with Python source only, a single `with pm.Model() as model:` block.
In scope: pm, np, pt (pytensor.tensor), math and every column by its own name, a NumPy array.
The response may be used only as `observed=`. Give every parameter a proper prior. Do not sample."""


class Prompt(NamedTuple):
    """A prompt in two parts, for tokenizers with and without a chat template.

    Attributes:
        rules: What a program is, the same for every task.
        request: What this task's data are.
    """

    rules: str
    request: str


def number(value: float) -> str:
    """A number as a prompt shows it: at most four significant digits."""
    return f"{value:.4g}"


def column_line(column: Column) -> str:
    """One column in one line: name, kind, range and unit, and how it was rounded if that is known."""
    unit = f" {column.unit}" if column.unit else ""
    rounding = "" if column.rounding is None else f", to the nearest {number(column.rounding)}"
    return f"{column.name}: {column.kind}, {number(column.low)} to {number(column.high)}{unit}{rounding}"


def render_request(
    description: str, columns: list[Column], response: Column, num_rows: int, shown: list[float] | None = None
) -> str:
    """The part of a prompt that describes a data set.

    Args:
        description: One sentence.
        columns: The covariates.
        response: The response column.
        num_rows: Rows of the data set.
        shown: Response values of the first rows, where the task shows any.
    """
    lines = [description.strip(), f"rows: {num_rows}"]
    lines += [column_line(column) for column in columns]
    lines += [f"response {column_line(response)}"]
    if shown:
        lines += [f"first values of {response.name}: " + ", ".join(number(value) for value in shown)]
    return "\n".join(lines)


def task_prompt(task: Task) -> Prompt:
    """The prompt of a task: of the response only name, kind, range and rows, unless it shows some."""
    columns = dict(task.columns)
    response = columns.pop(task.response)
    shown = [float(value) for value in task.data[task.response][: task.shown_rows]]
    return Prompt(
        RULES, render_request(task.description, list(columns.values()), response, task.num_rows, shown)
    )
