"""The files of a report: `report.html` and the pictures, from what a run has found."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import yaml

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.comparisons import Comparison, Submit, compare, compared_programs
from synthstats_lightning.reports.html.contents import Page
from synthstats_lightning.reports.html.page import write_page
from synthstats_lightning.reports.html.task_page import TaskFindings, task_page
from synthstats_lightning.reports.pictures.drawing import (
    draw_checks,
    draw_learning,
    draw_map,
    draw_models,
    draw_shares,
)
from synthstats_lightning.reports.pictures.learning_curves import learning_curves
from synthstats_lightning.reports.pictures.predictive_draws import Rows
from synthstats_lightning.reports.pictures.task_pictures import TaskPictures, form_shares, task_pictures
from synthstats_lightning.reports.run_settings import CONFIGURATION
from synthstats_lightning.reports.run_warnings import RunWarning, read_warnings
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

PAGE = "report.html"
FOR_PROGRAMS = 0.65
"""Share of a report's deadline after which no more fresh programs are waited for: predictions follow."""
FOR_ELPD = 0.3
"""Share of the time that is left in which the elpd of the programs of most mass must be there."""
FOR_COMPARISONS = 0.4
"""Share of the time in which the programs of comparison must have their scores."""
LIBRARIES = ("torch", "pymc", "lightning", "transformers", "numpy")


@runtime_checkable
class Workers(Protocol):
    """What predictions and scores are asked of: what `ProgramScorer` is."""

    def whole_score(self, source: str, task: Task) -> Future[Score]:
        """Starts computing every score of a program."""
        ...

    def posterior(
        self,
        source: str,
        task: Task,
        chains: int = 4,
        draws: int = 1000,
        seed: int = 0,
        seconds: float | None = None,
        rows: Rows | None = None,
    ) -> PosteriorDraws:
        """Posterior draws of a program."""
        ...


@dataclass(frozen=True)
class ReportFiles:
    """What was written.

    Attributes:
        page: The HTML file.
        pictures: PNG files, by what they show: `posterior`, `checks`, `learning` and `search`, after the
            task's name where there are several.
    """

    page: Path
    pictures: dict[str, Path]


def write_report_files(
    folder: Path,
    reports: Sequence[TaskReport],
    tasks: Sequence[Task],
    workers: Workers | None,
    *,
    plotted: int,
    deadline: float,
    own: Sequence[Path] = (),
    begun: Submit | None = None,
    drawn_by: float = math.inf,
) -> ReportFiles:
    """Draws the pictures and writes the page; what either lacks is added to the reports' `left_out`.

    Args:
        folder: The run's folder.
        reports: What was found of each task.
        tasks: Those whose data are known.
        workers: Score and predict; without them there are no predictions and no comparisons.
        plotted: Forms with bands of their own.
        deadline: When all must be there, on the clock of `time.monotonic`.
        own: Files of the user's programs, for the leaderboard.
        begun: Gives the scores of the programs of comparison; by default the workers start them here.
        drawn_by: When no further PNG file is begun, on the same clock; the page has all pictures.

    Raises:
        FileNotFoundError: If one of these is not there.
    """
    known = {task.name: task for task in tasks}
    warnings = _warnings(folder, reports)
    pages, pictures = [], {}
    for index, report in enumerate(reports):
        # what is left is shared by the tasks to come
        ends = time.monotonic() + max(0.0, deadline - time.monotonic()) / (len(reports) - index)
        found = _findings(folder, report, known.get(report.task), workers, plotted, ends, own, begun)
        told = tuple(_line(each) for each in warnings if each.task == report.task)
        found = found._replace(warnings=told)
        prefix = "" if len(reports) == 1 else f"{report.task}/"
        for name, path in _draw(folder, found, len(reports), report.left_out, drawn_by).items():
            pictures[prefix + name] = path
        pages.append(task_page(found._replace(left_out=report.left_out)))
    settings, configuration = _configuration(folder)
    page = Page(
        title=f"Posterior over programs: {', '.join(report.task for report in reports)}",
        created=f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
        version=__version__,
        tasks=tuple(pages),
        settings=settings,
        commands=_commands(folder, bool(configuration)),
        configuration=configuration,
        versions={"Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
    )
    write_page(page, folder / PAGE)
    return ReportFiles(folder / PAGE, pictures)


def _findings(
    folder: Path,
    report: TaskReport,
    task: Task | None,
    workers: Workers | None,
    plotted: int,
    deadline: float,
    own: Sequence[Path],
    begun: Submit | None,
) -> TaskFindings:
    posterior = report.posterior_by_form()
    if posterior is not None:
        posterior = report.posterior = replace(posterior, task=task, folder=folder)
    comparisons: list[Comparison] = []
    pictures = TaskPictures()
    reason = _without_predictions(task, workers, deadline)
    if task is not None and workers is not None and not reason:
        started = time.monotonic()
        middle = started + FOR_COMPARISONS * max(0.0, deadline - started)
        comparisons = compare(
            task, compared_programs(task, own), begun or workers.whole_score, middle, report.left_out
        )
        if posterior is not None:
            ends = time.monotonic() + FOR_ELPD * max(0.0, deadline - time.monotonic())
            posterior = report.posterior = posterior.with_elpd(workers.whole_score, deadline=ends)
            draw = partial(_one_chain, workers, deadline)
            pictures = task_pictures(
                task,
                posterior.forms,
                posterior.inclusion.covariates,
                draw,
                plotted=plotted,
                deadline=deadline,
            )
            report.left_out += pictures.left_out
    elif posterior is not None:
        pictures = TaskPictures(shares=form_shares(posterior.forms, plotted))
        report.left_out.append(f"predictions and comparisons: {reason}")
    return TaskFindings(
        report.task,
        report.records,
        posterior,
        task,
        comparisons,
        pictures,
        learning_curves(folder, report.task),
        report.log_z,
        (),
        (),
    )


def _without_predictions(task: Task | None, workers: Workers | None, deadline: float) -> str:
    """Why there are none; empty where there may be some."""
    if task is None:
        return "the data are not known"
    if workers is None:
        return "there are no workers"
    return "" if time.monotonic() < deadline else "the deadline came first"


def _one_chain(
    workers: Workers, deadline: float, source: str, task: Task, draws: int, rows: Rows | None
) -> PosteriorDraws:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return workers.posterior(source, task, 1, draws, 0, seconds, rows)


def _draw(
    folder: Path, found: TaskFindings, tasks: int, left_out: list[str], drawn_by: float
) -> dict[str, Path]:
    """Writes the PNG files that there is something for, and time."""
    drawn: dict[str, Path] = {}
    models, search = found.pictures.models, found.pictures.search
    wanted: dict[str, Callable[[Path], None]] = {}
    if models:
        wanted["posterior"] = partial(draw_models, found.name, models[0], found.pictures.shares)
        wanted["checks"] = partial(draw_checks, models[0])
    elif found.pictures.shares:
        wanted["posterior"] = partial(draw_shares, found.name, found.pictures.shares)
    if found.curves:
        wanted["learning"] = partial(draw_learning, found.curves)
    if search is not None:
        wanted["search"] = partial(draw_map, search)
    for name, draw in wanted.items():
        path = folder / picture_name(name, found.name, tasks)
        if time.monotonic() >= drawn_by:
            left_out.append(f"{path.name}: the deadline came first")
            continue
        try:
            draw(path)
        except Exception as error:  # a picture is no reason to lose the report
            left_out.append(f"{path.name}: {type(error).__name__}: {error}")
        else:
            drawn[name] = path
    return drawn


def picture_name(picture: str, task: str, tasks: int) -> str:
    """The file of a task's picture.

    Args:
        picture: What it shows, such as `posterior`.
        task: Name of the task.
        tasks: How many tasks the run has.
    """
    return f"{picture}.png" if tasks == 1 else f"{picture}-{task.replace('/', '-')}.png"


def _warnings(folder: Path, reports: Sequence[TaskReport]) -> tuple[RunWarning, ...]:
    try:
        return read_warnings(folder)
    except ValueError as error:
        for report in reports:
            report.left_out.append(f"the warnings: {error}")
        return ()


def _line(warning: RunWarning) -> str:
    """A warning in a sentence, with what became of it."""
    over = "" if warning.over is None else f" (over by step {warning.over})"
    return f"Step {warning.step}: {warning.message}; {warning.advice}{over}"


def _configuration(folder: Path) -> tuple[dict[str, str], str]:
    """Settings that readers ask for first, and the run's whole configuration."""
    path = folder / CONFIGURATION
    if not path.is_file():
        return {}, ""
    text = path.read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    wanted = {
        "seed": "seed_everything",
        "policy": "model.init_args.policy",
        "objective": "model.init_args.objective.class_path",
        "steps": "trainer.max_steps",
        "inverse temperature": "scoring.reward.beta",
        "weight of the prior": "scoring.reward.prior_weight",
        "floor (nats)": "scoring.reward.floor",
    }
    found = {name: _at(config, path) for name, path in wanted.items()}
    return {name: str(value) for name, value in found.items() if value is not None}, text


def _at(config: Any, path: str) -> Any:
    """What stands at a path of keys; `None` where there is nothing."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, dict) else None
    return config if not isinstance(config, dict) else config.get("class_path")


def _commands(folder: Path, configured: bool) -> tuple[str, ...]:
    made = [f"pip install synthstats-lightning=={__version__}"]
    if configured:
        made.append(f"synthstats-lightning fit --config {CONFIGURATION}")
    return (*made, f"synthstats-lightning report {folder}")
