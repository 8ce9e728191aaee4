"""The elpd of the programs that have most of a posterior's mass, computed when a report asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.reports.summaries import ProgramSummary
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

WholeScore = Callable[[str, Task], Future[Score]]
"""Starts computing every score of a program, as `ProgramScorer.whole_score` does."""


def model_of(program: ProgramSummary) -> str:
    """What programs of equal scores have in common: the canonical form, or else the source.

    Args:
        program: A program with an evidence.
    """
    return program.canonical or program.source


def elpd_scores(
    programs: Sequence[ProgramSummary],
    task: Task,
    score: WholeScore,
    deadline: float | None,
    share: float,
    most: int,
    leading: Sequence[ProgramSummary] = (),
) -> dict[str, Score]:
    """Scores with elpd of models that have none, by what `model_of` says.

    Args:
        programs: Programs of a run with their shares.
        task: The data that they model.
        score: Starts computing the scores of a program.
        deadline: When they must be there, on the clock of `time.monotonic`; `None` waits for all.
        share: How much of the found mass is to have elpd.
        most: Most models that are scored beside these.
        leading: Programs that are scored whatever their share, such as the first of each form.

    Returns:
        What was there in time; a model whose elpd cannot be computed has none.
    """
    mass: dict[str, float] = {}
    first: dict[str, ProgramSummary] = {}
    for program in programs:
        model = model_of(program)
        mass[model] = mass.get(model, 0.0) + program.share
        first.setdefault(model, program)
    wanted = list(dict.fromkeys(model_of(each) for each in leading if not each.pointwise_elpd))
    covered, total = 0.0, sum(mass.values())
    for model in sorted(mass, key=lambda model: (-mass[model], model)):
        if covered >= share * total or len(wanted) >= most + len(leading):
            break
        covered += mass[model]
        if not first[model].pointwise_elpd and model not in wanted:
            wanted.append(model)
    futures = {model: score(first[model].source, task) for model in wanted}
    seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
    wait(futures.values(), seconds)
    found: dict[str, Score] = {}
    for model, future in futures.items():
        if not future.done():
            future.cancel()
            continue
        try:
            result = future.result()
        except ProgramFailure:
            continue  # it has an evidence, and no elpd: what the table then shows
        if "elpd" in result.diagnostics:
            found[model] = result
    return found
