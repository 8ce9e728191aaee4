"""How many of 40 PyMC programs, as textbooks and language models write them, get a score.

The programs lie in `real_programs/`, in the three accepted forms and from 2 to more than 40 parameters:
hierarchies, generalised linear models, mixtures, zero inflation, change points, time series, Gaussian
processes, splines, growth curves, ordinal responses. Each file's first line names its data set and response,
and the spacing of its values where a program needs it;
`real_programs/data/make.py` wrote the simulated data sets. A program that gets no score is explained if its
failure is `unsupported` with a message of one line.

Usage: `python benchmarks/scoring_real.py --json scoring_real.json` (about two minutes; `--only NAME ...` for
some programs).
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from synthstats_lightning.programs import ProgramFailure, parse_graph
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

FOLDER = Path(__file__).parent / "real_programs"
PROGRAMS = {
    path.stem: path for kind in ("notebooks", "textbook") for path in sorted((FOLDER / kind).glob("*.py"))
}
HEADER = re.compile(r'"""Data: (\w+)\. Response: (\w+)(?:, recorded to ([\d.]+))?\."""')
WANTED = 38
"""Programs that must score."""


class Result(NamedTuple):
    """What became of one program."""

    name: str
    score: Score
    seconds: float

    @property
    def explained(self) -> bool:
        """Whether it has a score or a reason in one line."""
        score = self.score
        reason = score.failure is FailureCategory.UNSUPPORTED and score.message and "\n" not in score.message
        return score.scored or bool(reason)


def read_task(data: str, response: str, rounding: str | None) -> Task:
    """A task from a CSV beside the programs: columns of whole numbers are integers."""
    table = np.genfromtxt(FOLDER / "data" / f"{data}.csv", delimiter=",", names=True, dtype=None)
    columns = {name: table[name] for name in table.dtype.names}
    recorded = None if rounding is None else float(rounding)
    return Task(data, f"The {data} data.", columns, response, rounding=recorded)


def read_program(path: Path) -> tuple[str, Task]:
    """A program's source and its task."""
    source = path.read_text()
    found = HEADER.match(source)
    if found is None:
        raise ValueError(f"{path.name} does not start with its data set and response")
    return source, read_task(*found.groups())


def run(sandbox: Sandbox, path: Path) -> Result:
    """One program from source to score."""
    source, task = read_program(path)
    start = time.perf_counter()
    try:
        graph = parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema)
        score = score_graph(graph, task.covariates, task.data[task.response], rounding=task.rounding)
    except ProgramFailure as failure:
        score = Score.failed(failure.category, failure.message)
    return Result(path.stem, score, time.perf_counter() - start)


def show(results: list[Result]) -> None:
    """A table of every program."""
    table = Table(title="Real programs")
    for column in ("program", "status", "parameters", "evidence", "elpd", "estimator", "seconds"):
        table.add_column(column)
    for name, score, seconds in results:
        if score.scored:
            cells = [
                str(score.num_parameters),
                f"{score.evidence:.2f} ± {score.evidence_se:.2f}",
                f"{score.elpd:.2f} ± {score.elpd_se:.2f}",
                str(score.estimator),
            ]
        else:
            cells = ["", score.message, "", ""]
        table.add_row(name, str(score.failure or "scored"), *cells, f"{seconds:.2f}")
    Console(width=150).print(table)


def main() -> int:
    """Runs the benchmark; 0 if enough programs score and the others say why."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--only", nargs="+", help="names of programs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    paths = [PROGRAMS[name] for name in sorted(PROGRAMS)]
    if arguments.only:
        unknown = set(arguments.only) - {path.stem for path in paths}
        if unknown:
            parser.error(f"no such programs: {', '.join(sorted(unknown))}")
        paths = [path for path in paths if path.stem in arguments.only]
    with Sandbox() as sandbox:
        results = [run(sandbox, path) for path in paths]
    show(results)
    figures = {
        "programs": len(results),
        "scored": sum(result.score.scored for result in results),
        "unexplained": sum(not result.explained for result in results),
    }
    enough = figures["scored"] >= min(WANTED, len(results)) and figures["unexplained"] == 0
    print(f"{figures} (at least {WANTED} scored, 0 unexplained: {'met' if enough else 'missed'})")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
