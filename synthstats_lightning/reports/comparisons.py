"""Programs that a run's forms are compared with: the baseline, a default regression, the user's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task, baseline_program
from synthstats_lightning.tasks.default_regression import default_regression

BASELINE, REGRESSION = "baseline", "default regression"
Submit = Callable[[str, Task], Future[Score]]
"""Starts scoring a program, as `ProgramScorer.whole_score` does."""


@dataclass(frozen=True)
class Comparison:
    """A program from outside of the run.

    Attributes:
        name: `baseline`, `default regression` or the name of the user's file.
        source: Source text of the program.
        score: Its score by the same engine, or why it has none.
    """

    name: str
    source: str
    score: Score


def compared_programs(task: Task, own: Sequence[Path] = ()) -> dict[str, str]:
    """The programs that a task's forms are compared with, by name.

    Args:
        task: The data that programs model.
        own: Files of the user's programs.

    Raises:
        FileNotFoundError: If one is not there.
    """
    programs = {BASELINE: baseline_program(task)}
    if (regression := default_regression(task)) is not None:
        programs[REGRESSION] = regression
    for path in own:
        if not path.is_file():
            raise FileNotFoundError(f"no program at {path}")
        programs[path.name if path.name not in programs else str(path)] = path.read_text(encoding="utf-8")
    return programs


def compare(
    task: Task, programs: dict[str, str], submit: Submit, deadline: float, left_out: list[str]
) -> list[Comparison]:
    """Scores programs.

    Args:
        task: The data that programs model.
        programs: Sources by name.
        submit: Starts scoring one of them.
        deadline: When the scores must be there, on the clock of `time.monotonic`.
        left_out: Is told of what was not.
    """
    calls = {name: submit(source, task) for name, source in programs.items()}
    found = []
    for name, call in calls.items():
        try:
            score = call.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            left_out.append(f"the {name}: the deadline came first")
            continue
        except ProgramFailure as failure:
            score = Score.failed(failure.category, failure.message)
        found.append(Comparison(name, programs[name], score))
    return found
