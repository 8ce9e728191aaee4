"""The closing report made afterwards, from what a run has left in its folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from synthstats_lightning.objectives import Objective
from synthstats_lightning.reports.closing import TaskReport, write_report
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.report_files import Workers, write_report_files
from synthstats_lightning.reports.search_outcome import read_outcome
from synthstats_lightning.tasks import Task


def from_folder(
    folder: str | Path,
    tasks: Sequence[Task] = (),
    *,
    log_z: Mapping[str, float] | None = None,
    fresh: Mapping[str, Sequence[ProgramRecord]] | None = None,
    blind: Mapping[str, Sequence[ProgramRecord]] | None = None,
    early: Mapping[str, Sequence[ProgramRecord]] | None = None,
    objective: Objective | None = None,
    workers: Workers | None = None,
    compare: Sequence[str | Path] = (),
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
        folder: Of the run: its `programs.jsonl` is read; `report.html`, `report.json` and the pictures are
            written.
        tasks: Whose data are drawn; a task that is not given has no predictions.
        log_z: Learned log Z by name of the task, in nats, of a checkpoint.
        fresh: Programs sampled from a checkpoint by name of the task, one entry a sample: what the run
            has not seen is then estimated from them.
        blind: Programs of the prior that were drawn with these, likewise by name of the task.
        early: Programs of the warm-up that are weighed together with these, likewise by name of the task.
        objective: Of the run, which says what the target of the fresh programs is; by default the reward.
        workers: Such as a `ProgramScorer`, for predictions and the scores of programs of comparison; without
            them there are neither.
        compare: Files of the user's programs, for the leaderboard.
        left_out: What the report lacks already, a line each.
        top: Forms in each table.
        plotted: Forms with predictions of their own.
        deadline: Seconds that predictions and pictures may take.
        console: Where to print; the standard output by default.

    Returns:
        What `report.json` holds: by task, its figures.

    Raises:
        FileNotFoundError: If the folder has no programs, or one of `compare` is not there.
        ValueError: If they cannot be read.
    """
    folder, ends = Path(folder), time.monotonic() + deadline
    by_task: dict[str, list[ProgramRecord]] = {task.name: [] for task in tasks}
    for record in read_records(folder):
        if fresh:  # those of the report that the run ended with were drawn by themselves
            record.fresh, record.mixture_log_prob = 0, None
        by_task.setdefault(record.task, []).append(record)
    searched = read_outcome(folder)
    reports = [
        TaskReport(
            name,
            records,
            (fresh or {}).get(name, ()),
            (log_z or {}).get(name),
            objective,
            list(left_out),
            searched=searched,
            blind=(blind or {}).get(name, ()),
            early=(early or {}).get(name, ()),
        )
        for name, records in by_task.items()
    ]
    own = [Path(path) for path in compare]
    files = write_report_files(folder, reports, tasks, workers, plotted=plotted, deadline=ends, own=own)
    found = write_report(folder, reports, console, top)
    (console or Console()).print(f"report: {files.page}", soft_wrap=True, highlight=False)
    return found
