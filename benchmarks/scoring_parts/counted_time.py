"""Whether counted time is near the clock's: annealing, for programs of the bundled policy's grammar.

    python benchmarks/scoring_parts/counted_time.py --json counted_time.json

Scores programs of the grammar on the bundled data sets in this process (see `load.py`), and compares for
every annealing what `numerics.counted_time` foresees of its gradients with the processor time that it took.
About two minutes on one core.

JSON: `{programs, anneals, ratio_median, ratio_least, ratio_most, overhead_share}`: counted over measured, and
what counting itself took of the processor time of annealing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1]))

import torch
from figures_file import Options, figures_file
from load import draw_programs
from rich.console import Console
from rich.table import Table

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring import engine
from synthstats_lightning.scoring.estimators import smc
from synthstats_lightning.scoring.prediction import folds
from synthstats_lightning.scoring.settings import Deadline

SHORTEST = 0.05
"""Anneals of less processor time say more of the clock than of the count."""


@dataclass(frozen=True)
class Figures:
    """What came of it; see the script's first lines."""

    programs: int
    anneals: int
    ratio_median: float
    ratio_least: float
    ratio_most: float
    overhead_share: float


class Watch:
    """Counted, measured and counting's own seconds of every annealing."""

    def __init__(self) -> None:
        self.counted: list[float] = []
        self.measured: list[float] = []
        self.overhead = 0.0
        self._now = 0.0
        self._anneal, self._gradient_time, self._spend = smc.anneal, smc._gradient_time, Deadline.spend

    def anneal(self, *arguments: Any) -> Any:
        """As `smc.anneal`, measured."""
        self._now, before, began = 0.0, self.overhead, time.thread_time()
        try:
            return self._anneal(*arguments)
        finally:
            self.counted.append(self._now)
            self.measured.append(time.thread_time() - began - (self.overhead - before))

    def gradient_time(self, *arguments: Any) -> Any:
        """As `smc._gradient_time`, measured."""
        began = time.thread_time()
        try:
            return self._gradient_time(*arguments)
        finally:
            self.overhead += time.thread_time() - began

    def spend(self, deadline: Deadline, seconds: float, stage: str) -> None:
        """As `Deadline.spend`, noted."""
        self._now += seconds
        self._spend(deadline, seconds, stage)


def anneals(programs: int) -> Watch:
    """Scores programs, and watches their annealing."""
    watch = Watch()
    with ExitStack() as stack:
        for module in (smc, folds):
            stack.enter_context(mock.patch.object(module, "anneal", watch.anneal))
        stack.enter_context(mock.patch.object(smc, "_gradient_time", watch.gradient_time))
        stack.enter_context(mock.patch.object(Deadline, "spend", lambda *given: watch.spend(*given)))
        sandbox = stack.enter_context(Sandbox())
        for source, task in draw_programs(programs):
            try:
                graph = parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema)
            except ProgramFailure:
                continue
            response = task.data[task.response]
            engine.score_graph(graph, task.covariates, response, rounding=task.rounding)
    return watch


def main() -> None:
    """Prints the figures, and writes them where asked."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file)
    parser.add_argument("--programs", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    watch = anneals(options.programs)
    pairs = [(c, m) for c, m in zip(watch.counted, watch.measured, strict=True) if m > SHORTEST and c > 0]
    if not pairs:
        raise SystemExit(f"none of {options.programs} programs is annealed for {SHORTEST:g} s")
    ratios = [counted / measured for counted, measured in pairs]
    figures = Figures(
        programs=options.programs,
        anneals=len(pairs),
        ratio_median=statistics.median(ratios),
        ratio_least=min(ratios),
        ratio_most=max(ratios),
        overhead_share=watch.overhead / (sum(watch.measured) + watch.overhead),
    )
    table = Table("figure", "value", title="Counted over measured seconds of annealing")
    for name, value in asdict(figures).items():
        table.add_row(name, f"{value:.4g}")
    Console(soft_wrap=True).print(table)
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=1) + "\n")


if __name__ == "__main__":
    main()
