"""Ways of searching for programs, compared at equal budgets of scored programs.

    python benchmarks/searchers.py --json searchers.json --folder cells
    python benchmarks/searchers.py --folder cells --tasks dugongs --budgets 250 --seeds 0

Every cell (method, task, budget, seed) is a run of its own and leaves `METHOD-TASK-BUDGET-SEED.json` in the
folder; cells that are there are not run again. JSON: `cells` (of the whole grid, `done` of them), and `by
method and budget`, means over cells: `effective_sample_size` (draws of known probability, none of evolution),
`log_z_error` (nats, from the task's log Z, none where a method estimates none), `mass_found` (share of the
task's Z that the run's programs sum to), `best_elpd` (nats), `held_out` (nats, log score of the weighted set
on rows held out of tables, mean of five splits, less the best program's), `seconds`, and
`ess_ratio_to_sampling` (to sample-and-weight at the same budget).

A task's Z is the mean of the estimates of all its runs, each of which is unbiased, or the largest sum over
programs that a run has found, if that is larger.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures_file import figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from own_data_parts.heldout import held_out
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, RunPosterior, load_posterior
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.searchers.methods import budget_overlay, named_method

METHODS = (
    "sample_and_weight",
    "model_smc",
    "evolution",
    "best_of_n",
    "grpo",
    "trajectory_balance",
    "relative_trajectory_balance",
)
REAL = ("dugongs", "eight_schools", "surgical", "peregrines")
OWN = ("nile", "statecrime", "spector", "cpunish")
SIMULATED = ("dugongs_simulator", "death_process", "hyperbolic_discounting", "survival")
BUDGETS = (250, 1000, 4000)
SEEDS = (0, 1, 2)
FIGURES = ("effective_sample_size", "log_z_error", "mass_found", "best_elpd", "held_out", "seconds")


class Cell(NamedTuple):
    """One run of the grid.

    Attributes:
        method: Name of the method.
        task: Name of the task.
        budget: Distinct programs that are scored.
        seed: Seed of the run.
    """

    method: str
    task: str
    budget: int
    seed: int

    @property
    def name(self) -> str:
        """The cell's file, without its ending."""
        return "-".join(str(part) for part in self)


def overlays(cell: Cell, own_data: Path) -> tuple[list[Any], int | None]:
    """Configurations of a cell's run, over the quickstart's, and training steps."""
    method = named_method(cell.method)
    limited, steps = budget_overlay(method, cell.budget)
    if cell.task in OWN:
        entry = json.loads((own_data / "index.json").read_text())[cell.task]
        given = {name: entry[name] for name in ("response", "description")}
        path = str((own_data / f"{cell.task}.csv").resolve())
        task: Any = [{"class_path": "CSVTask", "init_args": {"path": path, "screen": 3, **given}}]
        data: Any = {"data": {"init_args": {"tasks": task}}}
    else:
        data = f"tasks/{cell.task}"
    return [method.overlay, limited, data, {"seed_everything": cell.seed}], steps


def run_cell(cell: Cell, own_data: Path, folder: Path) -> dict[str, Any]:
    """Runs a cell in a process of its own and reads its figures; `error` where it failed."""
    configs, steps = overlays(cell, own_data)
    command = [sys.executable, "-m", "synthstats_lightning", named_method(cell.method).command]
    for config in ("quickstart", *configs):
        command += ["--config", config if isinstance(config, str) else json.dumps(config)]
    command += ["--trainer.logger.init_args.save_dir", str(folder), "--trainer.logger.init_args.name", "run"]
    command += ["--trainer.enable_progress_bar", "false"]
    command += [] if steps is None else ["--steps", str(steps)]
    started = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    runs = sorted(folder.glob("run/version_*"))
    if done.returncode or not runs:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return {"error": lines[-1] if lines else f"exit status {done.returncode}", "seconds": seconds}
    return {**figures(runs[-1]), "seconds": seconds}


def figures(run: Path) -> dict[str, Any]:
    """What a run's folder says; log Z and sums are absolute, of prior times evidence, in nats."""
    try:
        posterior = load_posterior(run)
    except ValueError as error:  # none of its programs has an evidence
        return {"error": str(error)}
    if not isinstance(posterior, RunPosterior):
        raise TypeError(f"{run} holds several tasks")
    compared = posterior.with_elpd()
    elpd = [form.elpd for form in compared.forms if form.elpd is not None]
    estimate = posterior.estimate
    task, predicted = posterior.task, None
    if isinstance(task, CSVTask):
        with RunSettings(run).scorer() as scorer:
            predicted = held_out(posterior, task, scorer)
    return {
        "effective_sample_size": _known(estimate.effective_sample_size),
        "log_z": _known(estimate.log_z),
        "log_z_found": float(np.logaddexp.reduce([each.log_weight for each in posterior.programs])),
        "programs": len(posterior.programs),
        "forms": len(posterior.forms),
        "best_elpd": max(elpd, default=None),
        "held_out": None if predicted is None else predicted.set_minus_best,
    }


def summary(cells: dict[Cell, dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Means over tasks and seeds, by method and budget."""
    best = {task: _log_z(cells, task) for task in {cell.task for cell in cells}}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for method, budget in dict.fromkeys((cell.method, cell.budget) for cell in cells):
        own = {cell: row for cell, row in cells.items() if (cell.method, cell.budget) == (method, budget)}
        rows = []
        for cell, row in own.items():
            if "error" not in row:
                log_z = row["log_z"]
                error = None if log_z is None else abs(log_z - best[cell.task])
                mass = float(np.exp(row["log_z_found"] - best[cell.task]))
                rows.append({**row, "log_z_error": error, "mass_found": mass})
        means = {name: _mean([row[name] for row in rows]) for name in FIGURES}
        counts = {"runs": len(rows), "failed": len(own) - len(rows)}
        found.setdefault(method, {})[str(budget)] = {**means, **counts}
    sampling = found.get("sample_and_weight", {})
    for budgets in found.values():
        for budget, row in budgets.items():
            usual = sampling.get(budget, {}).get("effective_sample_size")
            if usual and row["effective_sample_size"] is not None:
                row["ess_ratio_to_sampling"] = row["effective_sample_size"] / usual
    return found


def _log_z(cells: dict[Cell, dict[str, Any]], task: str) -> float:
    """What is known of a task's log Z from all its runs."""
    rows = [row for cell, row in cells.items() if cell.task == task and "error" not in row]
    estimates = [row["log_z"] for row in rows if row["log_z"] is not None]
    mean = np.logaddexp.reduce(estimates) - np.log(len(estimates)) if estimates else -np.inf
    return float(max([mean, *(row["log_z_found"] for row in rows)]))


def document(cells: dict[Cell, dict[str, Any]]) -> dict[str, Any]:
    """The figures, and how much of the whole grid they are of."""
    whole = len(METHODS) * len(REAL + OWN + SIMULATED) * len(BUDGETS) * len(SEEDS)
    tasks = sorted({cell.task for cell in cells})
    return {"cells": whole, "done": len(cells), "tasks": tasks, "by_method_and_budget": summary(cells)}


def table(found: dict[str, Any]) -> Table:
    """A row a method and budget."""
    shown = Table(title=f"Searchers at equal budgets: {found['done']} of {found['cells']} cells of the grid")
    for heading in ("method", "programs", *FIGURES, "ess_ratio_to_sampling", "runs", "failed"):
        shown.add_column(heading)
    for method, budgets in found["by_method_and_budget"].items():
        for budget, row in budgets.items():
            names = (*FIGURES, "ess_ratio_to_sampling", "runs", "failed")
            shown.add_row(method, budget, *(_cell(row.get(name)) for name in names))
    return shown


def draw(found: dict[str, Any], path: Path) -> None:
    """The mass found and the effective sample size by budget, a line a method."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, name in zip(axes, ("mass_found", "effective_sample_size"), strict=True):
        for method, budgets in found["by_method_and_budget"].items():
            points = [(int(budget), row[name]) for budget, row in budgets.items() if row[name] is not None]
            if points:
                axis.plot(*zip(*sorted(points), strict=True), marker="o", label=method)
        axis.set(xscale="log", xlabel="scored programs", ylabel=name.replace("_", " "))
    axes[0].legend(fontsize="small")
    figure.suptitle(f"{found['done']} of {found['cells']} cells")
    figure.savefig(path)
    pyplot.close(figure)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Runs cells, prints and writes after every one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, default=Path("searchers_cells"), help="a file for each cell")
    parser.add_argument("--picture", type=Path, help="draw the figures into this file")
    parser.add_argument(
        "--own_data", type=Path, default=Path("../shared/own_data"), help="CSV files and index.json"
    )
    tasks = REAL + OWN + SIMULATED
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--budgets", nargs="+", type=int, choices=BUDGETS, default=BUDGETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--cells", type=int, help="new cells at most; 0 only reads those that are there")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = itertools.product(options.methods, options.tasks, options.budgets, options.seeds)
    cells: dict[Cell, dict[str, Any]] = {}
    new = 0
    for cell in map(Cell._make, wanted):
        path = options.folder / f"{cell.name}.json"
        if not path.is_file():
            if options.cells is not None and new >= options.cells:
                continue
            new += 1
            with tempfile.TemporaryDirectory() as folder:
                row = run_cell(cell, options.own_data, Path(folder))
            path.write_text(json.dumps(row, indent=2) + "\n")
            print(f"{cell.name}: {json.dumps(row)}", flush=True)
        cells[cell] = json.loads(path.read_text())
        if options.json is not None:
            options.json.write_text(json.dumps(document(cells), indent=2) + "\n")
    found = document(cells)
    if options.picture is not None:
        draw(found, options.picture)
    Console(width=220).print(table(found))


if __name__ == "__main__":
    main()
