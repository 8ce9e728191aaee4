"""The wide grammar in figures: how often each class is drawn, scores, and makes data that are accepted.

    python benchmarks/language_models/grammar.py --json grammar.json
    python benchmarks/language_models/grammar.py --scored 0  # frequencies, acceptance, speed

JSON: `{programs, simple, tries_per_second, requests_per_second, accepted, scored, failures, forms,
families}`, where `forms` and `families` map each class to `{share, accepted, tried, scored, scored_share}`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.pretraining.wide import draw_covariates, draw_program, draw_request, simulate
from synthstats_lightning.pretraining.wide.frequencies import frequencies
from synthstats_lightning.pretraining.wide.program import Program
from synthstats_lightning.pretraining.wide.simulation import Simulated

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

PROGRAMS_PER_REQUEST = 8


def drawn(rng: Random, tries: int) -> tuple[list[tuple[Program, Simulated | None]], float, int]:
    """Programs with what one try of each made, the seconds that took, and the number of requests.

    Args:
        rng: Source of all randomness.
        tries: How many programs are tried.
    """
    found: list[tuple[Program, Simulated | None]] = []
    start, requests = time.process_time(), 0
    while len(found) < tries:
        request = draw_request(rng)
        covariates = draw_covariates(rng, request)
        requests += 1
        for _ in range(PROGRAMS_PER_REQUEST):
            program = draw_program(rng, request)
            found.append((program, simulate(rng, request, program, covariates)))
    return found, time.process_time() - start, requests


def chosen(found: list[tuple[Program, Simulated | None]], count: int) -> list[tuple[Program, Simulated]]:
    """Programs to score, those of rare classes first, so that every class has its share of them.

    Args:
        found: What was drawn.
        count: How many are wanted.
    """
    seen: Counter[str] = Counter()
    ranked = []
    for program, made in found:
        if made is None:
            continue
        place = min(seen[program.form], seen[program.family])
        seen.update((program.form, program.family))
        ranked.append((place, len(ranked), program, made))
    return [(program, made) for _, _, program, made in sorted(ranked, key=lambda each: each[:2])[:count]]


def score(programs: list[tuple[Program, Simulated]], workers: int | None) -> list[str]:
    """Of each program an empty text if it scores, else why it does not.

    Args:
        programs: Programs with the data that they made.
        workers: Sandbox workers.
    """
    with ProgramScorer(workers) as scorer:
        futures = []
        for program, made in programs:
            try:
                futures.append(scorer.submit(program.source, made.task()))
            except ValueError:
                futures.append(None)
        answers = []
        for future in futures:
            if future is None:
                answers.append("no task")
                continue
            result = future.result()
            answers.append("" if result.failure is None else f"{result.failure}: {result.message}")
        return answers


def measure(seed: int, tries: int, scored: int, workers: int | None) -> dict[str, Any]:
    """All figures.

    Args:
        seed: Of all draws.
        tries: Programs that are tried.
        scored: Programs that are scored.
        workers: Sandbox workers.
    """
    shares = frequencies(Random(seed), tries)
    found, seconds, requests = drawn(Random(seed + 1), tries)
    picked = chosen(found, scored)
    answers = score(picked, workers) if picked else []
    figures: dict[str, Any] = {
        "programs": tries,
        "simple": shares.simple / shares.programs,
        "tries_per_second": len(found) / seconds,
        "requests_per_second": requests / seconds,
        "accepted": sum(made is not None for _, made in found) / len(found),
        "scored": sum(not answer for answer in answers) / max(len(answers), 1),
        "failures": Counter(answer.partition(":")[0] for answer in answers if answer),
    }
    for part, counts in (("forms", shares.forms), ("families", shares.families)):
        key = part.removesuffix("s") if part == "forms" else "family"
        rows = {}
        for name in counts:
            tried = [made for program, made in found if getattr(program, key) == name]
            asked = [
                answer
                for (program, _), answer in zip(picked, answers, strict=True)
                if getattr(program, key) == name
            ]
            rows[name] = {
                "share": counts[name] / shares.programs,
                "tried": len(tried),
                "accepted": sum(made is not None for made in tried) / max(len(tried), 1),
                "scored": len(asked),
                "scored_share": sum(not answer for answer in asked) / len(asked) if asked else None,
            }
        figures[part] = rows
    return figures


def show(figures: dict[str, Any], console: Console) -> None:
    """Prints the tables.

    Args:
        figures: What `measure` returned.
        console: Where they are printed.
    """
    for part in ("forms", "families"):
        table = Table(part, "share", "accepted", "tried", "scores", "of", box=None)
        for name, row in sorted(figures[part].items(), key=lambda each: -each[1]["share"]):
            scores = "" if row["scored_share"] is None else f"{100 * row['scored_share']:.0f} %"
            table.add_row(
                name,
                f"{100 * row['share']:.1f} %",
                f"{100 * row['accepted']:.0f} %",
                str(row["tried"]),
                scores,
                str(row["scored"]),
            )
        console.print(table)
    console.print(
        f"{figures['programs']} programs, {100 * figures['simple']:.0f} % simple,"
        f" {100 * figures['accepted']:.0f} % accepted, {figures['tries_per_second']:.0f} tries a second;"
        f" {100 * figures['scored']:.1f} % of those asked score; failures {dict(figures['failures'])}"
    )


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=4000, help="programs that are drawn and tried once")
    parser.add_argument("--scored", type=int, default=300, help="accepted programs that are scored")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=figures_file, default=None)
    options = parser.parse_args()
    figures = measure(options.seed, options.tries, options.scored, options.workers)
    show(figures, Console())
    if options.json is not None:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
