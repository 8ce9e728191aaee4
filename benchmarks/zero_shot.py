"""What a policy writes before any training: blind, and with a digest of the data.

    python benchmarks/zero_shot.py --policy FOLDER --json zero_shot.json
    python benchmarks/zero_shot.py --policy FOLDER --only dugongs nile --programs 200
    python benchmarks/zero_shot.py --policy FOLDER --simulated_only

Data sets: the four bundled ones, those of `--folder` (CSV files and an `index.json`, as of `own_data.py`),
and an instance of each simulator. Each gets `--programs` independent programs of the proposal's prompt and as
many of the prior's, all at temperature 1, weighed by prior times evidence over the probability of being
written.
JSON, by data set: `scored_share`, `ess` and `ess_blind` (effective sample size in programs), their `ratio`,
`log_z` of the proposal's programs and its difference from that of the prior's, each with its standard error
(nats), `best_evidence`, `best_elpd` and, of a regression on all columns, `default_elpd` (nats), of the
regressions that runs begin with `regressions_elpd` (of the one of most evidence),
`baseline_evidence`, `failures` by category and the `best` program. Of all: `median_ess`,
`median_scored_share`, `worst_scored_share`, `median_ratio`, `environments_below_baseline` (simulated
instances whose best program has less evidence than the intercept alone). Of the policy on its own grammar:
`form_prior_total_variation`, `calibration_worst_z`, `simulated_gain_nats`, `wrong_columns`; see
`language_models/zero_shot_parts/simulated.py`. With `--information N`, what N simulated data sets say of the
program that made them, `simulated_information_nats`, of which the gain is the part that the policy has, and
whether features of programs are calibrated before and after weighting, `calibration_plain_worst_z` and
`calibration_weighted_worst_z`; see `language_models/zero_shot_parts/information.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from language_models.zero_shot_parts.information import information
from language_models.zero_shot_parts.simulated import calibration, frequencies, gain
from language_models.zero_shot_parts.weighted import figures, weighted, written
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, ProgramScorer
from synthstats_lightning.policy import Policy, load_policy
from synthstats_lightning.pretraining.wide.regressions import regressions
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task, baseline_program
from synthstats_lightning.tasks.default_regression import default_regression
from synthstats_lightning.tasks.registry import BUNDLED_TASKS, get_task
from synthstats_lightning.tasks.response_transform import transform_into_reach
from synthstats_lightning.tasks.simulators import SIMULATORS

COMPARED = 3
"""Programs of the largest weight whose elpd is computed."""
SHOWN = (
    "scored_share",
    "ess",
    "ess_blind",
    "log_z",
    "log_z_difference",
    "best_evidence",
    "best_elpd",
    "default_elpd",
    "regressions_elpd",
    "seconds",
)


def data_sets(folder: Path | None) -> dict[str, Any]:
    """Name to what makes the task.

    Args:
        folder: CSV files and `index.json`; `None` leaves them out.
    """
    found: dict[str, Any] = {name: name for name in BUNDLED_TASKS}
    if folder is not None:
        for name, entry in json.loads((folder / "index.json").read_text()).items():
            found[name] = folder / f"{name}.csv", entry["response"], entry["description"]
    return found | {name: name for name in SIMULATORS}


def measure(policy: Policy, task: Task, programs: int, tokens: int, time_limit: float) -> dict[str, Any]:
    """All figures of one data set.

    Args:
        policy: Who writes.
        task: The data set.
        programs: Of each prompt.
        tokens: Most tokens of a program.
        time_limit: Processor seconds of a score.
    """
    started = time.perf_counter()
    settings = EngineSettings(last_score="evidence", time_limit=time_limit)
    with ProgramScorer(settings=settings) as scorer:
        found = weighted(written(policy, task, programs, "digest", tokens), task, scorer)
        seconds = time.perf_counter() - started
        blind = weighted(written(policy, task, programs, "nothing", tokens, seed=1), task, scorer)
        baseline = scorer.score(baseline_program(task), task)
        begun = regressions(task)
        evidences = [future.result().evidence for future in [scorer.submit(each, task) for each in begun]]
    with ProgramScorer() as scorer:
        best = found.best(COMPARED)
        scores = [future.result() for future in [scorer.submit(source, task) for source in best]]
        regression = default_regression(task)
        default = None if regression is None else scorer.score(regression, task)
        known = [(value, each) for value, each in zip(evidences, begun, strict=True) if value is not None]
        first = scorer.score(max(known)[1], task) if known else None
    return {
        **figures(found, blind),
        "baseline_evidence": baseline.evidence,
        "best_elpd": max((score.elpd for score in scores if score.elpd is not None), default=None),
        "default_elpd": None if default is None else default.elpd,
        "regressions_elpd": None if first is None else first.elpd,
        "seconds": seconds,
        "best": best[0] if best else None,
    }


def _own(path: Path, response: str, description: str) -> CSVTask:
    """A user's data as `explore` has them, in units that the policy can write."""
    task = CSVTask(path, response, description)
    values = task.data[response_name := task.response]
    measured = task.columns[response_name].kind == "continuous"
    into = transform_into_reach(float(values.min()), float(values.max())) if measured else None
    return task if into is None else CSVTask(path, response, description, response_transform=into)


def together(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Medians over data sets.

    Args:
        rows: Figures of each.
    """
    good = [row for row in rows.values() if "error" not in row]
    if not good:
        return {}
    simulated = [row for name, row in rows.items() if name in SIMULATORS and "error" not in row]
    below = [
        row for row in simulated if (row["best_evidence"] or -np.inf) < (row["baseline_evidence"] or 0.0)
    ]
    return {
        "median_ess": float(np.median([row["ess"] for row in good])),
        "median_scored_share": float(np.median([row["scored_share"] for row in good])),
        "worst_scored_share": min(row["scored_share"] for row in good),
        "median_ratio": float(np.median([row["ratio"] for row in good])),
        "environments_below_baseline": len(below),
    }


def _above(value: float | None, other: float | None) -> bool:
    return value is not None and (other is None or value >= other)


def table(rows: dict[str, dict[str, Any]]) -> Table:
    """A row a data set."""
    shown = Table(title="Programs before any training")
    for heading in ("data", *SHOWN):
        shown.add_column(heading)
    for name, row in rows.items():
        shown.add_row(name, *(_cell(row.get(key)) for key in SHOWN))
    return shown


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measures, prints and writes after every data set."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", required=True, help="a policy that points at columns and reads digests")
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="CSV files and index.json, beside what is bundled")
    parser.add_argument("--only", nargs="+", help="names of data sets")
    parser.add_argument("--programs", type=int, default=1000, help="of each prompt")
    parser.add_argument("--tokens", type=int, default=256, help="most tokens of a program")
    parser.add_argument("--time_limit", type=float, default=10.0, help="processor seconds of a score")
    parser.add_argument("--pairs", type=int, default=1000, help="simulated pairs; 0 for none")
    parser.add_argument(
        "--requests", type=int, default=8000, help="of the grammar, whose classes of programs are counted"
    )
    parser.add_argument(
        "--information",
        type=int,
        default=0,
        help="data sets whose log Z is estimated, `--each` programs each",
    )
    parser.add_argument("--each", type=int, default=150, help="programs of a data set of `--information`")
    parser.add_argument("--simulated_only", action="store_true", help="only the policy's own grammar")
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(options.policy, lora=None)
    made = {} if options.simulated_only else data_sets(options.folder)
    if unknown := set(options.only or ()) - set(made):
        parser.error(f"--only must be of {', '.join(made)}; got {', '.join(sorted(unknown))}")
    document: dict[str, Any] = {"policy": options.policy, "programs": options.programs, "data_sets": {}}

    def write() -> None:
        if options.json is not None:
            options.json.write_text(json.dumps(document, indent=2) + "\n")

    if options.pairs:
        document |= gain(policy, options.pairs)
        document |= frequencies(policy, options.requests, options.tokens)
        document |= calibration(policy, options.pairs, options.tokens)
        print(json.dumps(document), flush=True)
        write()
    if options.information:
        document |= information(policy, options.information, options.each, options.tokens, options.time_limit)
        print(json.dumps(document), flush=True)
        write()
    for name in options.only or made:
        given = made[name]
        task = get_task(given) if isinstance(given, str) else _own(*given)
        try:
            row = measure(policy, task, options.programs, options.tokens, options.time_limit)
        except ValueError as error:
            row = {"error": str(error)}
        document["data_sets"][name] = row
        document |= together(document["data_sets"])
        print(f"{name}: {json.dumps(row)}", flush=True)
        write()
    Console(width=200).print(table(document["data_sets"]))


if __name__ == "__main__":
    main()
