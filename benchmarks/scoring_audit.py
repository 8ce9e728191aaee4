"""Whether evidence can be cheated: total probability of honest programs, and what becomes of every hack.

Honest programs (GLMs, mixtures, truncated, censored and rounded responses, hierarchies, series):
exp(evidence), summed or integrated over all data sets of two or three rows, must be 1 within a 99.9 %
interval. Hacks: every case of group `likelihood_hack` in a corpus file, as it stands and with its embedded
data replaced by the task's own columns, on eight rows of a line; none may score above the honest line, unless
its own total probability over all data sets is 1 as well: it then knows the line's slope, and forges nothing.
Programs that write what a prompt showed them into their source are tried as well, on a task that shows four
rows.

Usage: `python benchmarks/scoring_audit.py --json scoring_audit.json --corpus programs.json` (about two
minutes and a half; `--only NAME ...` for some honest programs, `--skip-honest`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scoring_parts.audit_hacks import (
    COPIES,
    COUNTS,
    HONEST_COUNTS,
    HONEST_LINE,
    ON_COUNTS,
    OWN,
    X,
    Y,
    own_columns,
    read_cases,
)
from scoring_parts.audit_programs import COVARIATES, HONEST, SERIES, Honest

from synthstats_lightning.programs import DataSchema, ProgramFailure, parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.auditing.audit import Audit, audit_graph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score

SHOWN = 4
"""Rows that the prompt shows to programs which copy them."""
DATA_SETS = 1024
"""Data sets in the audit of a hack that scores above the honest line."""
CONSOLE = Console(width=150)


class Attempt(NamedTuple):
    """A hack in one form.

    Attributes:
        case: Its name.
        form: `"as written"`, `"own columns"`, `"counts"` or `"copies shown rows"`.
        score: What it got.
        honest: What the honest program gets on the same task.
        audit: Its own total probability, where it scores above the honest program and has no data of its own.
    """

    case: str
    form: str
    score: Score
    honest: Score
    audit: Audit | None = None

    @property
    def gain(self) -> float | None:
        """Evidence above the honest program's, in nats; `None` without a score."""
        if self.score.evidence is None or self.honest.evidence is None:
            return None
        return self.score.evidence - self.honest.evidence

    @property
    def above(self) -> bool:
        """Whether it scores above the honest program by more than Monte-Carlo error."""
        if self.gain is None:
            return False
        error = np.hypot(self.score.evidence_se or 0.0, self.honest.evidence_se or 0.0)
        return bool(self.gain > 3.0 * error + 1e-6)

    @property
    def gains(self) -> bool:
        """Whether it has a score that it does not deserve."""
        return self.above and (self.audit is None or self.audit.verdict != "honest")

    @property
    def outcome(self) -> str:
        """What happened in a few words."""
        if self.gain is None:
            return f"{self.score.failure}: {self.score.message}"
        if self.score.canonical == self.honest.canonical:
            return "is the honest program"
        if self.above and not self.gains and self.audit is not None:
            mass = f"total {self.audit.total_mass:.3f}, {self.audit.lower:.3f} to {self.audit.upper:.3f}"
            return f"scored, knows more: {self.gain:+.2f} nats, {mass}"
        return f"scored, {'GAIN' if self.gains else 'no gain'}: {self.gain:+.2f} nats"


def audit(sandbox: Sandbox, program: Honest, data_sets: int) -> Audit:
    """The audit of one honest program."""
    columns = SERIES if program.rows == 3 else COVARIATES
    schema = DataSchema({name: str(v.dtype) for name, v in columns.items()}, "y", program.dtype, program.rows)
    graph = parse_graph(sandbox.build(program.source, schema, columns), schema)
    return audit_graph(graph, columns, rounding=program.rounding, data_sets=data_sets)


def score(
    sandbox: Sandbox, source: str, shown_rows: int = 0, y: NDArray[np.float64] | NDArray[np.int64] = Y
) -> Score:
    """A program's score on eight rows."""
    schema = DataSchema({"x": "float64"}, "y", str(y.dtype), len(y))
    try:
        graph = parse_graph(sandbox.build(source, schema, {"x": X}), schema)
    except ProgramFailure as failure:
        return Score.failed(failure.category, failure.message)
    return score_graph(graph, {"x": X}, y, shown_rows=shown_rows)


def run_honest(sandbox: Sandbox, names: list[str], data_sets: int) -> dict[str, Audit]:
    """Audits honest programs and prints them."""
    table = Table(title="Total probability over all data sets of a small task: honest programs")
    for column in ("program", "verdict", "total", "interval", "method", "data sets", "seconds"):
        table.add_column(column)
    audits = {}
    for name in names:
        start = time.perf_counter()
        found = audits[name] = audit(sandbox, HONEST[name], data_sets)
        table.add_row(
            name,
            found.verdict,
            f"{found.total_mass:.4f}",
            f"{found.lower:.4f} to {found.upper:.4f}",
            found.method,
            f"{found.data_sets}" + (f", {found.unscored} unscored" if found.unscored else ""),
            f"{time.perf_counter() - start:.1f}",
        )
    CONSOLE.print(table)
    return audits


def run_hacks(sandbox: Sandbox, cases: dict[str, str]) -> list[Attempt]:
    """Tries every hack and prints what became of it."""
    honest = score(sandbox, HONEST_LINE)
    attempts = []
    for case, code in cases.items():
        attempts.append(Attempt(case, "as written", score(sandbox, code), honest))
        source = own_columns(code)
        attempt = Attempt(case, "own columns", score(sandbox, source), honest)
        if attempt.above:
            attempt = attempt._replace(audit=audit(sandbox, Honest(source), DATA_SETS))
        attempts.append(attempt)
    attempts += [Attempt(name, "own columns", score(sandbox, source), honest) for name, source in OWN.items()]
    counts = score(sandbox, HONEST_COUNTS, y=COUNTS)
    attempts += [
        Attempt(name, "counts", score(sandbox, source, y=COUNTS), counts)
        for name, source in ON_COUNTS.items()
    ]
    given = score(sandbox, HONEST_LINE, SHOWN)
    attempts += [
        Attempt(name, "copies shown rows", score(sandbox, source, SHOWN), given)
        for name, source in COPIES.items()
    ]
    table = Table(title=f"Hacks against the honest line (log evidence {honest.evidence:.2f})")
    for column in ("case", "form", "what happened"):
        table.add_column(column)
    for attempt in attempts:
        table.add_row(attempt.case, attempt.form, attempt.outcome)
    CONSOLE.print(table)
    return attempts


def main() -> int:
    """Runs the benchmark; 0 if every honest total is 1 and no hack gains."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--corpus", type=Path, help="JSON list of cases with id, group and code")
    parser.add_argument("--data-sets", type=int, default=256, help="about how many data sets of each program")
    parser.add_argument("--only", nargs="+", help="names of honest programs")
    parser.add_argument("--skip-honest", action="store_true", help="hacks only")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = [] if arguments.skip_honest else arguments.only or list(HONEST)
    unknown = set(names) - set(HONEST)
    if unknown:
        parser.error(f"no such programs: {', '.join(sorted(unknown))}")
    cases = read_cases(arguments.corpus) if arguments.corpus else {}
    with Sandbox() as sandbox:
        audits = run_honest(sandbox, names, arguments.data_sets)
        attempts = run_hacks(sandbox, cases)
    tried = {attempt.case for attempt in attempts}
    figures: dict[str, Any] = {
        "honest": len(audits),
        "honest_outside_interval": sum(found.verdict != "honest" for found in audits.values()),
        "hacks": len(tried),
        "hacks_with_gain": len({attempt.case for attempt in attempts if attempt.gains}),
    }
    good = figures["honest_outside_interval"] == figures["hacks_with_gain"] == 0
    print(f"{figures} (none outside, none with a gain: {'met' if good else 'missed'})")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
