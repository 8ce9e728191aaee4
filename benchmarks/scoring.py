"""Seconds and accuracy of scoring a never-seen program, against PyMC's own samplers in the same run.

Ten programs of different structure on the dugongs data. Ours is everything from source to score: sandboxed
build, validation of the model graph, evidence and leave-one-out. PyMC's default route is `pm.sample` of 2
chains of 1000 draws after 200 of tuning, then `az.loo`; nutpie gets the same draws. Both start in a process
that has imported everything, with empty compilation caches ("cold": the program was never seen). Everything
runs on one core.

Accuracy: elpd against long runs (4 chains of 5000 draws; rows of Pareto k above 0.7 refitted), and the
standard deviation of our evidence over seeds.

Throughput: a thousand programs of twenty structures (`scoring_structures.py`), from source to score, with one
worker and with two, against nutpie in one warm process that keeps the compiled function of every model text.
nutpie scores a random sample of the distinct texts; a repeated text is charged its sampling alone.

Usage: `python benchmarks/scoring.py --json scoring.json` (about fifteen minutes; `--short` for a third of it,
`--batch 100` for fewer programs in the second part, 0 for none).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table
from scoring_parts.scoring_programs import PROGRAMS, WARM_UP
from scoring_parts.scoring_structures import programs as many_programs

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs import canonicalise, parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_graph, score_target
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.tasks import Task, get_task

COLD = {"draws": 1000, "tune": 200, "chains": 2}
LONG = {"draws": 5000, "tune": 2000, "chains": 4, "target_accept": 0.95, "refit": True}
SHORT_LONG = {**LONG, "draws": 2500, "tune": 1000, "chains": 2}


def score_source(sandbox: Sandbox, source: str, task: Task) -> tuple[Score, float]:
    """A program's score and the seconds from source to score."""
    start = time.perf_counter()
    graph = parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema)
    score = score_graph(graph, task.covariates, task.data[task.response])
    return score, time.perf_counter() - start


def evidence_sd(sandbox: Sandbox, source: str, task: Task, seeds: int) -> float:
    """Standard deviation of a program's log evidence over seeds, in nats."""
    graph = canonicalise(parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema))
    target = build_density(graph, task.covariates, task.data[task.response])
    settings = EngineSettings()
    scores = [score_target(target, seed, settings=settings, deadline=Deadline(60.0)) for seed in range(seeds)]
    return statistics.stdev(score.evidence for score in scores if score.evidence is not None)


def reference(sampler: str, source: str, task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """A program's result from PyMC or nutpie, in a new process with empty caches."""
    return in_new_process("scoring_reference", {"sampler": sampler, "source": source, **options}, task)


def in_new_process(name: str, job: dict[str, Any], task: Task) -> dict[str, Any]:
    """What a script of `scoring_parts` answers to a job, with empty compilation caches."""
    job = {**job, "columns": {name: values.tolist() for name, values in task.data.items()}}
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor",
            "NUMBA_CACHE_DIR": f"{cache}/numba",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", f"scoring_parts.{name}"],
            cwd=Path(__file__).parent,
            input=json.dumps(job),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(names: list[str], task: Task, long: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    """One row of figures for each program."""
    rows = []
    with Sandbox() as sandbox:
        score_source(sandbox, WARM_UP, task)
        for name in names:
            source = PROGRAMS[name]
            score, seconds = score_source(sandbox, source, task)
            if not score.scored:
                raise RuntimeError(f"{name} did not score: {score.failure}: {score.message}")
            pymc, nutpie = (reference(sampler, source, task, COLD) for sampler in ("pymc", "nutpie"))
            truth = reference("nutpie", source, task, long)
            rows.append(
                {
                    "program": name,
                    "seconds": seconds,
                    "pymc_seconds": pymc["seconds"],
                    "nutpie_seconds": nutpie["seconds"],
                    "estimator": score.estimator,
                    "evidence": score.evidence,
                    "evidence_se": score.evidence_se,
                    "evidence_sd": evidence_sd(sandbox, source, task, seeds),
                    "elpd": score.elpd,
                    "elpd_se": score.elpd_se,
                    "elpd_long": truth["elpd"],
                    "elpd_error": abs(score.elpd - truth["elpd"]) if score.elpd is not None else None,
                    "long_r_hat": truth["r_hat"],
                    "long_refitted": truth["refitted"],
                }
            )
            others = f"pymc {pymc['seconds']:.1f} s, nutpie {nutpie['seconds']:.1f} s"
            print(f"{name}: ours {seconds:.3f} s, {others}", flush=True)
    return rows


def seconds_per_program(sources: list[str], task: Task, workers: int) -> float:
    """Wall-clock seconds of one program when so many workers score all of them."""
    with ProgramScorer(workers) as scorer:
        scorer.start()
        # two programs for each worker, so that none starts cold
        for future in [scorer.submit(f"{WARM_UP}\n# {index}", task) for index in range(2 * workers)]:
            future.result()
        start = time.perf_counter()
        scores = [future.result() for future in [scorer.submit(source, task) for source in sources]]
        seconds = time.perf_counter() - start
    failed = [score for score in scores if not score.scored]
    if failed:
        raise RuntimeError(f"{len(failed)} programs did not score: {failed[0].failure}: {failed[0].message}")
    return seconds / len(sources)


def measure_throughput(count: int, sample: int, task: Task) -> dict[str, float]:
    """Seconds of one of many programs of twenty structures, ours with one and two workers and nutpie's."""
    sources = [source for _, source in many_programs(count)]
    distinct = sorted(set(sources))
    alone = seconds_per_program(sources, task, 1)
    print(f"ours: {alone:.4f} s per program with one worker", flush=True)
    together = seconds_per_program(sources, task, 2)
    print(f"ours: {together:.4f} s per program with two workers", flush=True)
    chosen = random.Random(1).sample(distinct, min(sample, len(distinct)))
    found = in_new_process("scoring_reused", {"sources": [WARM_UP, *chosen], **COLD}, task)
    compiling, rest = statistics.fmean(found["compile"]), statistics.fmean(found["rest"])
    nutpie = rest + compiling * len(distinct) / len(sources)
    print(
        f"nutpie: {nutpie:.2f} s per program, {compiling:.2f} s of compiling each distinct text", flush=True
    )
    return {
        "batch_programs": len(sources),
        "batch_distinct": len(distinct),
        "batch_seconds_per_program": alone,
        "nutpie_reused_seconds_per_program": nutpie,
        "vs_nutpie_reused": nutpie / alone,
        "two_worker_speedup": alone / together,
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The headline figures."""
    total = {key: sum(row[key] for row in rows) for key in ("seconds", "pymc_seconds", "nutpie_seconds")}
    return {
        "seconds_per_program": total["seconds"] / len(rows),
        "vs_pymc_cold": total["pymc_seconds"] / total["seconds"],
        "vs_nutpie_cold": total["nutpie_seconds"] / total["seconds"],
        "elpd_worst_error": max(row["elpd_error"] for row in rows),
        "evidence_sd_worst": max(row["evidence_sd"] for row in rows),
    }


def show(rows: list[dict[str, Any]], figures: dict[str, float]) -> None:
    """Prints the table and the figures."""
    table = Table(title="Scoring a never-seen program, one core")
    headings = (
        "program",
        "ours s",
        "PyMC s",
        "nutpie s",
        "log evidence",
        "sd over seeds",
        "elpd",
        "long run",
    )
    for heading in (*headings, "error"):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    for row in rows:
        table.add_row(
            row["program"],
            f"{row['seconds']:.3f}",
            f"{row['pymc_seconds']:.1f}",
            f"{row['nutpie_seconds']:.1f}",
            f"{row['evidence']:.2f}",
            f"{row['evidence_sd']:.3f}",
            f"{row['elpd']:.2f} ± {row['elpd_se']:.2f}",
            f"{row['elpd_long']:.2f}",
            f"{row['elpd_error']:.2f}",
        )
    console = Console(width=120)
    if rows:
        console.print(table)
    for key, value in figures.items():
        console.print(f"{key}: {value:.4g}")


def main() -> None:
    """Runs the benchmark."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--short", action="store_true", help="shorter long runs and fewer seeds")
    parser.add_argument("--batch", type=int, default=1000, help="programs of twenty structures; 0 for none")
    parser.add_argument("--sample", type=int, default=20, help="how many of them nutpie scores")
    parser.add_argument("--programs", nargs="*", choices=sorted(PROGRAMS), default=list(PROGRAMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    long, seeds = (SHORT_LONG, 5) if options.short else (LONG, 20)
    task = get_task("dugongs")
    rows = measure(options.programs, task, long, seeds) if options.programs else []
    figures = summarise(rows) if rows else {}
    if options.batch > 0:
        figures |= measure_throughput(options.batch, options.sample, task)
    show(rows, figures)
    if options.json is not None:
        options.json.write_text(json.dumps({**figures, "programs": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
