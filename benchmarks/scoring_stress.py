"""Whether an accepted score is ever wrong: posteriors that estimators find hard, with exact answers.

Ridge regressions with as many coefficients as rows and more, collinear columns, hierarchies and funnels
written both ways, products and factor models, spikes and slabs, horseshoes, `2 ** G` sign modes, donuts,
labels that switch, narrow components, ties, heavy tails that disagree, near-separation, priors with mass
beyond double precision, effects of each row, local levels, Gaussian processes, change points. Evidence and
elpd (exact leave-one-out) are closed forms, Gaussian algebra and quadrature in NumPy and SciPy
(`stress_parts/`), which use nothing of the engine and tell their own error.

Every program is built in the sandbox and scored with default settings, its seed from its canonical form. A
score's z is its error over its own Monte-Carlo standard error, or over the reference's error and a thousandth
of a nat where that is larger (exact scores have a standard error of 0: they count in the worst z and not in
the root mean square).

Usage: `python benchmarks/scoring_stress.py --json scoring_stress.json --processes 2` (about ten minutes;
`--cases 'ridge*'` for some; `--references` checks the references alone).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import multiprocessing
import os
import sys
import time
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table
from stress_parts.cases import CASES

from synthstats_lightning.programs import ModelGraph, ProgramFailure, parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

FLOOR = 1e-3
"""Error in nats that a standard error of 0 is taken for, beside the reference's own."""
LARGE_ERROR = 0.5
"""Nats off beyond which a score is wrong."""
CONFIDENT = 0.15
"""Standard error in nats below which a wrong score is confidently wrong."""
ACCURATE = 1e-3
"""Largest error of a reference, in nats."""
TARGETS = {
    "cases": "at least 60",
    "accepted": "at least 90 % of the cases",
    "worst_error_nats": "at most 0.5",
    "worst_z_evidence": "at most 4",
    "rms_z_evidence": "0.7 to 1.5",
    "worst_z_elpd": "at most 4",
    "rms_z_elpd": "0.7 to 1.5",
    "confidently_wrong": "0",
}


def task_of(name: str) -> Task:
    """The task that a case's program is about."""
    case = CASES[name]
    return Task(name, "A data set.", case.data, case.response)


def build(names: list[str]) -> dict[str, ModelGraph | ProgramFailure]:
    """Builds programs in one sandbox."""
    graphs: dict[str, ModelGraph | ProgramFailure] = {}
    with Sandbox() as sandbox:
        for name in names:
            task = task_of(name)
            try:
                graphs[name] = parse_graph(
                    sandbox.build(CASES[name].source, task.schema, task.covariates), task.schema
                )
            except ProgramFailure as failure:
                graphs[name] = failure
    return graphs


def measure(job: tuple[str, ModelGraph | ProgramFailure]) -> dict[str, Any]:
    """Scores a case and compares."""
    name, graph = job
    torch.set_num_threads(1)
    reference = CASES[name].reference()
    task = task_of(name)
    started = time.process_time()
    if isinstance(graph, ProgramFailure):
        score = Score.failed(graph.category, graph.message)
    else:
        score = score_graph(graph, task.covariates, task.data[task.response])
    row: dict[str, Any] = {
        "case": name,
        "status": "scored" if score.scored else str(score.failure),
        "message": score.message,
        "seconds": time.process_time() - started,
        "exact": {"evidence": reference.evidence, "elpd": reference.elpd, "error": reference.error},
    }
    if score.scored:
        row |= {"parameters": score.num_parameters, "estimator": score.estimator}
        for key in ("evidence", "elpd"):
            row[key] = compared(
                getattr(score, key), score.diagnostics[key].mcse, getattr(reference, key), reference.error
            )
    return row


def compared(found: float, se: float, exact: float, error: float) -> dict[str, float]:
    """A value beside the exact one."""
    off = found - exact
    return {"value": found, "se": se, "error": off, "z": off / max(se, error + FLOOR)}


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The headline figures."""
    accepted = [row for row in rows if row["status"] == "scored"]
    both = [row[key] for row in accepted for key in ("evidence", "elpd")]
    figures: dict[str, float] = {
        "cases": len(rows),
        "accepted": len(accepted),
        "worst_error_nats": max((abs(each["error"]) for each in both), default=0.0),
    }
    for key in ("evidence", "elpd"):
        scores = [row[key] for row in accepted]
        squares = [each["z"] ** 2 for each in scores if each["se"] > 0]
        figures[f"worst_z_{key}"] = max((abs(each["z"]) for each in scores), default=0.0)
        figures[f"rms_z_{key}"] = math.sqrt(sum(squares) / len(squares)) if squares else 0.0
    figures["confidently_wrong"] = sum(
        any(
            abs(row[key]["error"]) > LARGE_ERROR and row[key]["se"] < CONFIDENT
            for key in ("evidence", "elpd")
        )
        for row in accepted
    )
    return figures


def show(rows: list[dict[str, Any]], figures: dict[str, float]) -> None:
    """Prints the table and the figures."""
    table = Table(title="Hard posteriors: scores against exact answers (nats)")
    for heading in (
        "case",
        "p",
        "estimator",
        "cpu s",
        "evidence",
        "error",
        "se",
        "z",
        "elpd",
        "error",
        "se",
        "z",
    ):
        table.add_column(
            heading, justify="left" if heading in ("case", "estimator") else "right", no_wrap=True
        )
    for row in rows:
        exact = row["exact"]
        if row["status"] != "scored":
            outcome = f"{row['status']}: {row['message']}"[:40]
            table.add_row(
                row["case"], "", outcome, f"{row['seconds']:.1f}", f"{exact['evidence']:.3f}", "", "", "",
                f"{exact['elpd']:.3f}",
            )  # fmt: skip
            continue
        cells = [row["case"], str(row["parameters"]), row["estimator"], f"{row['seconds']:.1f}"]
        for key in ("evidence", "elpd"):
            found = row[key]
            bad = abs(found["z"]) > 4 or abs(found["error"]) > LARGE_ERROR
            z = f"{found['z']:+.1f}"
            cells += [
                f"{exact[key]:.3f}",
                f"{found['error']:+.3f}",
                f"{found['se']:.3f}",
                f"[red]{z}" if bad else z,
            ]
        table.add_row(*cells)
    console = Console(width=170)
    console.print(table)
    for key, value in figures.items():
        console.print(f"{key}: {value:.3g} (target: {TARGETS[key]})")


def check_references(names: list[str]) -> int:
    """Prints every reference with its error; 1 if one is not accurate."""
    worst = 0.0
    for name in names:
        started = time.process_time()
        found = CASES[name].reference()
        worst = max(worst, found.error)
        seconds = time.process_time() - started
        mark = "" if found.error < ACCURATE else "  NOT ACCURATE"
        print(
            f"{name}: {found.evidence:.4f} {found.elpd:.4f} error {found.error:.1e} {seconds:.1f} s{mark}",
            flush=True,
        )
    return int(worst >= ACCURATE)


def run(names: list[str], processes: int) -> list[dict[str, Any]]:
    """Measures cases, each as soon as a process is free, and says what came of each."""
    jobs = list(build(names).items())
    if processes == 1:
        return [told(measure(job)) for job in jobs]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return [told(row) for row in pool.imap(measure, jobs)]


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The row, after printing it in a line."""
    words = row["message"]
    if row["status"] == "scored":
        each = (f"{key} {row[key]['error']:+.3f} ± {row[key]['se']:.3f}" for key in ("evidence", "elpd"))
        words = ", ".join(each)
    print(f"{row['case']} {row['seconds']:.1f} s: {row['status']} {words}", flush=True)
    return row


def main() -> int:
    """Runs the benchmark; 0 if it finished."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--cases", default="*", help="patterns of names as in a shell, with commas between")
    parser.add_argument("--processes", type=int, default=2, help="cases scored at a time")
    parser.add_argument("--references", action="store_true", help="compute and check the references only")
    options = parser.parse_args()
    patterns = options.cases.split(",")
    names = [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not names:
        parser.error(f"--cases must match some of {', '.join(CASES)}, got {options.cases}")
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    if options.references:
        return check_references(names)
    rows = run(names, options.processes)
    figures = summarise(rows)
    show(rows, figures)
    if options.json is not None:
        options.json.write_text(json.dumps({**figures, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
