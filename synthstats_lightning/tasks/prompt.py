"""What a policy is told of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.task import Task

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
        thinking: Whether a model that can think is asked to.
    """

    rules: str
    request: str
    thinking: bool = False


def number(value: float) -> str:
    """A number as a prompt shows it: at most four significant digits."""
    return f"{value:.4g}"


def column_line(column: Column) -> str:
    """One column in one line: name, kind, range, unit, rounding and what it is out of, as far as known."""
    unit = f" {column.unit}" if column.unit else ""
    rounding = "" if column.rounding is None else f", to the nearest {number(column.rounding)}"
    total = "" if column.total is None else f", out of {column.total}"
    ends = f"{number(column.low)} to {number(column.high)}"
    return f"{column.name}: {column.kind}, {ends}{unit}{rounding}{total}"


def render_request(
    description: str,
    columns: list[Column],
    response: Column,
    num_rows: int,
    shown: list[float] | None = None,
    quantities: Mapping[str, str] | None = None,
) -> str:
    """The part of a prompt that describes a data set.

    Args:
        description: One sentence that says what the data are.
        columns: The covariates, as the prompt describes them.
        response: The response column.
        num_rows: Rows of the data set.
        shown: Response values of the first rows, where the task shows any.
        quantities: Name to meaning of what the program must declare.
    """
    lines = [description.strip(), f"rows: {num_rows}"]
    lines += [column_line(column) for column in columns]
    lines += [f"response {column_line(response)}"]
    if shown:
        lines += [f"first values of {response.name}: " + ", ".join(number(value) for value in shown)]
    lines += [f'declare pm.Deterministic("{name}", ...): {text}' for name, text in (quantities or {}).items()]
    return "\n".join(lines)


def task_prompt(task: Task) -> Prompt:
    """The prompt of a task: of the response only name, kind, range and rows, unless it shows some."""
    if task.written_prompt is not None:
        return Prompt(*task.written_prompt)
    columns = dict(task.columns)
    # to which digit values were recorded says nothing of a model, and policies are trained without
    response = replace(columns.pop(task.response), rounding=None)
    shown = [float(value) for value in task.data[task.response][: task.shown_rows]]
    request = render_request(
        task.description, list(columns.values()), response, task.num_rows, shown, task.quantities
    )
    return Prompt(RULES, request)
