"""`synthstats-lightning score PROGRAM.py --task NAME`, with `--audit` and for a run's best programs, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.audit import (
    Audited,
    AuditOptions,
    best_programs,
    exit_code,
    run_audits,
    show_audits,
)
from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.cli.renderings import write_renderings
from synthstats_lightning.cli.task_argument import TASK_HELP, named_task
from synthstats_lightning.confinement import Level
from synthstats_lightning.pool.reference.settings import Sampler
from synthstats_lightning.pool.scorer import score_program
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument(
        "program",
        type=str | None,
        nargs="?",
        default=None,
        help="Python file with one PyMC model of the task's response",
    )
    parser.add_argument(
        "--programs",
        type=str | None,
        default=None,
        help="instead of one program: a run's programs.jsonl, whose best programs are audited",
    )
    parser.add_argument("--top", type=int, default=10, help="how many of --programs, by evidence")
    parser.add_argument(
        "--audit",
        action="store_true",
        help="sum the evidence over all data sets of a small task, which must come to 1",
    )
    parser.add_argument("--audit_rows", type=int, default=2, help="rows of that task")
    parser.add_argument("--audit_data_sets", type=int, default=256, help="about how many data sets to score")
    parser.add_argument(
        "--task",
        type=str | Task,
        required=True,
        help=TASK_HELP,
    )
    parser.add_argument("--json", type=str | None, default=None, help="write the score to this file")
    parser.add_argument("--card", type=str | None, default=None, help="write a model card (Markdown, LaTeX)")
    parser.add_argument("--dot", type=str | None, default=None, help="write the model as a graphviz picture")
    parser.add_argument(
        "--sandbox", type=Level, default="strict", help="how strictly the program is confined"
    )
    parser.add_argument(
        "--reference",
        type=Sampler | None,
        default=None,
        help="score by PyMC's own samplers instead, for checks and for models that the engine declines",
    )
    parser.add_class_arguments(SandboxLimits, "limits")
    parser.add_class_arguments(EngineSettings, "engine")


def run(options: Namespace) -> Score | list[Audited]:
    """Scores one program, or audits a run's best ones, and prints what came of it.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The program's score; for `--programs` what their audits found.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument; with `FAILED` if the program has no score or an
            audit finds one dishonest; with `UNDECIDED` if an audit decides nothing.
    """
    for name in ("top", "audit_rows"):
        if getattr(options, name) < 1:
            fail(f"{name} must be at least 1, got {getattr(options, name)}")
    if options.audit_data_sets < 8:
        fail(f"audit_data_sets must be at least 8, got {options.audit_data_sets}")
    if (options.program is None) == (options.programs is None):
        fail("give either one program or --programs with a run's programs.jsonl")
    if options.programs is not None:
        return _audit_run(options)
    path = Path(options.program)
    if not path.is_file():
        fail(f"no program at {path}")
    try:
        task = named_task(options.task)
        source = path.read_text(encoding="utf-8")
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    if options.reference is not None and (task.shown_rows or task.held_out):
        fail(
            f"--reference scores all rows, but the task shows {task.shown_rows} and holds out {task.held_out}"
        )
    if options.reference is not None and task.transform is not None:
        fail(f"--reference knows no response_transform, and the task has {task.transform.kind!r}")
    score = score_program(
        source,
        task,
        limits=options.limits,
        settings=options.engine,
        sandbox=options.sandbox,
        reference=options.reference,
    )
    audited = []
    if options.audit:
        audited = run_audits([(source, score.summary or path.name, score.evidence)], task, _how(options))
    if options.json is not None:
        audit = {"audit": audited[0].to_dict()} if audited else {}
        _write({"task": task.name, **score.to_dict(), **audit}, options.json)
    if options.card is not None or options.dot is not None:
        _render(source, task, score, options)
    console = Console(soft_wrap=True)
    if not score.scored:
        console.print(f"no score: {score.failure}: {escape(score.message)}")
    else:
        console.print(score_table(score, task))
    if audited:
        show_audits(audited, task)
    code = exit_code(audited) if score.scored else FAILED
    if code:
        raise SystemExit(code)
    return score


def _render(source: str, task: Task, score: Score, options: Namespace) -> None:
    card, dot = (None if path is None else Path(path) for path in (options.card, options.dot))
    try:
        write_renderings(
            source, task, score, card=card, dot=dot, limits=options.limits, sandbox=options.sandbox
        )
    except ProgramFailure as failure:
        print(f"no rendering: {failure.category}: {failure.message}", file=sys.stderr)


def _audit_run(options: Namespace) -> list[Audited]:
    """Audits the best programs that a run has written."""
    if not options.audit:
        fail("--programs needs --audit")
    path = Path(options.programs)
    if not path.is_file():
        fail(f"no programs at {path}")
    try:
        task = named_task(options.task)
        best = best_programs(path, task, options.top)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    audited = run_audits(list(best), task, _how(options))
    if options.json is not None:
        _write({"task": task.name, "audits": [entry.to_dict() for entry in audited]}, options.json)
    show_audits(audited, task)
    code = exit_code(audited)
    if code:
        raise SystemExit(code)
    return audited


def _how(options: Namespace) -> AuditOptions:
    return AuditOptions(
        options.audit_rows, options.audit_data_sets, options.limits, options.engine, options.sandbox
    )


def _write(document: dict[str, object], path: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def score_table(score: Score, task: Task) -> Table:
    """A score as a table of two columns."""
    table = Table(title=f"Score on {task.name}", show_header=False)
    table.add_row("model", escape(score.summary or ""))
    if score.evidence is not None:
        table.add_row("log evidence", f"{score.evidence:.3f} ± {score.evidence_se:.3f} nats")
    if score.elpd is not None:
        table.add_row("elpd (leave-one-out)", f"{score.elpd:.2f} ± {score.elpd_se:.2f} nats")
    if score.heldout_lpd is not None:
        held_out = len(score.diagnostics["heldout_lpd"].pointwise)
        value = f"{score.heldout_lpd:.2f} ± {score.heldout_lpd_se:.2f} nats"
        table.add_row(f"log predictive density ({held_out} rows held out)", value)
    if score.pareto_k is not None:
        table.add_row("Pareto k (largest)", f"{score.pareto_k:.2f}")
    table.add_row("estimator", f"{score.estimator}, effective sample size {score.effective_sample_size:.0f}")
    table.add_row("parameters", str(score.num_parameters))
    if score.integrated is not None:
        table.add_row("integrated out", f"{score.integrated.size} of them ({score.integrated.method})")
    if score.literal_copies:
        table.add_row("copied literals", f"{score.literal_copies} values of the response stand in the source")
    table.add_row("seconds", f"{score.seconds:.3f}")
    return table
