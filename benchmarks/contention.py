"""The quickstart alone, and beside two foreign processes that never rest: what sharing the machine costs.

    python benchmarks/contention.py --json contention.json

Runs `fit --config configs/quickstart.yaml` twice, the second time beside two processes that it starts in
sessions of their own. It wants a machine that does nothing else: about ten minutes for the first run on two
cores, and up to three times that for the second.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from figures_file import Options, figures_file
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "configs" / "quickstart.yaml"
BUSY = 2
"""Foreign processes."""
LOGGED_EVERY, POLL_SECONDS = 5, 0.2
COLUMNS = ("step", "replay/ratio", "perf/waiting_share")
TARGETS = {
    "programs_per_second_beside": "",
    "ratio": ">= 0.25",
    "scored_per_step_beside": "as alone",
    "log_z_gap_alone": "<= 0.5",
    "log_z_gap_beside": "as alone",
}


class Row(NamedTuple):
    """One line of a run's metrics.

    Attributes:
        seconds: When it was seen.
        step: Training step, from 0.
        ratio: Trajectories trained on per scored program, so far.
        waiting: Share of the time since the line before that training waited for scores.
    """

    seconds: float
    step: int
    ratio: float
    waiting: float


@contextmanager
def busy_processes(number: int = BUSY) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that compute for ever, each in a session of its own, as other people's jobs are."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def last_row(folder: Path, seconds: float) -> Row | None:
    """The newest whole line of a run's metrics that has the replay ratio."""
    files = list(folder.glob("*/version_*/metrics.csv"))
    if not files:
        return None
    with files[0].open() as file:
        rows = [[row.get(name) or "" for name in COLUMNS] for row in csv.DictReader(file)]
    whole = [row for row in rows if all(row)]
    if not whole:
        return None
    step, ratio, waiting = whole[-1]
    return Row(seconds, int(step), float(ratio), float(waiting))


def train(folder: Path, steps: int, more: list[str]) -> tuple[list[Row], float]:
    """Trains in a fresh process; the lines of its metrics as they came, and the seconds of all."""
    command = [sys.executable, "-m", "synthstats_lightning", "fit", "--config", str(CONFIG)]
    command += ["--trainer.logger.init_args.save_dir", str(folder), "--trainer.max_steps", str(steps)]
    command += ["--trainer.logger.init_args.flush_logs_every_n_steps", str(LOGGED_EVERY)]
    command += ["--trainer.log_every_n_steps", str(LOGGED_EVERY), *more]
    rows: list[Row] = []
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        while process.poll() is None:
            row = last_row(folder, time.perf_counter())
            if row is not None and (not rows or row.step > rows[-1].step):
                rows.append(row)
            time.sleep(POLL_SECONDS)
    finally:
        process.kill()
    if process.returncode:
        raise SystemExit(f"the run ended with status {process.returncode}")
    return rows, time.perf_counter() - started


def summary(rows: list[Row], batch_size: int) -> dict[str, float]:
    """What the lines of a run come to: `programs_per_second`, `scored_per_step`, `step_seconds`, `waiting`.

    Args:
        rows: At least two.
        batch_size: Trajectories a step.
    """
    first, last = rows[0], rows[-1]
    scored = [batch_size * (row.step + 1) / row.ratio for row in (first, last)]
    seconds, steps = last.seconds - first.seconds, last.step - first.step
    waited = sum(row.waiting * (row.seconds - before.seconds) for before, row in pairwise(rows))
    return {
        "programs_per_second": (scored[1] - scored[0]) / seconds,
        "scored_per_step": scored[1] / (last.step + 1),
        "step_seconds": seconds / steps,
        "waiting": waited / seconds,
    }


def measure(folder: Path, steps: int, batch_size: int, more: list[str]) -> dict[str, float]:
    """One run: `summary`, `seconds` of the whole command and `log_z_gap` of its report, in nats."""
    folder.mkdir()
    rows, seconds = train(folder, steps, more)
    if len(rows) < 2:
        raise SystemExit(f"{steps} steps are too few: their metrics have {len(rows)} lines")
    (path,) = folder.glob("*/version_*/report.json")
    (report,) = json.loads(path.read_text()).values()
    gap = abs(report.get("log_z_gap", math.nan))
    return {**summary(rows, batch_size), "seconds": seconds, "log_z_gap": gap}


def figures(folder: Path, steps: int, batch_size: int, more: list[str]) -> dict[str, float]:
    """Every figure, by name."""
    alone = measure(folder / "alone", steps, batch_size, more)
    with busy_processes():
        beside = measure(folder / "beside", steps, batch_size, more)
    return {
        "steps": steps,
        **{f"{name}_alone": value for name, value in alone.items()},
        **{f"{name}_beside": value for name, value in beside.items()},
        "ratio": beside["programs_per_second"] / alone["programs_per_second"],
    }


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--steps", type=int, default=95, help="of each run; the quickstart has 95")
    parser.add_argument(
        "--batch_size", type=int, default=64, help="trajectories a step; the quickstart has 64"
    )
    parser.add_argument("more", nargs="*", help="more arguments of `fit`, after --")
    options = parser.parse_args()
    more = ["--data.init_args.batch_size", str(options.batch_size), *options.more]
    with tempfile.TemporaryDirectory() as folder:
        result = figures(Path(folder), options.steps, options.batch_size, more)
    table = Table(title=f"Quickstart of {options.steps} steps, alone and beside {BUSY} busy processes")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, value in result.items():
        table.add_row(name, f"{value:.3g}", TARGETS.get(name, ""))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
