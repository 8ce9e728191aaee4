"""The script of one program of a run, checked to mean what the program means."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.canonical import canonical_hash
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.rendering.pymc_model import pymc_lines
from synthstats_lightning.reports.exported.script import ExpectedFigures, export_script
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

SAME = 0.05
"""Difference of evidence, in nats, beyond Monte-Carlo errors, of two spellings of one model."""


def export_program(
    task: Task, source: str, scorer: ProgramScorer, title: str, notes: Sequence[str] = ()
) -> str:
    """The script of a program, with the figures that it should give.

    The model that is written is read back: its canonical form, or else its evidence, must be the program's.

    Args:
        task: The task whose data the program models.
        source: Source text of the program.
        scorer: A pool that builds and scores.
        title: What the script is, in one line.
        notes: More that the script's head should say, a sentence each.

    Raises:
        ValueError: If the program does not build or has no score, or its model has no spelling in PyMC.
    """
    plain = all_rows_by_density(task)
    if task.rounding is not None:
        notes = (
            *notes,
            f"The run scored intervals of {task.rounding:g}, the script and its figures use densities.",
        )
    if task.transform is not None:
        notes = (*notes, f"The response and the figures are {task.transform.words}, as programs see it.")
    if task.shown_rows:
        notes = (*notes, f"The run gave {task.shown_rows} rows to condition on; here all rows count.")
    try:
        graph = scorer.graph(source, plain)
        score = scorer.score(source, plain)
        if not score.scored:
            raise ValueError(f"the program has no score on all rows: {score.message}")
        written = "\n".join(pymc_lines(graph, plain.response))
        if canonical_hash(scorer.graph(written, plain)) != canonical_hash(graph):
            _check_same(score, scorer.score(written, plain))
    except ProgramFailure as failure:
        raise ValueError(f"the program cannot be exported: {failure.message}") from None
    elpd = score.diagnostics.get("elpd")
    figures = ExpectedFigures(score.evidence, score.elpd, score.elpd_se, 0.0 if elpd is None else elpd.mcse)
    return export_script(plain, graph, figures, title, tuple(notes))


def all_rows_by_density(task: Task) -> Task:
    """A task without rows that are held out, whose rows count by their density on the scale of programs.

    Args:
        task: Any task; it stays as it is.
    """
    if not (task.held_out or task.shown_rows or task.rounding or task.transform):
        return task
    plain = copy.copy(task)
    number = task.num_rows - task.held_out
    plain.data = {name: values[:number] for name, values in task.data.items()}
    plain.held_out, plain.shown_rows, plain.rounding, plain.transform = 0, 0, None, None
    for name in ("columns", "schema", "fingerprint"):
        plain.__dict__.pop(name, None)
    return plain


def _check_same(score: Score, written: Score) -> None:
    if not written.scored:
        raise ValueError(f"the model has no spelling that reads back: {written.message}")
    if score.evidence is None or written.evidence is None:
        return
    error = 3.0 * ((score.evidence_se or 0.0) + (written.evidence_se or 0.0))
    if abs(score.evidence - written.evidence) > SAME + error:
        raise ValueError(
            f"the model has no spelling that means the same: log evidence {written.evidence:.2f} instead of"
            f" {score.evidence:.2f}"
        )
