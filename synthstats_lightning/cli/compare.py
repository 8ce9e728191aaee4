"""`synthstats-lightning compare RUN mine.py ...`: one's own programs beside the forms of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.chosen_posterior import add_run_arguments, chosen_posterior, known_task
from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.reports.own_programs import ComparedModel, compared_models
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.runtime.durable_files import write_text
from synthstats_lightning.scoring.score import Score


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    add_run_arguments(parser)
    parser.add_argument("programs", type=str, nargs="+", help="Python files, each with one PyMC model")
    parser.add_argument("--top", type=int, default=10, help="forms of the run in the table")
    parser.add_argument("--json", type=str | None, default=None, help="write the table to this file")


def run(options: Namespace) -> list[ComparedModel]:
    """Scores the programs as the run's were, and prints them among its forms.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The rows of the table.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument, file or run; with `FAILED` if none of the
            programs has a score.
    """
    if options.top < 1:
        fail(f"top must be at least 1, got {options.top}")
    sources: dict[str, str] = {}
    for name in options.programs:
        try:
            sources[name] = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            fail(f"no program at {name}")
    posterior = chosen_posterior(options)
    task = known_task(posterior)
    with RunSettings(posterior.folder or Path()).scorer() as scorer:
        scores = {name: scorer.submit(source, task) for name, source in sources.items()}
        # forms of a run whose reward is the evidence have none yet
        posterior = posterior.with_elpd(scorer.whole_score)
        found: dict[str, Score] = {name: future.result() for name, future in scores.items()}
    console = Console(soft_wrap=True)
    for name, score in found.items():
        if not score.scored:
            console.print(f"{escape(name)}: no score: {score.failure}: {escape(score.message)}")
    scored = {name: score for name, score in found.items() if score.scored}
    if not scored:
        raise SystemExit(FAILED)
    models = compared_models(posterior.forms, scored, options.top)
    if options.json is not None:
        document = {"task": task.name, "models": [asdict(model) for model in models]}
        write_text(options.json, json.dumps(document, indent=2) + "\n")
    console.print(_table(models, task.name))
    return models


def _table(models: list[ComparedModel], task: str) -> Table:
    table = Table(title=f"Forms of the run and your programs on {task}, in nats")
    for name in ("model", "share", "log Bayes factor", "elpd", "difference", "stacking", "parameters", ""):
        table.add_column(name, justify="left" if name in ("model", "") else "right")
    for model in models:
        style = "bold" if model.is_own else None
        difference = _number(model.elpd_difference)
        if model.elpd_difference:
            difference += f" ± {_number(model.elpd_difference_se)}"
        table.add_row(
            escape(model.name),
            "" if model.share is None else f"{100 * model.share:.1f} %",
            _number(model.log_bayes_factor),
            _number(model.elpd),
            difference,
            _number(model.stacking_weight),
            "" if model.num_parameters is None else str(model.num_parameters),
            escape(model.text),
            style=style,
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
