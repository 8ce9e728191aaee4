"""What the proposal's prompt shows of the data, and the prior's does not."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from synthstats_lightning.tasks.columns import number
from synthstats_lightning.tasks.digest import Digest, task_digest
from synthstats_lightning.tasks.instructions import Instructions
from synthstats_lightning.tasks.task import Task

Proposal = Literal["nothing", "rows", "digest"]
"""What a proposal's prompt shows of the rows that count: nothing, rows, or a digest of them."""
Prior = Literal["request"]
"""What the prior's prompt shows: the request, with no value of the response that counts."""
MOST_ROWS = 60
"""Rows that a proposal's prompt shows at most."""
MOST_EXAMPLES = 4
"""Programs that it shows at most."""


class Example(NamedTuple):
    """A program that a proposal's prompt shows.

    Attributes:
        source: Source of the program.
        gain: Its score above that of the task's baseline, in nats.
    """

    source: str
    gain: float


def looking(task: Task, proposal: str, instructions: str = "short", examples: int = 0) -> Task:
    """The same task in other words: what its prompts say, and what its proposal's prompt shows.

    The rows that count and every score stay as they are. So does the prior's prompt, but for `instructions`,
    which both prompts begin with.

    Args:
        task: The task; it is not changed.
        proposal: What its proposal's prompt shows, one of `Proposal`; with `"nothing"` it keeps its own.
        instructions: What both prompts say of programs, one of `Instructions`; with `"short"` it keeps its
            own. A task that words its own prompt keeps that.
        examples: How many of a run's best programs so far the proposal's prompt shows, from 0 to
            `MOST_EXAMPLES`; with 0 it keeps its own number.

    Raises:
        ValueError: If one of them is none of these.
    """
    if proposal not in get_args(Proposal):
        raise ValueError(f"proposal must be one of {', '.join(get_args(Proposal))}, got {proposal!r}")
    if instructions not in get_args(Instructions):
        raise ValueError(
            f"instructions must be one of {', '.join(get_args(Instructions))}, got {instructions!r}"
        )
    if not 0 <= examples <= MOST_EXAMPLES:
        raise ValueError(f"proposal_examples must be from 0 to {MOST_EXAMPLES}, got {examples}")
    if (proposal, instructions, examples) == ("nothing", "short", 0):
        return task
    looks = copy.copy(task)
    looks.proposal = task.proposal if proposal == "nothing" else proposal
    looks.instructions = task.instructions if instructions == "short" else instructions
    looks.most_examples = examples or task.most_examples
    return looks


def rows_that_count(task: Task) -> int:
    """How many rows of a task evidence and elpd count.

    Args:
        task: A data set; what a policy is to experiment on has none.
    """
    return len(task.data[task.response][task.counting_rows])


def proposal_digest(task: Task) -> Digest | None:
    """The digest that the proposal's prompt tells; `None` if it tells none, or if no row counts.

    Args:
        task: Whose `proposal` says what is shown.
    """
    wanted = task.proposal == "digest" and rows_that_count(task)
    return task_digest(task) if wanted else None


def proposal_rows(task: Task) -> str:
    """The rows that the proposal's prompt shows; empty if it shows none.

    Args:
        task: Whose `proposal` says what is shown.
    """
    return rows_text(task) if task.proposal == "rows" and rows_that_count(task) else ""


def rows_text(task: Task, most: int = MOST_ROWS) -> str:
    """Rows that count, a line each in their order; of many so many that are spread evenly.

    Args:
        task: The task whose covariates and response are shown.
        most: Rows that are shown at most.
    """
    known = {**task.predictors, task.response: task.data[task.response]}
    part = {name: known[name][task.counting_rows] for name in task.data if name in known}
    count = len(part[task.response])
    picked = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
    told = "all" if len(picked) == count else f"{len(picked)} of {count}"
    names = [*(name for name in part if name != task.response), task.response]
    lines = [f"data ({told} rows): {', '.join(names)}"]
    lines += [", ".join(number(float(part[name][row])) for name in names) for row in picked]
    return "\n".join(lines)


def examples_text(examples: Sequence[Example]) -> str:
    """What the proposal's prompt shows of a run's best programs; empty if there are none.

    Args:
        examples: The programs, the best first.
    """
    if not examples:
        return ""
    lines = ["programs that scored best so far, in nats above the simplest one; write another:"]
    for place, example in enumerate(examples, start=1):
        lines += [f"# {place}: {example.gain:+.1f}", example.source.strip()]
    return "\n".join(lines)
