"""How far scores are from the truth, how much they vary over seeds, and whether their standard errors say so.

Log evidence is compared with closed forms and quadrature (`accuracy_quadrature.py`) on thirteen programs:
conjugate regression, Beta-Binomial, Gamma-Poisson, one-way hierarchies with and without an effect, a
hierarchical regression, a bimodal mixture, and the four real data sets (dugongs, peregrines, eight schools
centred and not, surgical in two forms). Elpd is compared with long NUTS runs on the real data sets
(`accuracy_long_runs.json`, written by `accuracy_long_runs.py`) and with exact leave-one-out by quadrature on
the others. Every program is scored with several seeds.

    python benchmarks/scoring_accuracy.py --json scoring_accuracy.json

takes about five minutes; `--seeds 3` for a short run, `--only NAME ...` for some programs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table
from scoring_parts.accuracy_cases import CASES, Case

from synthstats_lightning.programs import canonicalise, parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.tasks import Task

LONG_RUNS = Path(__file__).parent / "scoring_parts" / "accuracy_long_runs.json"
LARGE = 10
"""Programs of so many parameters may vary more."""
TARGETS = {
    "median_error": "at most 0.1",
    "worst_error": "at most 0.3",
    "sd_worst": "at most 0.1",
    "sd_worst_large": "at most 0.25",
    "coverage": "0.85 to 1",
}


def measure(name: str, case: Case, seeds: int, sandbox: Sandbox, long_runs: dict[str, Any]) -> dict[str, Any]:
    """Scores one program with every seed and compares."""
    task = Task(name, "A data set.", case.data, case.response)
    graph = canonicalise(parse_graph(sandbox.build(case.source, task.schema, task.covariates), task.schema))
    settings = EngineSettings()
    scores = []
    for seed in range(seeds):
        target = build_density(graph, task.covariates, task.data[task.response])
        scores.append(score_target(target, seed, settings=settings, deadline=Deadline(settings.time_limit)))
    log_evidence, others = case.exact()
    exact_elpd = float((log_evidence - others).sum())
    evidence = [score.evidence for score in scores]
    elpd = [score.elpd for score in scores]
    covered = [abs(score.evidence - log_evidence) <= 2 * score.evidence_se for score in scores]
    return {
        "program": name,
        "parameters": scores[0].num_parameters,
        "estimators": sorted({score.estimator for score in scores}),
        "seconds": statistics.median(score.seconds for score in scores),
        "evidence_exact": log_evidence,
        "evidence": statistics.fmean(evidence),
        "evidence_error": max(abs(value - log_evidence) for value in evidence),
        "evidence_errors": [value - log_evidence for value in evidence],
        "evidence_sd": statistics.stdev(evidence),
        "evidence_se": statistics.median(score.evidence_se for score in scores),
        "covered": statistics.fmean(covered),
        "elpd_exact": exact_elpd,
        "elpd_reference": long_runs[name]["elpd"] if case.real else exact_elpd,
        "elpd": statistics.fmean(elpd),
        "elpd_errors": [value - (long_runs[name]["elpd"] if case.real else exact_elpd) for value in elpd],
        "elpd_sd": statistics.stdev(elpd),
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The headline figures: errors over every program, seed and score."""
    errors = [abs(error) for row in rows for key in ("evidence_errors", "elpd_errors") for error in row[key]]
    small = [row["evidence_sd"] for row in rows if row["parameters"] < LARGE]
    large = [row["evidence_sd"] for row in rows if row["parameters"] >= LARGE]
    return {
        "median_error": statistics.median(errors),
        "worst_error": max(errors),
        "sd_worst": max(small, default=0.0),
        "sd_worst_large": max(large, default=0.0),
        "coverage": statistics.fmean(row["covered"] for row in rows),
    }


def show(rows: list[dict[str, Any]], figures: dict[str, float]) -> None:
    """Prints the table and the figures."""
    table = Table(title="Scores against closed forms, quadrature and long NUTS runs (nats)")
    for heading in (
        "program",
        "parameters",
        "estimator",
        "s",
        "log evidence",
        "worst error",
        "sd",
        "reported se",
        "within 2 se",
        "elpd",
        "worst error",
        "sd",
    ):
        table.add_column(
            heading, justify="left" if heading in ("program", "estimator") else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(
            row["program"],
            str(row["parameters"]),
            "+".join(row["estimators"]),
            f"{row['seconds']:.2f}",
            f"{row['evidence_exact']:.3f}",
            f"{row['evidence_error']:.3f}",
            f"{row['evidence_sd']:.3f}",
            f"{row['evidence_se']:.3f}",
            f"{row['covered']:.0%}",
            f"{row['elpd_reference']:.2f}",
            f"{max(map(abs, row['elpd_errors'])):.3f}",
            f"{row['elpd_sd']:.3f}",
        )
    console = Console(width=170)
    console.print(table)
    for key, value in figures.items():
        console.print(f"{key}: {value:.3g} (target: {TARGETS[key]})")


def main() -> None:
    """Runs the benchmark."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of every program, at least 2")
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), help="programs to score")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds must be at least 2, got {options.seeds}")
    torch.set_num_threads(1)
    long_runs = json.loads(LONG_RUNS.read_text(encoding="utf-8"))
    rows = []
    with Sandbox() as sandbox:
        for name in options.only or CASES:
            rows.append(measure(name, CASES[name], options.seeds, sandbox, long_runs))
            row = rows[-1]
            print(
                f"{name}: evidence off by at most {row['evidence_error']:.3f}, sd {row['evidence_sd']:.3f}"
                f" (se {row['evidence_se']:.3f}), elpd sd {row['elpd_sd']:.3f}, {row['seconds']:.2f} s",
                flush=True,
            )
    figures = summarise(rows)
    show(rows, figures)
    if options.json is not None:
        options.json.write_text(json.dumps({**figures, "programs": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
