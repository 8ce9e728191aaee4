"""`synthstats-lightning filter RUN --output examples.jsonl`: a run's programs as examples to imitate."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.chosen_posterior import add_run_arguments, chosen_posterior, known_task
from synthstats_lightning.cli.errors import FAILED, WRONG_USAGE, fail
from synthstats_lightning.reports.summaries import FormSummary, ProgramSummary
from synthstats_lightning.runtime.durable_files import out_of_space, write_text
from synthstats_lightning.tasks import task_prompt

By = Literal["evidence", "form", "share"]
"""How programs are chosen: the best of all, equally many of each form, or of each by its posterior share."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    add_run_arguments(parser)
    parser.add_argument("--output", type=str, required=True, help="JSONL file to write")
    parser.add_argument("--number", type=int, default=500, help="programs at most")
    parser.add_argument(
        "--by",
        type=By,
        default="evidence",
        help="which: the best by evidence, equally many of each form, or of each form by its posterior share",
    )
    parser.add_argument(
        "--messages",
        type=bool,
        default=False,
        help="write chat messages, prompt included, instead of task and source",
    )


def run(options: Namespace) -> list[dict[str, Any]]:
    """Writes the examples, the best first.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The lines of the file.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument or run; with `FAILED` for a full disk.
    """
    if options.number < 1:
        fail(f"number must be at least 1, got {options.number}")
    posterior = chosen_posterior(options)
    messages: list[dict[str, str]] = []
    if options.messages:
        prompt = task_prompt(known_task(posterior))
        request = f"{prompt.request}\n{prompt.data}" if prompt.data else prompt.request
        messages = [{"role": "system", "content": prompt.rules}, {"role": "user", "content": request}]
    lines: list[dict[str, Any]] = []
    for program, form in chosen(posterior.forms, options.number, options.by):
        found: dict[str, Any] = {"task": posterior.task_name, "source": program.source}
        if options.messages:
            found = {"messages": [*messages, {"role": "assistant", "content": program.source}]}
        lines.append({**found, "evidence": program.evidence, "form": form.text})
    path = Path(options.output)
    try:
        write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
    except OSError as error:
        fail(f"{path} cannot be written: {error}", FAILED if out_of_space(error) else WRONG_USAGE)
    forms = len({line["form"] for line in lines})
    print(f"{path}: {len(lines)} programs of {forms} forms; `fit --config warm_start` imitates them with")
    print(f"  --data.init_args.examples {path}")
    return lines


def chosen(forms: Sequence[FormSummary], number: int, by: By) -> list[tuple[ProgramSummary, FormSummary]]:
    """Programs to imitate with their forms, by evidence, one text of each model.

    Args:
        forms: The forms of a run's posterior, with their programs.
        number: How many at most; `"form"` and `"share"` take one of each form at least.
        by: How they are chosen.

    Raises:
        ValueError: If `by` is unknown.
    """
    if by not in get_args(By):
        raise ValueError(f"by must be one of {', '.join(get_args(By))}, got {by!r}")
    ranked = [_models(form) for form in forms]
    if by == "evidence":
        counts = [len(models) for models in ranked]
    elif by == "form":
        counts = [math.ceil(number / len(forms))] * len(forms)
    else:
        total = sum(form.share for form in forms)
        counts = [max(1, round(number * form.share / total)) for form in forms]
    pairs = [
        (program, form)
        for form, models, count in zip(forms, ranked, counts, strict=True)
        for program in models[:count]
    ]
    pairs.sort(key=lambda pair: -pair[0].evidence)
    return pairs[:number]


def _models(form: FormSummary) -> list[ProgramSummary]:
    """The programs of a form, the best first, and of each model its likeliest text."""
    texts: dict[str, ProgramSummary] = {}
    for program in sorted(form.programs, key=lambda each: -each.reference_log_prob):
        texts.setdefault(program.canonical or program.source, program)
    return sorted(texts.values(), key=lambda each: -each.evidence)
