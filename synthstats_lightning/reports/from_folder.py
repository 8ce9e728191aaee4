"""The closing report made afterwards, from what a run has left in its folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from synthstats_lightning.objectives import Objective
from synthstats_lightning.reports.closing import (
    Predict,
    TaskReport,
    draw_posterior,
    picture_name,
    write_report,
)
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.tasks import Task


def from_folder(
    folder: str | Path,
    tasks: Sequence[Task] = (),
    *,
    log_z: Mapping[str, float] | None = None,
    fresh: Mapping[str, Sequence[ProgramRecord]] | None = None,
    objective: Objective | None = None,
    predict: Predict | None = None,
    left_out: Sequence[str] = (),
    top: int = 10,
    plotted: int = 4,
    deadline: float = 120.0,
    console: Console | None = None,
) -> dict[str, dict[str, Any]]:
    """Prints and writes a run's report, as `PosteriorReport` does at the end of `fit`.

    From records alone it shows the run's posterior: every distinct program that was scored, weighted by its
    prior times its evidence; what failed; and how much of log Z the programs of the run come to. It needs no
    trainer, no policy and no workers, and works for runs that were killed.

    Args:
        folder: Of the run: its `programs.jsonl` is read, `report.json` and the pictures are written.
        tasks: Whose data are drawn; a task that is not given has no picture.
        log_z: Learned log Z by name of the task, in nats, of a checkpoint.
        fresh: Programs sampled from a checkpoint by name of the task, one entry a sample: shares are then
            their importance weights.
        objective: Of the run, which says what the target of the fresh programs is; by default the reward.
        predict: Such as `ProgramScorer.predict`, for the predictive bands; without it none are drawn.
        left_out: What the report lacks already, a line each.
        top: Structures in each table.
        plotted: Structures in each picture.
        deadline: Seconds that the pictures may take.
        console: Where to print; the standard output by default.

    Returns:
        What `report.json` holds: by task, its figures.

    Raises:
        FileNotFoundError: If the folder has no programs.
        ValueError: If they cannot be read.
    """
    folder, ends = Path(folder), time.monotonic() + deadline
    by_task: dict[str, list[ProgramRecord]] = {task.name: [] for task in tasks}
    for record in read_records(folder):
        by_task.setdefault(record.task, []).append(record)
    drawn = {task.name: task for task in tasks}
    reports = []
    for name, records in by_task.items():
        found = (fresh or {}).get(name, ())
        report = TaskReport(name, records, found, (log_z or {}).get(name), objective, list(left_out))
        if name in drawn:
            path = folder / picture_name(name, len(by_task))
            draw_posterior(report, drawn[name], plotted, predict, path, ends)
        reports.append(report)
    return write_report(folder, reports, console, top)
