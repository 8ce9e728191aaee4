"""A grammar of real programs for the dugongs, small enough to list, and their scores."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import NamedTuple

from rich.progress import track

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task

TASK = "dugongs"
MEANS = {
    "constant": "alpha",
    "linear": "alpha + beta*age",
    "logarithm": "alpha + beta*pt.log(age)",
    "root": "alpha + beta*pt.sqrt(age)",
    "reciprocal": "alpha + beta/age",
}
LIKELIHOODS = {
    "normal": 'pm.Normal("y", {mean}, sigma, observed=length)',
    "laplace": 'pm.Laplace("y", {mean}, sigma, observed=length)',
    "logistic": 'pm.Logistic("y", {mean}, sigma, observed=length)',
}
LOCATIONS = (0, 2)
"""Prior means of alpha."""
WIDTHS = (1, 2, 5)
"""Prior standard deviations of alpha and beta."""
NOISES = ('pm.HalfNormal("sigma", 1)', 'pm.HalfNormal("sigma", 0.2)', 'pm.Exponential("sigma", 1)')


class GrammarProgram(NamedTuple):
    """One sentence of the grammar.

    Attributes:
        source: The program.
        structure: Its mean and its likelihood, which set modes apart.
    """

    source: str
    structure: str


def grammar() -> list[GrammarProgram]:
    """Every program of the grammar."""
    programs = []
    for (mean, location_of_mean), (likelihood, response) in itertools.product(
        MEANS.items(), LIKELIHOODS.items()
    ):
        slopes = (None,) if mean == "constant" else WIDTHS
        for location, width, slope, noise in itertools.product(LOCATIONS, WIDTHS, slopes, NOISES):
            lines = ["with pm.Model() as model:", f'    alpha = pm.Normal("alpha", {location}, {width})']
            if slope is not None:
                lines.append(f'    beta = pm.Normal("beta", 0, {slope})')
            lines += [f"    sigma = {noise}", "    " + response.format(mean=location_of_mean)]
            programs.append(GrammarProgram("\n".join(lines) + "\n", f"{mean}/{likelihood}"))
    return programs


def scores(cache: Path, num_workers: int, limit: int | None = None) -> list[float]:
    """Evidence of each program by the real engine, in nats; arguments and errors as of `whole_scores`."""
    return [float(score.evidence or 0.0) for score in whole_scores(cache, num_workers, limit)]


def whole_scores(cache: Path, num_workers: int, limit: int | None = None) -> list[Score]:
    """Score of each program by the real engine; what the cache has is not computed again.

    Args:
        cache: JSON file, source to score; written as it grows.
        num_workers: Of the scorer.
        limit: Score the first so many programs only.

    Raises:
        RuntimeError: If a program has no score.
    """
    known: dict[str, dict[str, object]] = json.loads(cache.read_text()) if cache.exists() else {}
    programs = grammar()[:limit]
    missing = [program for program in programs if program.source not in known]
    if missing:
        task = get_task(TASK)
        with ProgramScorer(num_workers) as scorer:
            futures = [scorer.submit(program.source, task) for program in missing]
            for number, (program, future) in enumerate(
                zip(missing, track(futures, "scoring the grammar"), strict=True)
            ):
                known[program.source] = future.result().to_dict()
                if number % 50 == 49 or number + 1 == len(missing):
                    cache.write_text(json.dumps(known), encoding="utf-8")
    found = [Score.from_dict(known[program.source]) for program in programs]  # type: ignore[arg-type]
    for program, score in zip(programs, found, strict=True):
        if score.evidence is None:
            raise RuntimeError(f"no score ({score.failure}: {score.message}) for\n{program.source}")
    return found
