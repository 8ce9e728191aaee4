"""Everything that a report draws of one task, as far as there is time for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.reports.pictures.bands import Bands, Design, draw_bands, panel_design
from synthstats_lightning.reports.pictures.calibration import Calibration, calibration
from synthstats_lightning.reports.pictures.predictive_draws import (
    Posterior,
    ResponseDraws,
    mixed_draws,
    program_draws,
)
from synthstats_lightning.reports.pictures.program_map import ProgramMap, map_programs
from synthstats_lightning.reports.pictures.rootogram import Rootogram, rootogram
from synthstats_lightning.reports.summaries import FormSummary, ProgramSummary
from synthstats_lightning.tasks import Task

SET_SHARE = 0.95
"""Posterior share that the programs of the weighted set have together, if so few have it."""
SET_PROGRAMS = 12
"""Programs of the weighted set at most."""
INCLUDED = 0.05
"""Covariates with a smaller probability that a program reads them have no panel."""
LEAST_SHARE = 0.0005
"""Forms with less, which would be 0.0 %, have no bar and no bands, except for the first."""
LEAST_PLACES = 3
"""Structures of which a map says something."""
THREADS = 2


class DrawnModel(NamedTuple):
    """What is drawn of one form, or of the weighted set.

    Attributes:
        name: `weighted set`, `form 1` and so on.
        text: The form, or what the set holds.
        share: Posterior share of it.
        bands: Predictive bands of it.
        calibration: Leave-one-out checks of it.
        rootogram: Frequencies, of a count.
    """

    name: str
    text: str
    share: float
    bands: Bands
    calibration: Calibration
    rootogram: Rootogram | None


class FormShare(NamedTuple):
    """A bar of the picture of shares.

    Attributes:
        text: The form in one line.
        share: Its share of the posterior, from 0 to 1.
    """

    text: str
    share: float


class DrawnMap(NamedTuple):
    """The map of what was tried.

    Attributes:
        places: Where structures lie in the plane.
        shares: Posterior share of each.
        labels: The form that each has.
        steps: Training step at which each was first seen.
    """

    places: ProgramMap
    shares: tuple[float, ...]
    labels: tuple[str, ...]
    steps: tuple[int | None, ...]


@dataclass(frozen=True)
class TaskPictures:
    """What is drawn of a task.

    Attributes:
        models: The weighted set first, then the best forms; empty where there was nothing to draw from.
        search: The map of structures; `None` where too few are known or have been placed in time.
        left_out: What is missing and why, a line each.
        shares: The best forms, whether their predictions are among `models` or not.
    """

    models: tuple[DrawnModel, ...] = ()
    search: DrawnMap | None = None
    left_out: list[str] = field(default_factory=list)
    shares: tuple[FormShare, ...] = ()


def task_pictures(
    task: Task,
    forms: Sequence[FormSummary],
    inclusion: Mapping[str, float],
    posterior: Posterior,
    *,
    plotted: int,
    deadline: float,
) -> TaskPictures:
    """Draws from the programs that carry the mass, and computes all that is drawn.

    Args:
        task: The data that programs model.
        forms: The forms of the run's posterior, largest share first.
        inclusion: Probability that a program reads a covariate, by its name.
        posterior: Such as `ProgramScorer.posterior`, with the seconds that it may take.
        plotted: Forms that have bands of their own.
        deadline: When all must be there, on the clock of `time.monotonic`.
    """
    left_out: list[str] = []
    if not forms:
        return TaskPictures()
    shown = _shown(forms, plotted)
    shares = form_shares(forms, plotted)
    if task.shown_rows == task.num_rows - task.held_out:
        # as in episodes, whose programs know what each of them observed and nothing of it is here
        left_out.append(
            "predictions: all rows of the task are held out, so that no program was fitted to them"
        )
        return TaskPictures((), _search(forms, deadline, left_out), left_out, shares)
    used = [
        name
        for name, _ in sorted(inclusion.items(), key=lambda item: -item[1])
        if inclusion[name] >= INCLUDED
    ]
    design = panel_design(task, [name for name in used if name in task.covariates])
    chosen = set_programs([program for form in forms for program in form.programs])
    wanted = {program.source: program for program in [*chosen, *(form.best for form in shown)]}
    with ThreadPoolExecutor(1, thread_name_prefix="report-map") as aside:
        # while workers draw, which may take all of the time
        mapped = aside.submit(_search, forms, deadline, left_out)
        draws = _all_draws(task, wanted, design, posterior, deadline, left_out)
        search = mapped.result()
    models = []
    found = [program for program in chosen if program.source in draws]
    if found:
        covered = sum(program.share for program in found)
        holders = "a program that holds" if len(found) == 1 else f"{len(found)} programs that hold"
        text = f"{holders} {covered:.1%} of the posterior"
        mixture = _mixture(found, draws)
        models.append(_drawn(task, design, "weighted set", text, covered, mixture))
    for number, form in enumerate(shown, start=1):
        if form.best.source in draws:
            own = draws[form.best.source]
            models.append(_drawn(task, design, f"form {number}", form.text, form.share, own))
    return TaskPictures(tuple(models), search, left_out, shares)


def form_shares(forms: Sequence[FormSummary], plotted: int) -> tuple[FormShare, ...]:
    """The best forms with what they hold of the posterior.

    Args:
        forms: The forms of the run's posterior, largest share first.
        plotted: How many at most.
    """
    return tuple(FormShare(form.text, form.share) for form in _shown(forms, plotted))


def _shown(forms: Sequence[FormSummary], plotted: int) -> list[FormSummary]:
    """The best one, whatever it holds, and others that hold something."""
    return [form for form in forms[:plotted] if form is forms[0] or form.share >= LEAST_SHARE]


def set_programs(programs: Sequence[ProgramSummary]) -> list[ProgramSummary]:
    """The programs of largest share that stand for the posterior.

    Args:
        programs: Those of a posterior, in any order.
    """
    chosen: list[ProgramSummary] = []
    for program in sorted(programs, key=lambda each: -each.share)[:SET_PROGRAMS]:
        if sum(each.share for each in chosen) >= SET_SHARE:
            break
        chosen.append(program)
    return chosen


def is_bound_to_rows(graph: ModelGraph) -> bool:
    """Whether a model has parameters or dependence of its rows, so that rows out of order mean nothing.

    Args:
        graph: A model graph.
    """
    rows = graph.shapes[graph.response][-1] if graph.shapes[graph.response] else 1
    if len(graph.shapes[graph.response]) != 1 or rows < 2:
        return True
    parameters = (i for i, node in enumerate(graph.nodes) if node.op == "random" and i != graph.response)
    return any(rows in graph.shapes[index] for index in parameters)


def _all_draws(
    task: Task,
    programs: Mapping[str, ProgramSummary],
    design: Design,
    posterior: Posterior,
    deadline: float,
    left_out: list[str],
) -> dict[str, ResponseDraws]:
    """Draws of each program by its source; what has none is added to `left_out`."""
    draws: dict[str, ResponseDraws] = {}
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="report-draws")
    calls: dict[str, Future[ResponseDraws]] = {
        source: pool.submit(partial(_draws, posterior, program, task, design))
        for source, program in programs.items()
    }
    missing: dict[str, list[float]] = {}
    for source, call in calls.items():
        try:
            draws[source] = call.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            missing.setdefault("the deadline came first", []).append(programs[source].share)
        except Exception as error:  # whatever a program or its worker came to costs its predictions alone
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            missing.setdefault(reason, []).append(programs[source].share)
    for reason, shares in missing.items():
        number = "a program" if len(shares) == 1 else f"{len(shares)} programs"
        left_out.append(f"the predictions of {number} with {sum(shares):.1%} of the posterior: {reason}")
    pool.shutdown(wait=False, cancel_futures=True)
    return draws


def _draws(posterior: Posterior, program: ProgramSummary, task: Task, design: Design) -> ResponseDraws:
    """Of the rows of the design too, unless these mean nothing to the program."""
    if program.graph is None or not is_bound_to_rows(program.graph):
        with contextlib.suppress(ProgramFailure):
            return program_draws(posterior, program.source, task, design.columns)
    return program_draws(posterior, program.source, task)


def _mixture(programs: Sequence[ProgramSummary], draws: Mapping[str, ResponseDraws]) -> ResponseDraws:
    """Of the programs that predict new rows, if they hold most of the share; else of all, at own rows."""
    free = [program for program in programs if draws[program.source].new.shape[1]]
    all_shares = sum(program.share for program in programs)
    if 2 * sum(program.share for program in free) >= all_shares and free:
        return mixed_draws([draws[each.source] for each in free], [each.share for each in free])
    own = [draws[each.source].without_new() for each in programs]
    return mixed_draws(own, [each.share for each in programs])


def _drawn(
    task: Task, design: Design, name: str, text: str, share: float, draws: ResponseDraws
) -> DrawnModel:
    counted = task.response_kind == "count" and task.total is None
    return DrawnModel(
        name,
        text,
        share,
        draw_bands(task, design, draws),
        calibration(task, draws),
        rootogram(task, draws) if counted else None,
    )


def _search(forms: Sequence[FormSummary], deadline: float, left_out: list[str]) -> DrawnMap | None:
    """The map of the structures of largest share; what is too small for one is added to `left_out`."""
    shares: dict[str, float] = {}
    labels: dict[str, str] = {}
    steps: dict[str, int | None] = {}
    graphs: dict[str, ModelGraph] = {}
    for form in forms:
        for program in form.programs:
            key = program.structure
            if key is None or program.graph is None:
                continue
            shares[key] = shares.get(key, 0.0) + program.share
            if key not in graphs:
                labels[key], steps[key], graphs[key] = form.text, program.step, program.graph
            elif program.step is not None and (earlier := steps[key]) is not None:
                steps[key] = min(earlier, program.step)
    order = sorted(shares, key=lambda key: -shares[key])
    if len(order) < LEAST_PLACES:
        return None
    places = map_programs([graphs[key] for key in order], deadline)
    order = order[: len(places.x)]
    if len(order) < LEAST_PLACES:
        left_out.append("the map of structures: the deadline came first")
        return None
    return DrawnMap(
        places,
        tuple(shares[key] for key in order),
        tuple(labels[key] for key in order),
        tuple(steps[key] for key in order),
    )
