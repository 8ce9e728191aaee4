"""How close training comes to a target that is known exactly.

Two targets, and a matrix. `tokens`: a language of 3,280 programs under two prompts with different Z and a
tabular policy, trained on its own samples. `programs`: a grammar of 702 real PyMC programs for the dugongs,
scored by the real engine, and the tiny language model. In both the policy's probability of every program is
computed, not sampled.

    python benchmarks/exact_target.py --json exact_target.json --scores exact_scores.json

Columns: total variation between policy and target (the worst prompt; mass outside the grammar counts as
wrong); |log Z − exact|; slope of log π against log R, each program weighted by its target probability mixed
with a uniform one; modes found, those within 3 nats of the best: a mode is found if the policy gives it at
least half of its target probability. GRPO and SFT are there to fail: they do not aim at the distribution.
`matrix`: total variation of every exact objective in every precision of Lightning, on a language of 13
programs; `worst_exact` is the largest of them. `forms`: shares by form that a run's records give, of training
and of fresh samples, against enumeration on the grammar.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, TypedDict

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from learning_parts.exact_forms import form_shares
from learning_parts.exact_matrix import precision_matrix, worst_exact
from learning_parts.exact_programs import train_on_grammar
from learning_parts.exact_tokens import train_on_tokens
from rich.console import Console
from rich.table import Table

TARGETS = {"tokens": (0.02, 0.05), "programs": (0.08, None)}
"""Total variation and log Z gap, at most."""
PARTS = ["tokens", "programs", "forms", "matrix"]
FORM_SHARE = 0.02
"""Error of a form's share, at most."""
SLOPE = (0.95, 1.05)
MUST_REACH = {"TB", "VarGrad", "SubTB", "RapTB"}


class Row(TypedDict):
    """Figures of one objective."""

    total_variation: float
    log_z_gap: float
    slope: float
    modes_found: int
    modes: int


def table(part: str, rows: dict[str, Row], seconds: dict[str, float]) -> Table:
    """The figures of one part."""
    most, gap = TARGETS[part]
    wanted = f"total variation ≤ {most}" + (f", log Z gap ≤ {gap}" if gap else ", slope in [0.95, 1.05]")
    made = Table(title=f"{part}: {wanted}, every mode")
    for name in ("objective", "total variation", "log Z gap", "slope", "modes", "reached", "seconds"):
        made.add_column(name, justify="left" if name == "objective" else "right")
    for objective, row in rows.items():
        made.add_row(
            objective,
            f"{row['total_variation']:.4f}",
            f"{row['log_z_gap']:.3f}",
            f"{row['slope']:.3f}",
            f"{row['modes_found']}/{row['modes']}",
            "yes" if reached(part, row) else "no",
            f"{seconds[objective]:.0f}",
        )
    return made


def matrix_table(matrix: dict[str, dict[str, float]]) -> Table:
    """Total variation by objective and precision."""
    made = Table(title="matrix: total variation ≤ 0.02 (bf16-true ≤ 0.05)")
    made.add_column("objective")
    for precision in matrix:
        made.add_column(precision, justify="right")
    for objective in next(iter(matrix.values())):
        made.add_row(objective, *(f"{column[objective]:.4f}" for column in matrix.values()))
    return made


def forms_table(rows: dict[str, dict[str, float]]) -> Table:
    """Errors of shares by form, by kind of sample."""
    made = Table(title=f"forms: worst error of a share ≤ {FORM_SHARE}")
    made.add_column("records")
    for name in next(iter(rows.values())):
        made.add_column(name.replace("_", " "), justify="right")
    for kind, row in rows.items():
        made.add_row(kind, *(f"{value:.4g}" for value in row.values()))
    return made


def write(path: Path | None, figures: dict[str, Any]) -> None:
    """Writes the figures, where asked to."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def reached(part: str, row: Row) -> bool:
    """Whether the figures meet the targets."""
    most, gap = TARGETS[part]
    near = row["total_variation"] <= most and row["modes_found"] == row["modes"]
    return near and (row["log_z_gap"] <= gap if gap else SLOPE[0] <= row["slope"] <= SLOPE[1])


def main() -> None:
    """Trains, measures, prints and writes."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--objectives", nargs="+", default=["TB", "VarGrad", "SubTB", "RapTB", "GRPO", "SFT"])
    parser.add_argument("--scores", type=Path, default=Path("exact_scores.json"), help="cache of scores")
    parser.add_argument("--workers", type=int, default=1, help="that score programs")
    parser.add_argument("--token-steps", type=int, default=3000)
    parser.add_argument("--matrix-steps", type=int, default=1200)
    parser.add_argument("--program-steps", type=int, default=500)
    parser.add_argument("--programs", type=int, help="only so many programs of the grammar (for a trial)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    console.width = max(console.width, 100)
    figures: dict[str, Any] = {part: {} for part in arguments.parts}
    if "matrix" in arguments.parts:
        figures["matrix"] = precision_matrix(arguments.matrix_steps)
        figures["worst_exact"] = worst_exact(figures["matrix"])
        console.print(matrix_table(figures["matrix"]))
        write(arguments.json, figures)
    if "forms" in arguments.parts:
        given = arguments.program_steps, arguments.seed, arguments.scores, arguments.workers
        figures["forms"] = form_shares(*given, arguments.programs)
        console.print(forms_table(figures["forms"]))
        write(arguments.json, figures)
    for part in [part for part in arguments.parts if part in TARGETS]:
        seconds = {}
        for objective in arguments.objectives:
            started = time.perf_counter()
            if part == "tokens":
                row = train_on_tokens(objective, arguments.token_steps, arguments.seed)
            else:
                row = train_on_grammar(
                    objective,
                    arguments.program_steps,
                    arguments.seed,
                    arguments.scores,
                    arguments.workers,
                    arguments.programs,
                )
            figures[part][objective] = row
            seconds[objective] = time.perf_counter() - started
            write(arguments.json, figures)
            console.print(f"{part} {objective}: {row}")
        console.print(table(part, figures[part], seconds))


if __name__ == "__main__":
    main()
