"""Programs as people write them: how many score, how soon, how near the truth, and what the others hear.

    python benchmarks/people.py --folder FOLDER --json people.json

The folder holds for each program `NAME.py` and its data `NAME.csv`, and an `index.json`: a list of `name`,
`response`, `task` (settings of `CSVTask`) and, where somebody computed them, `reference` (`evidence` and
`elpd` with `error`, their own uncertainty in nats). Each program goes the way of a user's: the file through
`CSVTask`, the program through a worker's sandbox and engine at the default limits.

JSON: `programs`, `scored`, `in_time` (those scored within ten seconds), `seconds_median` and `seconds_worst`
(of those with a score, from file to score in a running pool: processor time, which load does not add to),
`references` (scores that have one), `worst_error_nats`, `worst_z` (error over the joint standard error) and
`refused`, a list of `name` and `reason`; `table` has every program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning import CSVTask, ProgramScorer
from synthstats_lightning.scoring.score import Score

WANTED_SHARE, SECONDS = 0.8, 10.0
"""Share of the programs that are to score, each in so many seconds of one core."""
WORST_ERROR, WORST_Z = 0.3, 4.0


class Outcome(NamedTuple):
    """What became of one program."""

    name: str
    score: Score | None
    reason: str
    seconds: float
    reference: dict[str, float] | None

    @property
    def scored(self) -> bool:
        """Whether it has a score."""
        return self.score is not None and self.score.scored

    @property
    def errors(self) -> dict[str, tuple[float, float]]:
        """By score with a reference: the error in nats, and in joint standard errors."""
        if not self.scored or self.reference is None or self.score is None:
            return {}
        found = {}
        elpd = self.score.diagnostics.get("elpd")
        for name, value, error in (
            ("evidence", self.score.evidence, self.score.evidence_se),
            ("elpd", self.score.elpd, None if elpd is None else elpd.mcse),
        ):
            if name in self.reference and value is not None and error is not None:
                difference = value - self.reference[name]
                joint = math.hypot(error, self.reference.get("error", 0.0))
                found[name] = (difference, difference / joint if joint else math.inf)
        return found


def processor_seconds() -> float:
    """Processor time so far of this process, of those below it, and of those that these have outlived."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        spent[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    own = {os.getpid()}
    while grown := {process for process, parent in parents.items() if parent in own} - own:
        own |= grown
    return sum(spent[process] for process in own)


def run(scorer: ProgramScorer, entry: dict[str, Any], folder: Path) -> Outcome:
    """One program from file to score."""
    name, reference = entry["name"], entry.get("reference")
    start = processor_seconds()
    try:
        task = CSVTask(folder / f"{name}.csv", entry["response"], **entry.get("task", {}))
    except ValueError as error:
        return Outcome(name, None, f"data: {error}", processor_seconds() - start, reference)
    score = scorer.score((folder / f"{name}.py").read_text(), task)
    reason = "" if score.scored else f"{score.failure}: {score.message}"
    return Outcome(name, score, reason, processor_seconds() - start, reference)


def figures_of(outcomes: list[Outcome]) -> dict[str, Any]:
    """The figures of a run."""
    seconds = [outcome.seconds for outcome in outcomes if outcome.scored]
    errors = [pair for outcome in outcomes for pair in outcome.errors.values()]
    return {
        "programs": len(outcomes),
        "scored": len(seconds),
        "in_time": sum(each <= SECONDS for each in seconds),
        "seconds_median": statistics.median(seconds) if seconds else None,
        "seconds_worst": max(seconds, default=None),
        "references": len(errors),
        "worst_error_nats": max((abs(error) for error, _ in errors), default=None),
        "worst_z": max((abs(z) for _, z in errors), default=None),
        "refused": [
            {"name": outcome.name, "reason": outcome.reason} for outcome in outcomes if not outcome.scored
        ],
        "table": [record(outcome) for outcome in outcomes],
    }


def record(outcome: Outcome) -> dict[str, Any]:
    """One program as JSON."""
    found: dict[str, Any] = {"name": outcome.name, "seconds": outcome.seconds, "reason": outcome.reason}
    if outcome.score is not None and outcome.scored:
        score = outcome.score
        found |= {"parameters": score.num_parameters, "estimator": str(score.estimator)}
        found |= {"evidence": score.evidence, "evidence_se": score.evidence_se, "elpd": score.elpd}
        found |= {f"{name}_error": error for name, (error, _) in outcome.errors.items()}
        found |= {f"{name}_z": z for name, (_, z) in outcome.errors.items()}
    return found


def row(outcome: Outcome) -> list[str]:
    """One program as cells of the table."""
    seconds = f"{outcome.seconds:.2f}"
    if outcome.score is None or not outcome.scored:
        return [outcome.name, seconds, "", escape(outcome.reason), "", ""]
    score = outcome.score
    cells = [outcome.name, seconds, str(score.num_parameters)]
    elpd = "" if score.elpd is None else f", elpd {score.elpd:.2f}"
    cells.append(f"{score.evidence:.2f} ± {score.evidence_se:.2f}{elpd}")
    for name in ("evidence", "elpd"):
        pair = outcome.errors.get(name)
        cells.append("" if pair is None else f"{pair[0]:+.3f} (z {pair[1]:+.1f})")
    return cells


def parse() -> argparse.Namespace:
    """The command line."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--folder", type=Path, required=True, help="programs, data and index.json")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of programs")
    options = parser.parse_args()
    path = options.folder / "index.json"
    if not path.is_file():
        parser.error(f"argument --folder: there is no {path}")
    options.entries = json.loads(path.read_text())
    if options.only:
        unknown = sorted(set(options.only) - {entry["name"] for entry in options.entries})
        if unknown:
            parser.error(f"argument --only: no such programs: {', '.join(unknown)}")
        options.entries = [entry for entry in options.entries if entry["name"] in options.only]
    return options


def main() -> int:
    """Runs the benchmark; 0 if enough programs score in time, and scores are as near as they say."""
    options = parse()
    torch.set_num_threads(1)
    table = Table("program", "seconds", "parameters", "score, or reason", "error of evidence", "of elpd")
    table.columns[3].overflow = "fold"
    outcomes = []
    with ProgramScorer(1) as scorer:
        scorer.start()
        for entry in options.entries:
            outcomes.append(run(scorer, entry, options.folder))
            table.add_row(*row(outcomes[-1]))
            print(
                f"{len(outcomes)} of {len(options.entries)}: {outcomes[-1].name}", file=sys.stderr, flush=True
            )
            if options.json:
                options.json.write_text(json.dumps(figures_of(outcomes), indent=2) + "\n")
    Console(width=200).print(table)
    figures = figures_of(outcomes)
    share = figures["in_time"] / max(len(outcomes), 1)
    near = (figures["worst_error_nats"] or 0.0) <= WORST_ERROR and (figures["worst_z"] or 0.0) <= WORST_Z
    print({name: value for name, value in figures.items() if name not in ("refused", "table")})
    print(
        f"{share:.0%} score within {SECONDS:g} s (wanted: {WANTED_SHARE:.0%});"
        f" references {'met' if near else 'missed'}"
    )
    return 0 if share >= WANTED_SHARE and near else 1


if __name__ == "__main__":
    sys.exit(main())
