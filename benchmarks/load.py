"""Whether other people's load decides a score: programs scored alone, and beside processes that never rest.

    python benchmarks/load.py --json load.json

Draws programs from the grammar that the bundled policy learned, for the bundled data sets in turn, and
scores them twice, each time in a fresh pool: on the machine as it is, then beside six processes that compute
and move memory. Statuses and every number of the scores are compared, to the last bit. A few minutes for the
first run on two cores, and four times that for the second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from random import Random

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.pretraining.datasets import MadeUpData
from synthstats_lightning.pretraining.grammar import write_program
from synthstats_lightning.programs.failure import TRANSIENT
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task, get_task

TASKS = ("dugongs", "peregrines", "surgical", "eight_schools")
BUSY = 6
# until this process ends, however it ends
_BUSY = """
import os
parent, a = os.getppid(), bytearray(1 << 25)
while os.getppid() == parent:
    b = bytes(a)
    sum(range(100_000))
"""
TARGETS = {"other_statuses": 0, "other_bits": 0}


@dataclass(frozen=True)
class Figures:
    """What came of it.

    Attributes:
        programs: Scored twice.
        scored: Of them, those that have a score alone.
        other_statuses: Programs whose status is another beside the busy processes.
        other_bits: Programs of one status whose scores differ in any bit.
        transient: Failures, in either run, that say something of the machine rather than of the program.
        restarts: Worker processes replaced, in both runs.
        seconds_alone: What all took alone.
        seconds_beside: What all took beside the busy processes.
        slowest_seconds: The longest that one program took to score beside them.
    """

    programs: int
    scored: int
    other_statuses: int
    other_bits: int
    transient: int
    restarts: int
    seconds_alone: float
    seconds_beside: float
    slowest_seconds: float


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Processes that compute and copy memory all the time, each in a session of its own."""
    command = [sys.executable, "-c", _BUSY]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def draw_programs(count: int, seed: int = 0) -> list[tuple[str, Task]]:
    """Distinct programs of the grammar, for the tasks in turn."""
    rng, tasks = Random(seed), [get_task(name) for name in TASKS]
    found: dict[tuple[str, str], tuple[str, Task]] = {}
    while len(found) < count:
        task = tasks[len(found) % len(tasks)]
        columns = dict(task.columns)
        response = columns.pop(task.response)
        data = MadeUpData(task.description, tuple(columns.values()), response, task.num_rows)
        source = write_program(rng, data)
        found.setdefault((source, task.name), (source, task))
    return list(found.values())


def score_all(programs: list[tuple[str, Task]], workers: int) -> tuple[list[Score], int, float]:
    """Scores in order, worker processes that were replaced, and seconds."""
    with ProgramScorer(workers) as scorer:
        scorer.start()
        started = time.perf_counter()
        scores = [future.result() for future in [scorer.submit(source, task) for source, task in programs]]
        return scores, scorer.worker_restarts, time.perf_counter() - started


def status(score: Score) -> str:
    """`scored`, or the category of the failure."""
    return "scored" if score.failure is None else str(score.failure)


def compare(
    alone: tuple[list[Score], int, float], beside: tuple[list[Score], int, float]
) -> tuple[Figures, list[tuple[Score, Score]]]:
    """The figures of two runs, and the pairs of scores that differ."""
    pairs = list(zip(alone[0], beside[0], strict=True))
    differ = [pair for pair in pairs if replace(pair[0], seconds=0.0) != replace(pair[1], seconds=0.0)]
    statuses = sum(status(first) != status(second) for first, second in differ)
    figures = Figures(
        programs=len(pairs),
        scored=sum(first.scored for first, _ in pairs),
        other_statuses=statuses,
        other_bits=len(differ) - statuses,
        transient=sum(score.failure in TRANSIENT for pair in pairs for score in pair),
        restarts=alone[1] + beside[1],
        seconds_alone=alone[2],
        seconds_beside=beside[2],
        slowest_seconds=max(second.seconds for _, second in pairs),
    )
    return figures, differ


def main() -> None:
    """Prints the figures, and writes them where asked."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--busy", type=int, default=BUSY)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    programs = draw_programs(options.programs)
    alone = score_all(programs, options.workers)
    console.print(f"alone: {dict(Counter(map(status, alone[0])))} in {alone[2]:.0f} s")
    with busy_processes(options.busy):
        beside = score_all(programs, options.workers)
    figures, differ = compare(alone, beside)
    table = Table("figure", "value", "target", title=f"Beside {options.busy} busy processes")
    for name, value in asdict(figures).items():
        table.add_row(name, f"{value:.4g}", str(TARGETS.get(name, "")))
    console.print(table)
    for first, second in differ:
        console.print(
            f"{first.canonical}: {status(first)} {first.message} -> {status(second)} {second.message}"
            f" ({first.seconds:.1f} s and {second.seconds:.1f} s)",
            markup=False,
        )
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=1) + "\n")
    if differ:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
