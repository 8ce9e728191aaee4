"""Data sets as users have them: what `explore` makes of each in a few minutes.

    python benchmarks/own_data.py --folder FOLDER --json own_data.json

The folder holds CSV files and an `index.json`: by data set `response`, `description` and `kind` of the
response. Each is explored by the command line as a user would, with nothing but its name, response and
sentence. JSON: by data set `understood` (whether the response's kind is what the index says), `minutes` (of
the whole command), `scored_share` (of sampled programs), `log_z_gap` (nats, learned minus importance
sampling), `effective_sample_size` (of the shares), `forms`, `best_elpd` (nats), `default_elpd` (of a
regression on all columns, by the package's engine), `stacked_elpd` (of the stacked set),
`heldout_set_minus_best` (nats: log score of the weighted set minus the best single program's on rows held
out, mean of `--splits` splits) with `heldout_se` (nats, its standard error over splits),
`coverage_90` (of the set's 90 % intervals on these rows) and `warnings`; `error` where the command failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

from own_data_parts.heldout import SPLITS, held_out
from own_data_parts.leave_one_out import leave_one_out
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, ProgramScorer, RunPosterior, load_posterior
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.run_warnings import read_warnings
from synthstats_lightning.tasks.default_regression import default_regression


def explore(
    name: str, entry: dict[str, Any], folder: Path, output: Path, options: argparse.Namespace
) -> tuple[Path, float]:
    """Explores one data set in a process of its own; its run folder, and the minutes that it took.

    Raises:
        subprocess.CalledProcessError: If the command fails.
        FileNotFoundError: If it leaves no run.
    """
    command = [sys.executable, "-m", "synthstats_lightning", "explore", str(folder / f"{name}.csv")]
    command += ["--response", entry["response"], "--description", entry["description"]]
    command += ["--minutes", str(options.minutes), "--output", str(output)]
    if options.policy is not None:
        command += ["--policy", options.policy]
    started = time.perf_counter()
    subprocess.run(command, check=True)
    taken = (time.perf_counter() - started) / 60.0
    runs = sorted(output.glob("*/version_*"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise FileNotFoundError(f"explore left no run in {output}")
    return runs[-1], taken


def scores(posterior: RunPosterior, task: CSVTask, scorer: ProgramScorer) -> dict[str, float | None]:
    """Leave-one-out scores of the best program, the default regression and the stacked set."""
    found = leave_one_out(posterior, scorer)
    regression = default_regression(task)
    default = None if regression is None else scorer.score(regression, task)
    if default is not None and not default.scored:
        print(f"{task.name}: the default regression has no score ({default.failure}: {default.message})")
    return {
        "best_elpd": found.best,
        "default_elpd": None if default is None else default.elpd,
        "stacked_elpd": found.stacked,
    }


def figures(run: Path, task: CSVTask, scorer: ProgramScorer, splits: int) -> dict[str, Any]:
    """Every figure that a run's folder gives."""
    report = json.loads((run / "report.json").read_text())[task.name]
    records = list(read_records(run))
    posterior = load_posterior(run)
    if not isinstance(posterior, RunPosterior):
        raise TypeError(f"{run} holds several tasks")
    sampled = sum(record.count for record in records)
    # explore may have programs see the response in other units
    seen = posterior.task if isinstance(posterior.task, CSVTask) else task
    predicted = held_out(posterior, seen, scorer, splits)
    return {
        "scored_share": sum(record.count for record in records if record.score.scored) / sampled,
        "log_z_gap": report.get("log_z_gap"),
        "effective_sample_size": posterior.estimate.effective_sample_size,
        "forms": len(posterior.forms),
        **scores(posterior, task, scorer),
        "heldout_set_minus_best": None if predicted is None else predicted.set_minus_best,
        "heldout_se": None if predicted is None else predicted.standard_error,
        "coverage_90": None if predicted is None else predicted.coverage,
        "warnings": [str(warning) for warning in read_warnings(run) if warning.over is None],
    }


def measure(name: str, entry: dict[str, Any], output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Explores a data set and reads its figures; `error` where that is not possible."""
    try:
        task = CSVTask(options.folder / f"{name}.csv", entry["response"], entry["description"])
        kind = task.columns[task.response].kind
        run, taken = explore(name, entry, options.folder, output / name, options)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        return {"understood": False, "error": str(error)}
    row = {"understood": kind == entry["kind"], "minutes": taken}
    with ProgramScorer() as scorer:
        try:
            return row | figures(run, task, scorer, options.splits)
        except (ValueError, OSError) as error:
            return row | {"error": str(error)}


def table(document: dict[str, dict[str, Any]]) -> Table:
    """A row a data set."""
    shown = Table(title="Own data")
    columns = list(dict.fromkeys(key for row in document.values() for key in row))
    for heading in ("data", *columns):
        shown.add_column(heading)
    for name, row in document.items():
        shown.add_row(name, *(_cell(row.get(column)) for column in columns))
    return shown


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return str(len(value))
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def main() -> None:
    """Explores, prints and writes after every data set."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument(
        "--folder", type=Path, default=Path("../shared/own_data"), help="CSV files and index.json"
    )
    parser.add_argument("--minutes", type=float, default=4.0, help="for each data set")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of the rows, for held-out predictions")
    parser.add_argument("--policy", help="of explore; by default its own choice")
    parser.add_argument("--only", nargs="+", help="names of data sets")
    parser.add_argument("--output", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    path = options.folder / "index.json"
    if not path.is_file():
        parser.error(f"argument --folder: there is no {path}")
    index = json.loads(path.read_text())
    if options.splits < 1:
        parser.error(f"--splits must be at least 1, got {options.splits}")
    unknown = set(options.only or ()) - set(index)
    if unknown:
        parser.error(f"--only must be of {', '.join(index)}; got {', '.join(sorted(unknown))}")
    document: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        output = options.output or Path(temporary)
        for name in options.only or index:
            document[name] = measure(name, index[name], output, options)
            print(f"{name}: {json.dumps(document[name])}", flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(document, indent=2) + "\n")
    Console(width=200).print(table(document))


if __name__ == "__main__":
    main()
