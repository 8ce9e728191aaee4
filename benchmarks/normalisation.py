"""Whether any density claims more than it has: every distribution, composite and transform, and programs.

Fixed cases: each distribution, as a response and as a latent with its transform, at parameters drawn
log-uniformly over many spans and at corners; continuous ones are integrated over every decade, discrete ones
summed, vectors weighed against exact draws and by importance sampling. Search: hill climbs that maximise the
log of that mass. A total counts as far as it is certain, and what is refused claims nothing.

Programs: constants and families of 30 honest ones are mutated by hill climbing on their evidence above what
it may be: 0 for counts, and what the exact log joint density (40 digits, from definitions) at the likeliest
particle leaves of it for all.

Usage: `python benchmarks/normalisation.py --json normalisation.json --hours 1` (and about ten minutes for
10,000 programs on one core).
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from normalisation_parts.laws import Family, families
from normalisation_parts.programs import HONEST
from normalisation_parts.search import Climb, Worst, fixed_cases, pairs, search_family, search_program
from rich.console import Console
from rich.markup import escape
from rich.table import Table

LIMIT = 1e-6
"""By which a total may exceed 1."""
SHOWN = 40
"""Rows of the table, those of most mass."""
CONSOLE = Console(width=150)


def total(worst: list[Worst]) -> float:
    """The largest mass of some cases; infinite where it is more than a double holds."""
    log_mass = max((found.total.log_mass for found in worst), default=-math.inf)
    return math.exp(log_mass) if log_mass < 700.0 else math.inf


def show(title: str, worst: list[Worst]) -> None:
    """Prints the distributions of most mass."""
    table = Table(title=title)
    for column in ("distribution", "as", "total", "how", "cases", "refused", "parameters"):
        table.add_column(column)
    for found in sorted(worst, key=lambda each: -each.total.log_mass)[:SHOWN]:
        inputs = ", ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in _inputs(found))
        excess = found.total.log_mass
        text = f"1 {math.expm1(excess):+.1e}" if excess < 1.0 else f"exp({excess:.3g})"
        row = (
            escape(found.family.name),
            found.role,
            text,
            found.total.outcome,
            str(found.cases),
            str(found.refused),
        )
        table.add_row(*row, escape(inputs[:60]))
    CONSOLE.print(table)


def _inputs(found: Worst) -> list[Any]:
    return found.family.inputs(found.point) if found.point or not found.family.coordinates() else []


def show_programs(climbs: list[Climb]) -> None:
    """Prints what gained."""
    table = Table(title="Programs that gain")
    for column in ("of", "gain", "evidence", "program"):
        table.add_column(column)
    for climb in climbs:
        for model, outcome in climb.gains:
            row = (str(climb.program), f"{outcome.gain:.4g}", f"{outcome.evidence:.6g}")
            table.add_row(*row, json.dumps(model))
    CONSOLE.print(table)


def main() -> int:
    """Runs the benchmark; 0 if no total exceeds 1 and no program gains."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument(
        "--hours", type=float, default=1.0, help="processor time of the search of distributions"
    )
    parser.add_argument(
        "--cases", type=int, default=20, help="random parameters of each, and as many corners"
    )
    parser.add_argument("--programs", type=int, default=10_000, help="mutants to score")
    parser.add_argument("--only", nargs="+", help="names of distributions")
    parser.add_argument("--seed", type=int, default=0, help="seed of all choices")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = list(families())
    unknown = set(arguments.only or ()) - {family.name for family in known}
    if unknown:
        parser.error(f"no such distributions: {', '.join(sorted(unknown))}")
    wanted: list[Family] = [f for f in known if arguments.only is None or f.name in arguments.only]
    places = pairs(wanted)
    fixed = [fixed_cases(family, role, arguments.cases, arguments.seed) for family, role in places]
    show("Fixed cases", fixed)
    started = time.process_time()
    seconds = 3600.0 * arguments.hours / len(places)
    searched = [search_family(family, role, seconds, arguments.seed + 1) for family, role in places]
    hours = (time.process_time() - started) / 3600.0
    show("Search", searched)
    share = -(-arguments.programs // len(HONEST))
    climbs = [search_program(number, share, arguments.seed) for number in range(len(HONEST)) if share]
    show_programs(climbs)
    figures = {
        "cases": sum(found.cases for found in fixed),
        "worst_total": total(fixed),
        "search_hours": round(hours, 4),
        "worst_search_total": total(searched),
        "programs_searched": sum(climb.searched for climb in climbs),
        "programs_scored": sum(climb.scored for climb in climbs),
        "programs_with_gain": sum(len(climb.gains) for climb in climbs),
    }
    worst = max(figures["worst_total"], figures["worst_search_total"])
    good = worst <= 1.0 + LIMIT and figures["programs_with_gain"] == 0
    print(f"{figures} (no total above 1 + {LIMIT:g}, no gain: {'met' if good else 'missed'})")
    if arguments.json:
        # JSON has no infinity
        finite = {name: value if math.isfinite(value) else 1e308 for name, value in figures.items()}
        arguments.json.write_text(json.dumps(finite, indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
