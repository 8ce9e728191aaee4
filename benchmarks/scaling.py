"""What a second scoring worker adds, and what scoring beside it costs a training run.

    python benchmarks/scaling.py --json scaling.json

Programs scored per second by 1 and by 2 workers: ten dugongs programs of different structure, every one with
constants of its own, so that none is known; pools take turns. Trainer steps per second with scoring on
(workers as a run has by default: the machine's cores but one) and off (the same samples, all of them answered
at once without a worker), taking turns. The share of time that the trainer waited for scores is that of the
runs with scoring.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import torch
from figures_file import Options, figures_file
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Table
from scoring_parts.scoring_programs import PROGRAMS, WARM_UP

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.__about__ import __version__
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.pool.executors import Answer, far_version
from synthstats_lightning.pool.scorer import ProgramScorer, default_num_workers
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task

TARGETS = {
    "score_speedup_2": "2 where two cores are free",
    "step_slowdown_with_scoring": "1 where the workers have cores of their own",
    "waiting_share": "at most 0.02",
}


def variants(number: int, first: int) -> list[str]:
    """Programs that nobody has scored yet: the ten structures in turn, their numbers moved a little."""
    sources = list(PROGRAMS.values())
    made = []
    for index in range(first, first + number):
        source = sources[index % len(sources)]
        scale = 1 + 1e-4 * (index + 1)
        made.append(re.sub(r"\d+\.\d+", lambda m, by=scale: f"{float(m[0]) * by:.6g}", source, count=2))
    return made


def scored_per_second(workers: int, number: int, first: int) -> float:
    """Programs per second of a pool whose workers are warm."""
    task = get_task("dugongs")
    with ProgramScorer(workers) as pool:
        pool.start()
        for future in [pool.submit(WARM_UP + "\n" * index, task) for index in range(2 * workers)]:
            future.result()
        started = time.perf_counter()
        scores = [future.result() for future in [pool.submit(s, task) for s in variants(number, first)]]
        elapsed = time.perf_counter() - started
    if failed := [score for score in scores if not score.scored]:
        raise RuntimeError(f"{len(failed)} of {number} programs failed, the first: {failed[0].message}")
    return number / elapsed


class NoScoring(Executor):
    """Answers at once, with a made-up score that depends on the program alone."""

    def submit(
        self, fn: Callable[..., Any], /, settings: WorkerSettings, call: Callable[..., Any], *arguments: Any
    ) -> Future[Answer]:
        """See `concurrent.futures.Executor`."""
        future: Future[Answer] = Future()
        if call is far_version:
            future.set_result(Answer(__version__, 0))
            return future
        digest = hashlib.sha256(arguments[0].encode()).hexdigest()
        value = -20.0 + int(digest[:4], 16) / 8192
        score = Score(
            evidence=value,
            elpd=value,
            evidence_se=0.0,
            num_parameters=3,
            canonical=digest[:32],
            structure=digest[:2],
        )
        future.set_result(Answer(score, 0))
        return future


class Pace(Callback):
    """When each training step ends, and what share of its time the run waited for scores."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.waiting_shares: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *rest: Any) -> None:
        """Looks at the clock, and at what was logged."""
        self.ends.append(time.perf_counter())
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            self.waiting_shares.append(float(trainer.callback_metrics["perf/waiting_share"]))


def train(scoring_on: bool, steps: int, skipped: int, seed: int) -> tuple[float, float]:
    """Steps per second after the first few, and the share of that time spent waiting for scores."""
    scoring = ProgramScoring(
        reward=Reward(prior_weight=1.0),
        programs_per_step=16,
        warmup_programs=32,
        executor=None if scoring_on else NoScoring(),
    )
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            max_steps=steps,
            log_every_n_steps=5,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            limit_val_batches=0,
            default_root_dir=folder,
            callbacks=[scoring, pace],
        )
        module = GFlowNetModule(
            lora=LoraSettings(rank=16), sampling=SamplingSettings(max_new_tokens=160), seed=seed
        )
        trainer.fit(module, ReplayDataModule(batch_size=64, steps_per_epoch=steps, seed=seed))
    elapsed = pace.ends[-1] - pace.ends[skipped - 1]
    return (steps - skipped) / elapsed, statistics.fmean(pace.waiting_shares)


def figures(programs: int, steps: int, repeats: int) -> dict[str, float]:
    """Every figure by name."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(repeats):
        for workers in (1, 2):
            rates[workers].append(scored_per_second(workers, programs, first=repeat * programs))
    paces: dict[bool, list[float]] = {False: [], True: []}
    shares = []
    for repeat in range(repeats):
        for scoring_on in (False, True):
            pace, share = train(scoring_on, steps, skipped=max(1, steps // 5), seed=repeat)
            paces[scoring_on].append(pace)
            if scoring_on:
                shares.append(share)
    one, two = (statistics.median(rates[workers]) for workers in (1, 2))
    off, on = (statistics.median(paces[scoring_on]) for scoring_on in (False, True))
    return {
        "score_speedup_2": two / one,
        "step_slowdown_with_scoring": off / on,
        "waiting_share": statistics.median(shares),
        "programs per second, 1 worker": one,
        "programs per second, 2 workers": two,
        "steps per second, scoring off": off,
        f"steps per second, scoring on ({default_num_workers()} workers)": on,
    }


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--programs", type=int, default=60, help="programs that a pool scores")
    parser.add_argument("--steps", type=int, default=40, help="training steps of a run")
    parser.add_argument("--repeats", type=int, default=3, help="turns")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    measured = figures(arguments.programs, arguments.steps, arguments.repeats)
    table = Table(title="Scaling")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, value in measured.items():
        table.add_row(name, f"{value:.3g}", TARGETS.get(name, ""))
    Console().print(table)
    if arguments.json:
        kept = {name: measured[name] for name in TARGETS}
        arguments.json.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
