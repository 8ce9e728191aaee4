"""What a policy is told of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Column, number
from synthstats_lightning.tasks.digest import digest_text
from synthstats_lightning.tasks.facts import Facts, limits_by_role, with_roles
from synthstats_lightning.tasks.instructions import rules
from synthstats_lightning.tasks.proposal import Example, examples_text, proposal_digest, proposal_rows
from synthstats_lightning.tasks.task import Task

MAX_LEVELS = 8
"""Levels of a column that a prompt names."""
MAX_LEVEL_LENGTH = 24
"""Characters of a level that a prompt shows."""


class Prompt(NamedTuple):
    """A prompt in two parts, for tokenizers with and without a chat template.

    Attributes:
        rules: What a program is, the same for every task.
        request: What this task's data are.
        thinking: Whether a model that can think is asked to; `None` leaves it to the policy's settings.
        data: What the proposal's prompt shows besides, below the request, of data and programs; empty if
            nothing.
        facts: All of this as an object, for policies that word it themselves; `None` of what is no task's.
    """

    rules: str
    request: str
    thinking: bool | None = None
    data: str = ""
    facts: Facts | None = None

    @property
    def prior(self) -> Prompt:
        """The prompt of the prior, which shows nothing besides the request."""
        return self._replace(data="", facts=None if self.facts is None else self.facts.prior)

    def with_examples(self, examples: Sequence[tuple[str, float]]) -> Prompt:
        """The same, whose proposal is shown programs, below all else; the prior is not.

        Args:
            examples: Programs of the task, the best first.
        """
        parts = self.data, examples_text([Example(*each) for each in examples])
        return self._replace(data="\n".join(part for part in parts if part))


def column_line(column: Column) -> str:
    """One column in one line: name, kind, range, unit, rounding, total, role and levels, as far as known."""
    unit = f" {column.unit}" if column.unit else ""
    rounding = "" if column.rounding is None else f", to the nearest {number(column.rounding)}"
    total = "" if column.total is None else f", out of {column.total}"
    ends = f"{number(column.low)} to {number(column.high)}"
    role = f" {column.role}" if column.role else ""
    return f"{column.name}: {column.kind}, {ends}{unit}{rounding}{total}{role}{levels_text(column.levels)}"


def levels_text(levels: Sequence[str]) -> str:
    """Levels as a prompt shows them behind a range, in their order from 0; of many the first and the last.

    Args:
        levels: Names of the numbers from 0.
    """
    if not levels:
        return ""
    if len(levels) > MAX_LEVELS:
        levels = [*levels[: MAX_LEVELS - 2], "...", levels[-1]]
    return f" ({', '.join(level[:MAX_LEVEL_LENGTH] for level in levels)})"


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
    """Both prompts of a task: the proposal's, and as its `prior` that of the prior.

    Of the response the request says only name, kind, range and number of rows, unless the task shows some;
    what is behind it, in `data`, is what the task's `proposal` asks for. Examples, which change in the course
    of a run, are no part of it: see `Prompt.with_examples`.

    Args:
        task: What is to be modelled.
    """
    digest = proposal_digest(task)
    data = proposal_rows(task) if digest is None else digest_text(digest)
    columns = dict(task.columns)
    # to which digit values were recorded says nothing of a model, and policies are trained without
    response = replace(columns.pop(task.response), rounding=None)
    shown = [float(value) for value in task.data[task.response][: task.shown_rows]]
    named = limits_by_role(columns, task.censoring)
    views = {name: view.column for name, view in task.views.items() if view.standardises}
    facts = Facts(
        with_roles(named, task.roles, response),
        response,
        task.num_rows,
        tuple(shown),
        len(task.ordered),
        views,
        digest,
    )
    if task.written_prompt is not None:
        return Prompt(*task.written_prompt, data, facts)
    limits = {columns.pop(name).name: side for side, name in task.censoring.items()}
    request = render_request(
        task.description, list(columns.values()), response, task.num_rows, shown, task.quantities
    )
    if task.tell_views and task.views:
        request += f"\nalso in scope: {', '.join(view_text(name, view) for name, view in task.views.items())}"
    if task.tell_views and task.ordered:
        levels = ", ".join(f"{place} {level}" for place, level in enumerate(task.ordered))
        request += (
            f"\n{task.response} holds ordered categories ({levels}): pm.OrderedLogistic, pm.OrderedProbit"
        )
    if task.tell_views and limits:
        told = ", ".join(f"{side}={name}" for name, side in limits.items())
        request += f"\n{task.response} was cut short in some rows: pm.Censored(..., {told})"
    return Prompt(rules(task.instructions), request, data=data, facts=facts)


def view_text(name: str, view: View) -> str:
    """A view as a prompt names it.

    Args:
        name: The name by which programs use it.
        view: What it is made of.
    """
    if view.names_rows:
        return f"{name} (names the rows)"
    if view.constant is not None:
        grows = f"numbers the rows from {view.constant:g}" if view.step else f"{view.constant:g} in every row"
        return f"{name} ({grows})"
    if view.levels:
        return f"{name} ({view.column}, as the table has it)"
    made = "standardised" if view.standardises else f"1 where it is {view.level}, else 0"
    return f"{name} ({view.column}, {made})"
