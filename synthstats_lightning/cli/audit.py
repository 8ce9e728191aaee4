"""`synthstats-lightning score --audit`: the total probability of one program, or of a run's best."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.errors import FAILED, UNDECIDED
from synthstats_lightning.confinement import Level
from synthstats_lightning.pool.audit import audit_program
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.runtime.durable_files import read_json_lines
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.scoring.auditing.audit import Audit
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task


class Audited(NamedTuple):
    """A program and what its audit found.

    Attributes:
        label: The model in one line.
        evidence: Its log evidence on the task, in nats, if it has one.
        audit: The audit, or why there is none.
    """

    label: str
    evidence: float | None
    audit: Audit | ProgramFailure

    @property
    def verdict(self) -> str:
        """The audit's verdict, or `"no audit"`."""
        return self.audit.verdict if isinstance(self.audit, Audit) else "no audit"

    @property
    def reason(self) -> str:
        """Why, in one line."""
        if isinstance(self.audit, Audit):
            return self.audit.reason
        return f"{self.audit.category}: {self.audit.message}"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        found = (
            self.audit.to_dict()
            if isinstance(self.audit, Audit)
            else {"verdict": self.verdict, "reason": self.reason}
        )
        return {"program": self.label, "evidence": self.evidence, **found}


class AuditOptions(NamedTuple):
    """How to audit.

    Attributes:
        rows: Rows of the small task.
        data_sets: About how many data sets to score.
        limits: What the sandbox lets a program use: memory, processor time, wall time, output.
        engine: How much work the scoring engine spends on a program, and what it accepts.
        sandbox: How strictly the kernel confines programs.
    """

    rows: int
    data_sets: int
    limits: SandboxLimits
    engine: EngineSettings
    sandbox: Level = "strict"


def best_programs(path: Path, task: Task, top: int) -> list[tuple[str, str, float]]:
    """The best distinct models among a run's programs of a task.

    Args:
        path: The run's `programs.jsonl`.
        task: The task whose programs are read.
        top: How many programs are read, by evidence.

    Returns:
        Source, summary and evidence of each, best first.

    Raises:
        ValueError: If the file holds no scored program of the task, or a line is no record of one; a last
            line that a kill has torn off is left out.
    """
    best: dict[str, tuple[str, str, float]] = {}
    for number, record in enumerate(read_json_lines(path), start=1):
        try:
            if record["task"] != task.name or record["status"] != "scored":
                continue
            found = record["source"], record["summary"], float(record["evidence"])
            known = best.setdefault(record["canonical"], found)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number} is no record of a program: {error!r}") from None
        if known[2] < found[2]:
            best[record["canonical"]] = found
    if not best:
        raise ValueError(f"{path} holds no scored program of task {task.name!r}")
    return sorted(best.values(), key=lambda program: -program[2])[:top]


def run_audits(
    programs: list[tuple[str, str, float | None]], task: Task, options: AuditOptions
) -> list[Audited]:
    """Audits programs, one after the other in one sandbox.

    Args:
        programs: Source, label and evidence of each.
        task: The task that the programs are about.
        options: How much work an audit is, and in which sandbox.
    """
    torch.set_num_threads(1)
    audited = []
    with Sandbox(options.limits, level=options.sandbox) as sandbox:
        for source, label, evidence in programs:
            found: Audit | ProgramFailure
            try:
                found = audit_program(
                    source,
                    task,
                    sandbox,
                    rows=options.rows,
                    data_sets=options.data_sets,
                    settings=options.engine,
                )
            except ProgramFailure as failure:
                found = failure
            audited.append(Audited(label, evidence, found))
    return audited


def show_audits(audited: list[Audited], task: Task) -> None:
    """Prints what audits found as a table."""
    table = Table(title=f"Audit on {task.name}: total probability of all data sets")
    for column in ("verdict", "total", "interval", "rows", "data sets", "evidence", "program"):
        table.add_column(column, overflow="fold")
    for entry in audited:
        evidence = "" if entry.evidence is None else f"{entry.evidence:.2f}"
        audit = entry.audit
        if isinstance(audit, Audit):
            cells = [
                _short(audit.total_mass),
                f"{_short(audit.lower)} to {_short(audit.upper)} ({audit.level:.1%})",
                str(audit.rows) if audit.rows == audit.graph_rows else f"{audit.rows} of {audit.graph_rows}",
                f"{audit.data_sets}" + (f", {audit.unscored} without score" if audit.unscored else ""),
            ]
        else:
            cells = ["", "", "", ""]
        table.add_row(entry.verdict, *cells, evidence, escape(entry.label))
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)
    for entry in audited:
        console.print(f"{entry.verdict}: {escape(entry.reason)} ({escape(entry.label)})", soft_wrap=True)


def exit_code(audited: list[Audited]) -> int:
    """What audits make of the process: 0 if all are honest, `FAILED` if one is not, else `UNDECIDED`.

    A program without an audit counts as one that failed.

    Args:
        audited: Programs and what was found.
    """
    verdicts = {entry.verdict for entry in audited}
    if verdicts <= {"honest"}:
        return 0
    return UNDECIDED if verdicts <= {"honest", "undecided"} else FAILED


def _short(mass: float) -> str:
    """Three decimals where they fit."""
    return f"{mass:.3f}" if mass < 1e4 else f"{mass:.3g}"
