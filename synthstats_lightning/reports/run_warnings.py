"""What a run warns of: said once while it trains, kept in its folder, and taken back when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from synthstats_lightning.runtime.durable_files import GrowingFile, read_json_lines

WARNINGS = "warnings.jsonl"
Kind = Literal["nothing_scored", "few_effective_programs", "log_z_gap", "residual", "no_better"]
"""No program has a score; too few programs carry the estimate of log Z; learned log Z is far from it; the
residual does not fall; the policy is no better than before training."""
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class RunWarning:
    """Something that a user of a run should know of one of its tasks.

    Attributes:
        kind: Which of `KINDS` it is.
        task: Name of the task.
        step: Training step at which it was found.
        message: What was found, one sentence with its numbers.
        advice: What to do, one sentence.
        value: The number that it goes by, in the unit that the message names; `None` where there is none.
        over: Training step at which it was no longer so; `None` while it is.
    """

    kind: Kind
    task: str
    step: int
    message: str
    advice: str
    value: float | None = None
    over: int | None = None

    def __str__(self) -> str:
        return f"{self.task}, step {self.step}: {self.message}; {self.advice}"


class WarningLog:
    """The warnings of a run, of every kind and task at most one at a time, in `warnings.jsonl`.

    A line is written when a warning begins and when it is over.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], RunWarning] = {}
        self._file: GrowingFile | None = None

    @property
    def present(self) -> tuple[RunWarning, ...]:
        """Those that hold now, in the order in which they began."""
        return tuple(self._open.values())

    def start(self, folder: Path, resumed: bool = False) -> None:
        """Opens the file; until then, and after `close`, warnings are only remembered.

        Args:
            folder: The run's folder, where the file goes.
            resumed: Whether the run goes on from a checkpoint; otherwise an earlier run's file goes.
        """
        self._file = GrowingFile(folder / WARNINGS)
        if not resumed:
            self._file.path.unlink(missing_ok=True)

    def update(self, task: str, step: int, found: Iterable[RunWarning]) -> list[RunWarning]:
        """Takes what holds of a task now.

        Args:
            task: Name of the task.
            step: The training step.
            found: Every warning of this task that holds.

        Returns:
            Those that did not hold before.
        """
        now = {(warning.kind, warning.task): warning for warning in found}
        ended = [key for key in self._open if key[1] == task and key not in now]
        for key in ended:
            self._write(RunWarning(**{**asdict(self._open.pop(key)), "over": step}))
        new = [warning for key, warning in now.items() if key not in self._open]
        for warning in new:
            self._open[warning.kind, task] = warning
            self._write(warning)
        return new

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def state(self) -> list[dict[str, Any]]:
        """The warnings that hold now, in primitive types."""
        return [asdict(warning) for warning in self._open.values()]

    def restore(self, rows: Iterable[dict[str, Any]]) -> None:
        """Takes what `state` returned."""
        warnings = [RunWarning(**row) for row in rows]
        self._open = {(warning.kind, warning.task): warning for warning in warnings}

    def _write(self, warning: RunWarning) -> None:
        if self._file is not None:
            self._file.append(json.dumps(asdict(warning), allow_nan=False) + "\n")


def read_warnings(folder: Path) -> tuple[RunWarning, ...]:
    """Every warning of a run, those that hold at its end first, each group in the order of steps.

    Args:
        folder: The run's folder; one without the file has no warnings.

    Raises:
        ValueError: If a line is no warning.
    """
    path = folder / WARNINGS
    found: dict[tuple[str, str, int], RunWarning] = {}
    for fields in read_json_lines(path) if path.is_file() else ():
        try:
            warning = RunWarning(**fields)
        except TypeError as error:
            raise ValueError(f"{path} holds a line that is no warning: {error}") from None
        found[warning.kind, warning.task, warning.step] = warning
    return tuple(sorted(found.values(), key=lambda warning: (warning.over is not None, warning.step)))
