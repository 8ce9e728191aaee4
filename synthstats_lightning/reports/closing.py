"""The closing report: the posterior over programs as a table and as figures in a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from synthstats_lightning.objectives import Objective
from synthstats_lightning.reports.form_table import form_table, posterior_figures, share_lines
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.reports.search_outcome import SearchOutcome, TaskOutcome
from synthstats_lightning.reports.shares import by_origin, evaluation_metrics, origin_lines, record_metrics
from synthstats_lightning.runtime.durable_files import write_text

FORMS_IN_FILE = 50
"""Most forms in `report.json`."""
TABLE_WIDTH = 110
"""Columns of the table, also where the output is no terminal."""


@dataclass
class TaskReport:
    """What a run has found of one task's posterior over programs.

    Shares are those of the run's posterior: every distinct program that was scored counts once, by its prior
    (the reference log-probability) times its evidence, and what none has met is estimated, where there are
    any from the fresh ones of the report.

    Attributes:
        task: Name of the task.
        records: Every distinct program of the run.
        fresh: Programs that the policy wrote for the report, one entry a sample.
        log_z: Learned log Z in nats, if there is one.
        objective: Of the run, which says what the target of the fresh programs is; by default the reward.
        left_out: What the report lacks and why, a line each.
        posterior: The run's posterior, where it is known with more than the records say.
        searched: How the search went that the records come from, if they come from one.
        blind: Programs that the prior wrote for the report, one entry a sample.
        early: Programs of the warm-up that are weighed together with these, one entry a sample.
    """

    task: str
    records: Sequence[ProgramRecord] = ()
    fresh: Sequence[ProgramRecord] = ()
    log_z: float | None = None
    objective: Objective | None = None
    left_out: list[str] = field(default_factory=list)
    posterior: RunPosterior | None = None
    searched: SearchOutcome | None = None
    blind: Sequence[ProgramRecord] = ()
    early: Sequence[ProgramRecord] = ()

    def posterior_by_form(self) -> RunPosterior | None:
        """The posterior from all programs, the fresh ones too; `None` if none has an evidence."""
        if self.posterior is None:
            records = self._with_fresh()
            if any(record.score.evidence is not None for record in records):
                self.posterior = RunPosterior.from_records(self.task, records, searched=self.searched)
        return self.posterior

    def _with_fresh(self) -> Sequence[ProgramRecord]:
        """All records, the fresh programs among them."""
        if not self.fresh or any(record.fresh for record in self.records):
            return self.records
        together = ProgramRecords(replace(record) for record in self.records)
        for record in [*self.fresh, *self.blind]:
            together.add(replace(record, fresh=1))
        for record in self.early:  # which the records count already
            together.add(replace(record, fresh=1, count=0))
        return list(together)

    def metrics(self) -> dict[str, Any]:
        """This task's part of `report.json`: of `evaluation_metrics` or `record_metrics`, and `left_out`."""
        found = self.log_z_metrics()
        posterior = self.posterior_by_form()
        if posterior is not None:
            found |= posterior_figures(posterior, FORMS_IN_FILE)
        if self.searched is not None:
            found["search"] = {"by": self.searched.method, "log_z_from": self.searched.log_z_from}
            found["search"] |= asdict(self.searched.tasks.get(self.task, TaskOutcome()))
        if origins := by_origin(self._with_fresh()):
            found["origins"] = origins
        return {"method": self.method, **found, "left_out": list(self.left_out)}

    def log_z_metrics(self) -> dict[str, Any]:
        """Those of the sampled programs: of `evaluation_metrics` or `record_metrics`.

        With `log_z_found`, what the scored programs of the run come to. Log Z is at least that: where it is
        more than fresh programs estimate, or there are none and the learned log Z is below it, `log_z_gap` is
        to it.
        """
        if self.fresh and self.log_z is not None:
            found: dict[str, Any] = dict(
                evaluation_metrics(self.fresh, self.log_z, self.objective, [*self.blind, *self.early])
            )
        else:
            found = dict(record_metrics(self.records))
            if self.log_z is not None:
                found["log_z_learned"] = self.log_z
        scored = [record.log_reward for record in self._with_fresh() if record.score.scored]
        found.pop("log_z_found", None)
        if scored:
            found["log_z_found"] = bound = float(np.logaddexp.reduce(scored))
            if self.log_z is not None:
                estimate = found.get("log_z_importance", -np.inf) if self.fresh else self.log_z
                if bound > estimate:
                    found["log_z_gap"] = self.log_z - bound
        return found

    @property
    def method(self) -> str:
        """What the figures come from."""
        return "fresh programs" if self.fresh else "programs of the run, weighted by prior times evidence"

    def print(self, console: Console, top: int) -> None:
        """Prints the table, what failed, log Z and what is left out.

        Args:
            console: The console that it is printed to.
            top: Forms in the table.
        """
        posterior = self.posterior_by_form()
        if posterior is not None:
            console.print(form_table(self.task, posterior.forms[:top], self._number()))
            for line in share_lines(posterior):
                console.print(escape(line), soft_wrap=True, highlight=False)
        samples = sum(record.count for record in self._all())
        failures: Counter[str] = Counter()
        for record in self._all():
            if record.score.failure is not None:
                failures[str(record.score.failure)] += record.count
        for category, count in failures.most_common():
            console.print(
                f"failed: {count} of {samples} {'fresh' if self.fresh else 'sampled'} programs, {category}"
            )
        for line in origin_lines(self._with_fresh()):
            console.print(escape(line), soft_wrap=True, highlight=False)
        console.print(self._log_z_line())
        if self.searched is not None:
            console.print(escape(self._search_line(self.searched)), soft_wrap=True, highlight=False)
        for line in self.left_out:
            console.print(f"left out: {escape(line)}", soft_wrap=True)

    def _search_line(self, searched: SearchOutcome) -> str:
        """What the search cost and says of log Z by itself."""
        found = searched.tasks.get(self.task, TaskOutcome())
        cost = (
            f"{searched.method}: {found.programs} programs scored, {found.repeated} proposals had been scored"
            f" before; log Z from {searched.log_z_from}"
        )
        if found.log_z is None:
            return cost
        error = "" if found.log_z_se is None else f" ± {found.log_z_se:.2f}"
        return f"{cost}: {found.log_z:.2f}{error} nats, absolute"

    def _all(self) -> Sequence[ProgramRecord]:
        return self.fresh or self.records

    def _number(self) -> str:
        if self.fresh:
            return f"{len(self._with_fresh())} distinct programs of the run, {self._drawn()}"
        return f"{len(self.records)} distinct programs of the run, weighted by prior times evidence"

    def _drawn(self) -> str:
        of_prior = f", {len(self.blind)} of them the prior's" if self.blind else ""
        of_warmup = f" and {len(self.early)} of the warm-up" if self.early else ""
        return f"{len(self.fresh) + len(self.blind)} fresh programs{of_prior}{of_warmup}"

    def _log_z_line(self) -> str:
        found = self.log_z_metrics()
        learned = "" if self.log_z is None else f"learned {self.log_z:.2f}, "
        if self.fresh and "log_z_importance" not in found:
            bound = f", at least {found['log_z_found']:.2f} by the run's" if "log_z_found" in found else ""
            return f"log Z of {self.task}: {learned}but no fresh program has a score{bound}"
        if self.fresh and self.log_z is not None:
            error = found.get("log_z_importance_se", np.inf)
            missed = found.get("log_z_found", -np.inf) > found["log_z_importance"]
            bound = f" but at least {found['log_z_found']:.2f} by the run's," if missed else ""
            return (
                f"log Z of {self.task}: {learned}importance sampling {found['log_z_importance']:.2f}"
                f" ± {error:.2f} from {self._drawn()}"
                f" (effective {found['effective_sample_size']:.0f}),{bound} gap {found['log_z_gap']:+.2f}"
                " nats;"
                f" residual standard deviation {found['residual_std']:.2f} nats, nine tenths within"
                f" {found['residual_q05']:+.2f} to {found['residual_q95']:+.2f}"
            )
        if "log_z_found" not in found:
            return f"log Z of {self.task}: {learned}but no program has a score"
        return (
            f"log Z of {self.task}: {learned}at least {found['log_z_found']:.2f}, which the run's programs"
            " come to"
        )


def write_report(
    folder: Path, reports: Sequence[TaskReport], console: Console | None = None, top: int = 10
) -> dict[str, dict[str, Any]]:
    """Writes `report.json`, and prints the report.

    Args:
        folder: The run's folder, where the file goes.
        reports: What the report of each task holds.
        console: Where to print; the standard output by default.
        top: Forms in each table.

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
