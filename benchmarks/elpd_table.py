"""Leave-one-out scores on the real data sets: programs by hand, a run's programs, and the published ones.

    python benchmarks/elpd_table.py --json elpd.json
    python benchmarks/elpd_table.py --runs runs/quickstart/version_0 runs/quickstart/version_1

`elpd_programs/DATA/PROGRAM.py` are programs written by hand, `elpd_programs/published.json` their scores by
PSIS on long runs of NUTS, with the rows whose Pareto k was above 0.7: there PSIS is unreliable, the engine
refits exactly, and the two may differ by much. With `--runs`, folders of runs of `fit` or `explore` on these
tasks: the best program and the stacked set of each beside what others' systems are published with,
`elpd_programs/systems.json` (RefineStat and BoxLM write programs by language models, o3 is asked directly,
the expert's program is the literature's).

JSON: `programs: {data: {program: {elpd, elpd_se, mcse, pareto_k, published, high_pareto_k}}}`, and for each
data set of the runs `runs: {data: {best_elpd, best_elpd_se, stacked_elpd, hand_written, published: {system:
elpd}}}`, in nats; several runs of one data set are a row each, as `DATA`, `DATA 2`, and so on.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from figures_file import Options, figures_file
from own_data_parts.leave_one_out import leave_one_out
from rich.console import Console
from rich.table import Table

from synthstats_lightning import ProgramScorer, RunPosterior, get_task, load_posterior

PROGRAMS = Path(__file__).parent / "elpd_programs"
TOLERANCE = 0.3


def by_hand(scorer: ProgramScorer) -> dict[str, dict[str, dict[str, Any]]]:
    """Scores every program that is written by hand."""
    published = json.loads((PROGRAMS / "published.json").read_text())
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for data, programs in published.items():
        task = get_task(data)
        for program, row in programs.items():
            score = scorer.score((PROGRAMS / data / f"{program}.py").read_text(), task)
            if not score.scored:
                raise RuntimeError(f"{data}/{program}: {score.failure}: {score.message}")
            found.setdefault(data, {})[program] = {
                "elpd": score.elpd,
                "elpd_se": score.elpd_se,
                "mcse": score.diagnostics["elpd"].mcse,
                "pareto_k": score.pareto_k,
                "published": row["elpd"],
                "high_pareto_k": row["high_pareto_k"],
            }
    return found


def of_runs(
    posteriors: list[RunPosterior], programs: dict[str, dict[str, dict[str, Any]]], scorer: ProgramScorer
) -> dict[str, dict[str, Any]]:
    """Scores the best program and the stacked set of each run, beside those of others."""
    systems = json.loads((PROGRAMS / "systems.json").read_text())
    found: dict[str, dict[str, Any]] = {}
    for posterior in posteriors:
        data = posterior.task.name
        scores = leave_one_out(posterior, scorer)
        number = 1 + sum(name.split()[0] == data for name in found)
        found[data if number == 1 else f"{data} {number}"] = {
            "best_elpd": scores.best,
            "best_elpd_se": scores.best_se,
            "stacked_elpd": scores.stacked,
            "hand_written": max((row["elpd"] for row in programs.get(data, {}).values()), default=None),
            "published": systems.get(data, {}),
        }
    return found


def programs_table(document: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Scores beside the published ones; red where they differ and PSIS was reliable."""
    shown = Table(title=f"elpd, nats (target: within {TOLERANCE} where no Pareto k is high)")
    for heading in ("data", "program", "elpd", "published", "rows of high Pareto k"):
        shown.add_column(heading)
    for data, programs in document.items():
        for program, row in programs.items():
            off = row["high_pareto_k"] == 0 and abs(row["elpd"] - row["published"]) > TOLERANCE
            cells = (f"{row['elpd']:.1f}", f"{row['published']:.1f}", str(row["high_pareto_k"]))
            shown.add_row(data, program, *cells, style="red" if off else "")
    return shown


def runs_table(document: dict[str, dict[str, Any]]) -> Table:
    """A row a run: its scores, the best of those by hand, and each published system's."""
    shown = Table(title="elpd of runs, nats")
    systems = list(dict.fromkeys(system for row in document.values() for system in row["published"]))
    for heading in ("data", "best program", "stacked set", "best by hand", *systems):
        shown.add_column(heading)
    for data, row in document.items():
        cells = [row["best_elpd"], row["stacked_elpd"], row["hand_written"]]
        cells += [row["published"].get(system) for system in systems]
        shown.add_row(data, *("–" if cell is None else f"{cell:.2f}" for cell in cells))
    return shown


def opened(runs: list[Path]) -> list[RunPosterior]:
    """The posteriors of all tasks of the runs.

    Raises:
        ValueError: If a folder holds no run that has one and knows its task.
        OSError: If it cannot be read.
    """
    found: list[RunPosterior] = []
    for run in runs:
        posterior = load_posterior(run)
        found += posterior.values() if isinstance(posterior, dict) else [posterior]
        if found[-1].task is None:
            raise ValueError(f"{run}: its configuration does not give the data of {found[-1].task_name}")
    return found


def main() -> None:
    """Scores, prints and writes."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="folders of runs on these tasks")
    options = parser.parse_args()
    try:
        posteriors = opened(options.runs)
    except (ValueError, OSError) as error:
        parser.error(f"--runs: {error}")
    with ProgramScorer(1) as scorer:
        document: dict[str, Any] = {"programs": by_hand(scorer)}
        Console().print(programs_table(document["programs"]))
        if posteriors:
            document["runs"] = of_runs(posteriors, document["programs"], scorer)
            Console().print(runs_table(document["runs"]))
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
