"""The closing report: the posterior over programs as a table, a file and a picture."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.objectives import Objective
from synthstats_lightning.reports.posterior_plot import PREDICTIVE_QUANTILES, Band, plot_posterior
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import record_metrics, record_shares
from synthstats_lightning.reports.shares import StructureShare, evaluation_metrics, structure_shares
from synthstats_lightning.runtime.durable_files import write_text
from synthstats_lightning.tasks import Task

TABLE_WIDTH = 110
"""Columns of the table, also where the output is no terminal."""


Predict = Callable[[str, Task, list[float], float | None], np.ndarray]
"""Posterior predictive quantiles of a program, as `ProgramScorer.predict` computes them."""


@dataclass
class TaskReport:
    """What a run has found of one task's posterior over programs.

    With fresh programs of the trained policy, shares are importance weights: unbiased for the target. Without
    any, they are those of the run's posterior: every distinct program that was scored, weighted by its prior
    (the reference log-probability) times its evidence.

    Attributes:
        task: Name of the task.
        records: Every distinct program of the run.
        fresh: Programs sampled for the report, one entry a sample.
        log_z: Learned log Z in nats, if there is one.
        objective: Of the run, which says what the target of the fresh programs is; by default the reward.
        left_out: What the report lacks and why, a line each.
    """

    task: str
    records: Sequence[ProgramRecord] = ()
    fresh: Sequence[ProgramRecord] = ()
    log_z: float | None = None
    objective: Objective | None = None
    left_out: list[str] = field(default_factory=list)

    def shares(self) -> list[StructureShare]:
        """The structures, largest posterior share first."""
        return structure_shares(self.fresh, self.objective) if self.fresh else record_shares(self.records)

    def metrics(self) -> dict[str, Any]:
        """This task's part of `report.json`: of `evaluation_metrics` or `record_metrics`, and `left_out`."""
        if self.fresh and self.log_z is not None:
            found: dict[str, Any] = dict(evaluation_metrics(self.fresh, self.log_z, self.objective))
        else:
            found = dict(record_metrics(self.records))
            if self.log_z is not None:
                found["log_z_learned"] = self.log_z
        return {"method": self.method, **found, "left_out": list(self.left_out)}

    @property
    def method(self) -> str:
        """What the shares come from."""
        return "fresh programs" if self.fresh else "programs of the run, weighted by prior times evidence"

    def print(self, console: Console, top: int) -> None:
        """Prints the table, what failed, log Z and what is left out.

        Args:
            console: The console that it is printed to.
            top: Structures in the table.
        """
        console.print(structure_table(self.task, self.shares()[:top], self._number()))
        samples = sum(record.count for record in self._all())
        failures: Counter[str] = Counter()
        for record in self._all():
            if record.score.failure is not None:
                failures[str(record.score.failure)] += record.count
        for category, count in failures.most_common():
            console.print(
                f"failed: {count} of {samples} {'fresh' if self.fresh else 'sampled'} programs, {category}"
            )
        console.print(self._log_z_line())
        for line in self.left_out:
            console.print(f"left out: {escape(line)}", soft_wrap=True)

    def _all(self) -> Sequence[ProgramRecord]:
        return self.fresh or self.records

    def _number(self) -> str:
        if self.fresh:
            return f"{len(self.fresh)} fresh programs"
        return f"{len(self.records)} distinct programs of the run, weighted by prior times evidence"

    def _log_z_line(self) -> str:
        found = self.metrics()
        learned = "" if self.log_z is None else f"learned {self.log_z:.2f}, "
        if self.fresh and self.log_z is not None:
            return (
                f"log Z of {self.task}: {learned}importance sampling {found['log_z_importance']:.2f}"
                f" ± {found['log_z_importance_se']:.2f} from {len(self.fresh)} fresh programs"
                f" (effective {found['effective_sample_size']:.0f}), gap {found['log_z_gap']:+.2f} nats;"
                f" residual standard deviation {found['residual_std']:.2f} nats"
            )
        return (
            f"log Z of {self.task}: {learned}at least {found['log_z_found']:.2f}, which the run's programs"
            " come to"
        )


def structure_table(task: str, shares: Sequence[StructureShare], programs: str) -> Table:
    """The best structures of a task.

    Args:
        task: Name of the task.
        shares: Rows, in order.
        programs: What the shares come from.
    """
    table = Table(title=f"Posterior over programs: {task} ({programs})")
    table.add_column("posterior share", justify="right")
    table.add_column("evidence", justify="right")
    table.add_column("elpd", justify="right")
    table.add_column("count", justify="right")
    table.add_column("best program of the structure")
    for share in shares:
        score = share.best.score
        table.add_row(
            f"{share.posterior_share:.1%}",
            f"{score.evidence:.2f}",
            "" if score.elpd is None else f"{score.elpd:.2f}",
            str(share.num_programs),
            escape(_label(share.best)),
        )
    return table


def draw_posterior(
    report: TaskReport, task: Task, plotted: int, predict: Predict | None, path: Path, deadline: float
) -> None:
    """Draws a task's picture; what it lacks is added to the report's `left_out`.

    Args:
        report: What the task's report holds.
        task: Whose data are drawn.
        plotted: Structures at most.
        predict: Gives the predictive bands; without it none are drawn.
        path: The PNG file to write.
        deadline: When the bands must be there, on the clock of `time.monotonic`.
    """
    bands: list[Band] = []
    for number, share in enumerate(report.shares()[:plotted], start=1):
        quantiles, seconds = None, deadline - time.monotonic()
        reason = None if predict is not None else "there are no workers"
        if predict is not None:
            try:
                if seconds <= 0:
                    raise TimeoutError
                quantiles = predict(share.best.source, task, list(PREDICTIVE_QUANTILES), seconds)
            except TimeoutError:
                reason = "the deadline came first"
            except Exception as error:  # whatever a program or its worker came to costs its band alone
                reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            report.left_out.append(f"the predictive band of structure {number}: {reason}")
        bands.append(Band(_label(share.best), share.posterior_share, quantiles))
    if bands:
        plot_posterior(task, bands, path)


def write_report(
    folder: Path, reports: Sequence[TaskReport], console: Console | None = None, top: int = 10
) -> dict[str, dict[str, Any]]:
    """Writes `report.json`, and prints the report.

    Args:
        folder: The run's folder, where the file goes.
        reports: What the report of each task holds.
        console: Where to print; the standard output by default.
        top: Structures in each table.

    Returns:
        What `report.json` holds: by task, its `metrics`.
    """
    if console is None:
        console = Console()
        console.width = max(console.width, TABLE_WIDTH)
    found = {report.task: report.metrics() for report in reports}
    write_text(folder / "report.json", json.dumps(finite(found), indent=2) + "\n")
    for report in reports:
        report.print(console, top)
    return found


def picture_name(task: str, tasks: int) -> str:
    """The file of a task's picture.

    Args:
        task: Name of the task.
        tasks: How many tasks the run has.
    """
    return "posterior.png" if tasks == 1 else f"posterior-{task.replace('/', '-')}.png"


def finite(value: Any) -> Any:
    """The same, with `None` for numbers that JSON cannot hold.

    Args:
        value: Numbers and texts in mappings and lists.
    """
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _label(record: ProgramRecord) -> str:
    return record.score.summary or ""
