"""Models whose latents are integrated out, against quadrature of the exact conditional integral.

    python benchmarks/marginals/marginals.py --json marginals.json --samplers

Ridge regressions, hierarchies, a random walk and a Gaussian process with normal responses, whose latents have
a closed form given scales and lengths; groups, plates, patients, tanks and pupils with counts, shares and
censored times, whose effects are one-dimensional integrals given the others; a Poisson count whose rate
walks, summed over a grid of levels. The references (`grids.py`, `stress_parts/reference.py`) are NumPy and
SciPy, use nothing of the engine, and tell their own error. One item-response model has no reference: its
scores have a spread only.

JSON: a list `models` of `name, dimension, evidence_error, elpd_error` (nats; of the score as it is),
`reference_error` (a bound, seldom near), `sd` (over seeds, of `evidence` and `elpd`, and how many seeds
`failed`), `seconds` (processor time of both with leave-one-out, nothing held out),
`nutpie_seconds` (compiling, 4 chains and leave-one-out without refits; null where it was not run) and
`integrated`; and the largest of each error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1]))

import normal_models
import other_models
import torch
from figures_file import Options, figures_file
from rich.console import Console
from rich.table import Table
from scoring import COLD, reference

from synthstats_lightning.programs import ModelGraph, parse_graph
from synthstats_lightning.programs.canonical import canonical_model
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_graph, score_target
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.marginals.integration import integrate
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.tasks import Task

CASES = {**normal_models.CASES, **other_models.CASES}
SAMPLED = ("ridge_20x30", "rats", "dyes", "local_level", "reedfrogs", "seeds", "epil", "irt_1pl")
"""Models that nutpie samples, too."""
SETTINGS = EngineSettings(last_score="elpd")
LARGEST = {"evidence_error": 0.1, "elpd_error": 0.2, "evidence_sd": 0.03, "elpd_sd": 0.1, "failed_sd": 0}
"""Nats that the figures are to stay below; where latents are integrated exactly, half of the first."""


def task_of(name: str) -> Task:
    """The task that a model is of."""
    return Task(name, "A data set.", CASES[name].data, CASES[name].response)


def spread(graph: ModelGraph, task: Task, seeds: int) -> dict[str, float] | None:
    """Standard deviations of scores over seeds, and how many had none; `None` for fewer than two scores."""
    if seeds < 2:
        return None
    density = build_density(canonical_model(graph).graph, task.covariates, task.data[task.response])
    target = integrate(density)
    evidence: list[float] = []
    elpd: list[float] = []
    for seed in range(seeds):
        try:
            found = score_target(target, seed, settings=SETTINGS, deadline=Deadline(SETTINGS.time_limit))
        except ProgramFailure as failure:
            print(f"seed {seed}: {failure}", file=sys.stderr, flush=True)
            continue
        evidence += [] if found.evidence is None else [found.evidence]
        elpd += [] if found.elpd is None else [found.elpd]
    if min(len(evidence), len(elpd)) < 2:
        return None
    return {
        "evidence": statistics.stdev(evidence),
        "elpd": statistics.stdev(elpd),
        "failed": seeds - len(elpd),
    }


def measure(sandbox: Sandbox, name: str, seeds: int, samplers: bool) -> dict[str, Any]:
    """Figures of one model."""
    case, task = CASES[name], task_of(name)
    graph = parse_graph(sandbox.build(case.source, task.schema, task.covariates), task.schema)
    start = time.process_time()
    score = score_graph(graph, task.covariates, task.data[task.response], settings=SETTINGS)
    seconds = time.process_time() - start
    exact = case.reference()
    found: dict[str, Any] = {"name": name, "seconds": seconds, "reference_error": exact.error}
    if not score.scored or score.evidence is None or score.elpd is None:
        return {**found, "message": score.message}
    nutpie = None
    if samplers and name in SAMPLED:
        nutpie = reference("nutpie", case.source, task, COLD)["seconds"]
    return {
        **found,
        "dimension": score.num_parameters,
        "integrated": None if score.integrated is None else score.integrated.method,
        "evidence_error": score.evidence - exact.evidence,
        "elpd_error": score.elpd - exact.elpd,
        "sd": spread(graph, task, seeds),
        "nutpie_seconds": nutpie,
    }


def is_good(found: dict[str, Any]) -> bool:
    """Whether a model's figures are as they should be; what is not known counts as good."""
    if "evidence_error" not in found:
        return False
    exact = 0.5 if found["integrated"] == "exact" else 1.0
    errors = {
        "evidence_error": abs(found["evidence_error"]) / exact,
        "elpd_error": abs(found["elpd_error"]),
        **{f"{score}_sd": value for score, value in (found["sd"] or {}).items()},
    }
    return not any(value > LARGEST[name] for name, value in errors.items())


def cells(found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "evidence_error" not in found:
        return [found["name"], "", found["message"], "", "", f"{found['seconds']:.2f}", ""]
    sd, nutpie = found["sd"], found["nutpie_seconds"]
    return [
        found["name"],
        str(found["dimension"]),
        f"{found['evidence_error']:+.3f}",
        f"{found['elpd_error']:+.3f}",
        "" if sd is None else f"{sd['evidence']:.3f}, {sd['elpd']:.3f}",
        f"{found['seconds']:.2f}",
        "" if nutpie is None else f"{nutpie:.1f}",
    ]


def worst(models: list[dict[str, Any]], name: str) -> float | None:
    """The largest error of a kind among those that are known."""
    values = [abs(each[name]) for each in models if math.isfinite(each.get(name, math.nan))]
    return max(values, default=None)


def known(value: Any) -> Any:
    """Figures without numbers that JSON has no word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def main() -> int:
    """Runs the benchmark; 0 if every model is as near its reference as it should be."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), help="names of models")
    parser.add_argument("--seeds", type=int, default=20, help="scores of each model for its spread")
    parser.add_argument("--samplers", action="store_true", help="also time nutpie on eight of them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("model", "parameters", "evidence error", "elpd error", "sd", "seconds", "nutpie s")
    models = []
    with Sandbox() as sandbox:
        for name in arguments.only or CASES:
            models.append(measure(sandbox, name, arguments.seeds, arguments.samplers))
            table.add_row(*cells(models[-1]))
            print(name, file=sys.stderr, flush=True)
    Console(width=120).print(table)
    figures = {
        "worst_evidence_error": worst(models, "evidence_error"),
        "worst_elpd_error": worst(models, "elpd_error"),
        "models": [{key: known(value) for key, value in each.items()} for each in models],
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    good = [is_good(each) for each in models]
    print(f"{sum(good)} of {len(good)} models are as accurate as they should be")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
