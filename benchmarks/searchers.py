"""Ways of searching for programs, compared at equal budgets of scored programs.

    python benchmarks/searchers.py --json searchers.json --folder cells
    python benchmarks/searchers.py --folder cells --tasks dugongs --budgets 250 --seeds 0

Every cell (method, task, budget, seed) is a run of its own and leaves `METHOD-TASK-BUDGET-SEED.json` in the
folder; cells that are there, or in the file of figures, are not run again. All use the bundled policy
`tiny` unless told `--policy writer`. JSON: `cells` (of the whole grid,
`done` of them), `runs` (what each cell found, by its name), and `by_method_and_budget`, means over the tasks
and seeds on which every method has run with this budget: `effective_sample_size` (draws of known probability,
none of evolution), `log_z_error` (nats, from the task's log Z, none where a method estimates none),
`mass_found` (share of the task's Z that the run's programs sum to), `best_elpd` (nats), `held_out` (nats, log
score of the weighted set on rows held out of tables, mean of five splits, less the best program's),
`seconds`, and `ess_ratio_to_sampling` (to sample-and-weight at the same budget). The picture has the same
means over the tasks and seeds on which all have run with every budget.

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
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures_file import Options, figures_file

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
SMALL = "tiny"
BUDGETS = (250, 1000, 4000)
SEEDS = (0, 1, 2)
DRAWN = {
    "mass_found": "mass found",
    "effective_sample_size": "effective sample size",
    "log_z_error": "error of log Z, nats",
}
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

    @classmethod
    def of_name(cls, name: str) -> Cell:
        """The cell of a name."""
        method, task, budget, seed = name.split("-")
        return cls(method, task, int(budget), int(seed))


def overlays(cell: Cell, own_data: Path, policy: str) -> tuple[list[Any], int | None]:
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
    plain = {"seed_everything": cell.seed, "regressions": {"families": 0}}  # what the policy finds by itself
    return [f"policy/{policy}", method.overlay, limited, data, plain], steps


def run_cell(cell: Cell, own_data: Path, policy: str, folder: Path) -> dict[str, Any]:
    """Runs a cell in a process of its own and reads its figures; `error` where it failed."""
    configs, steps = overlays(cell, own_data, policy)
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


def comparable(cells: Collection[Cell], budgets: Collection[int]) -> set[tuple[str, int]]:
    """Tasks and seeds on which every method has run with each of the budgets."""
    methods = {cell.method for cell in cells}
    known = set(cells)
    return {
        (task, seed)
        for task, seed in {(cell.task, cell.seed) for cell in cells}
        if all(Cell(method, task, budget, seed) in known for method in methods for budget in budgets)
    }


def summary(
    cells: dict[Cell, dict[str, Any]], *, over_budgets: bool = False
) -> dict[str, dict[str, dict[str, Any]]]:
    """Means by method and budget, over tasks and seeds that all methods share.

    Args:
        cells: What each cell found.
        over_budgets: Whether to take only tasks and seeds that all budgets share, too.
    """
    best = {task: _log_z(cells, task) for task in {cell.task for cell in cells}}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    budgets = {cell.budget for cell in cells}
    shared = {each: comparable(cells, budgets if over_budgets else [each]) for each in budgets}
    kinds = {(cell.method, cell.budget) for cell in cells}
    for method, budget in sorted(kinds, key=lambda kind: (METHODS.index(kind[0]), kind[1])):
        own = {
            cell: row
            for cell, row in cells.items()
            if (cell.method, cell.budget) == (method, budget) and (cell.task, cell.seed) in shared[budget]
        }
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
    return {
        "cells": whole,
        "done": len(cells),
        "tasks": tasks,
        "by_method_and_budget": summary(cells),
        "runs": {cell.name: row for cell, row in sorted(cells.items())},
    }


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


def draw(cells: dict[Cell, dict[str, Any]], path: Path) -> None:
    """The mass found, the effective sample size and log Z's error by budget, a line a method."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    drawn, marks = summary(cells, over_budgets=True), dict(zip(METHODS, "osv^Dxd", strict=True))
    shared = comparable(cells, {cell.budget for cell in cells})
    for axis, (name, label) in zip(axes, DRAWN.items(), strict=True):
        for method, budgets in drawn.items():
            points = [(int(budget), row[name]) for budget, row in budgets.items() if row[name] is not None]
            if points:
                look = {"marker": marks[method], "color": f"C{METHODS.index(method)}", "label": method}
                axis.plot(*zip(*sorted(points), strict=True), **look)
        axis.set(xscale="log", xlabel="scored programs", ylabel=label)
        ticks = sorted({cell.budget for cell in cells})
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = max(
        (axis.get_legend_handles_labels() for axis in axes), key=lambda found: len(found[0])
    )
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("Means over " + ", ".join(sorted({task for task, _ in shared})), fontsize="medium")
    figure.savefig(path)
    pyplot.close(figure)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def known_cells(figures: Path | None, folder: Path) -> dict[Cell, dict[str, Any]]:
    """What earlier runs found, from the file of figures and the folder; of both, the folder's counts."""
    cells: dict[Cell, dict[str, Any]] = {}
    if figures is not None and figures.is_file():
        runs = json.loads(figures.read_text() or "{}").get("runs", {})
        cells |= {Cell.of_name(name): row for name, row in runs.items()}
    return cells | {Cell.of_name(path.stem): json.loads(path.read_text()) for path in folder.glob("*-*.json")}


def main() -> None:
    """Runs cells, prints and writes after every one."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    parser.add_argument(
        "--policy",
        choices=(SMALL, "writer"),
        default=SMALL,
        help="the bundled policy that all use; another one needs a --json and a --folder of its own",
    )
    parser.add_argument("--cells", type=int, help="new cells at most; 0 only reads those that are there")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = itertools.product(options.methods, options.tasks, options.budgets, options.seeds)
    cells, new = known_cells(options.json, options.folder), 0
    for cell in map(Cell._make, wanted):
        if cell not in cells:
            if options.cells is not None and new >= options.cells:
                continue
            new += 1
            with tempfile.TemporaryDirectory() as folder:
                row = run_cell(cell, options.own_data, options.policy, Path(folder))
            (options.folder / f"{cell.name}.json").write_text(json.dumps(row, indent=2) + "\n")
            print(f"{cell.name}: {json.dumps(row)}", flush=True)
            cells = known_cells(options.json, options.folder)
        if options.json is not None:
            options.json.write_text(json.dumps(document(cells), indent=2) + "\n")
    if options.picture is not None:
        draw(cells, options.picture)
    Console(width=220).print(table(document(cells)))


if __name__ == "__main__":
    main()
