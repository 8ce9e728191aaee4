"""What objectives find with equal calls of the scorer: how good, how many, how well they predict together.

    python benchmarks/training/diversity.py --json diversity.json

Each objective trains the tiny policy on two thirds of the rows of the dugongs and of the peregrines (a count
response), from the same start, with the same reward, learning rate and number of scored programs. GFlowNet
objectives explore and replay; the baselines, which are derived for the policy's own samples, learn from these
alone. Of the programs that the trained policy writes afresh at temperature 1:

- `mean_evidence`: mean log evidence of those with a score, in nats;
- `good_structures`: distinct structures with a program within 3 nats of the best evidence that any objective
  found on the task; `structures_within_5`: the same within 5 nats, for a best that a single program has;
- `heldout_stacked`, `heldout_single`: log predictive density of the rows not trained on, in nats, of the best
  programs of these structures, stacked (Yao et al. 2018: weights that maximise the leave-one-out density of
  the training rows), and of the best of them alone;
- `best_elpd`: best leave-one-out density of any program of the run, in nats;
- `scorer_calls`: programs handed to the scorer, fresh ones included.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, GFlowNetModule, ProgramScorer, ReplayDataModule, Reward, get_task
from synthstats_lightning.callbacks import ProgramScoring
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.objectives import (
    GRPO,
    GSPO,
    RLOO,
    BestOfN,
    LogVariance,
    Objective,
    Regression,
    SubTrajectoryBalance,
    TrajectoryBalance,
)
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.prediction.heldout import held_out_rows
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = EngineSettings(heldout_fraction=1 / 3)
GOOD, WIDER, MAX_STACKED = 3.0, 5.0, 60
ROUND, EVERY, WARM_UP, FRESH = 48, 2, 96, 512
TOKENS = 160
REWARD = Reward(beta=1.0, prior_weight=1.0, floor=-5.0, log_reward_failure=-8.0)
NEAR = Regression("huber", 5.0)
OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "TB": functools.partial(TrajectoryBalance, regression=NEAR),
    "SubTB": functools.partial(SubTrajectoryBalance, 1.0, regression=NEAR, relative_to_policy=True),
    "VarGrad": functools.partial(LogVariance, NEAR),
    "GRPO": GRPO,
    "GSPO": GSPO,
    "RLOO": RLOO,
    "best-of-N": BestOfN,
}
BASELINES = ("GRPO", "GSPO", "RLOO", "best-of-N")
KEYS = (
    "best_elpd",
    "mean_evidence",
    "good_structures",
    "structures_within_5",
    "heldout_stacked",
    "heldout_single",
    "scorer_calls",
)


class Found(NamedTuple):
    """What a run found: all its programs, and one record for each fresh program."""

    all: list[ProgramRecord]
    fresh: list[ProgramRecord]


class Collect(Callback):
    """Has the trained policy write fresh programs, scored as those of training."""

    def __init__(self, num_programs: int) -> None:
        self.num_programs = num_programs
        self.found = Found([], [])

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keeps records of every program."""
        scoring, _ = scoring_and_module(trainer, pl_module, self)
        fresh = scoring.evaluate(trainer, pl_module, self.num_programs, Stream.BENCHMARKS.at())[0]
        self.found = Found([*scoring.records, *fresh], fresh)


def whole_tasks() -> dict[str, Task]:
    """Both tasks with all their rows."""
    peregrines = CSVTask(
        ROOT / "configs" / "tasks" / "peregrines.csv",
        response="pairs",
        description="Breeding pairs of peregrine falcons in the French Jura by year.",
        units={"year": "years since 1964"},
        response_kind="count",
    )
    return {"dugongs": get_task("dugongs"), "peregrines": peregrines}


def training_rows(task: Task) -> Task:
    """The task without the rows that `HELD_OUT` predicts."""
    away = held_out_rows(task.num_rows, 0, HELD_OUT.heldout_fraction, HELD_OUT.heldout_seed)
    kept = np.setdiff1d(np.arange(task.num_rows), away.numpy())
    data = {name: values[kept] for name, values in task.data.items()}
    return Task(
        task.name, task.description, data, task.response, task.units, response_kind=task.response_kind
    )


def train(task: Task, objective: str, calls: int, fresh: int, num_workers: int | None, folder: str) -> Found:
    """Trains with one objective for a number of scored programs."""
    rounds = max(1, (calls - WARM_UP - fresh) // ROUND)
    on_policy = objective in BASELINES
    data = ReplayDataModule(
        tasks=[task],
        batch_size=64,
        steps_per_epoch=100,
        recent=2 * ROUND if on_policy else 512,
        replay_fraction=0.0 if on_policy else 0.3,
        seed=0,
    )
    module = GFlowNetModule(
        tasks=data.task_names,
        lora=LoraSettings(rank=16, alpha=32.0),
        objective=OBJECTIVES[objective](),
        optimizer=functools.partial(torch.optim.AdamW, lr=1.5e-3, weight_decay=0.0),
        lr_scheduler=functools.partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=EVERY * rounds),
        log_z_lr=0.5,
        flow_lr=1e-2,
        sampling=SamplingSettings(max_new_tokens=TOKENS),
        seed=0,
    )
    scoring = ProgramScoring(
        reward=REWARD,
        engine=EngineSettings(last_score="elpd"),
        programs_per_step=ROUND,
        every_n_steps=EVERY,
        warmup_programs=WARM_UP,
        synchronous=True,
        sampling=SamplingSettings(max_new_tokens=TOKENS, temperature=1.0 if on_policy else 1.3),
        anneal_steps=EVERY * rounds,
        num_workers=num_workers,
    )
    collect = Collect(fresh)
    trainer = Trainer(
        max_steps=EVERY * rounds,
        callbacks=[scoring, collect],
        gradient_clip_val=1.0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        default_root_dir=folder,
    )
    trainer.fit(module, data)
    return collect.found


def evidence_of(record: ProgramRecord) -> float:
    """Log evidence, -inf of a failed program."""
    value = record.score.evidence
    return -np.inf if value is None else value


def best_by_structure(records: list[ProgramRecord], above: float) -> list[ProgramRecord]:
    """The best program of each structure that has one of at least the given evidence, best first."""
    best: dict[str, ProgramRecord] = {}
    for record in sorted(records, key=evidence_of, reverse=True):
        if record.score.structure is not None and evidence_of(record) >= above:
            best.setdefault(record.score.structure, record)
    return list(best.values())


def stacking_weights(log_density: np.ndarray, iterations: int = 2000) -> np.ndarray:
    """Weights `[programs]` that maximise Σ_rows log Σ_k w_k p_k(row), by expectation maximisation.

    Args:
        log_density: Leave-one-out densities `[programs, rows]`, in nats.
        iterations: The likelihood is concave and never falls.
    """
    density = np.exp(log_density - log_density.max(0))
    weights = np.full(len(density), 1 / len(density))
    for _ in range(iterations):
        joint = weights[:, None] * density
        weights = (joint / joint.sum(0)).mean(1)
    return weights


def held_out(records: list[ProgramRecord], task: Task, scorer: ProgramScorer) -> tuple[float, float]:
    """Held-out log predictive density of the stacked programs and of the first, in nats."""
    futures = [scorer.submit(record.source, task) for record in records]
    inside, outside = [], []
    for record, future in zip(records, futures, strict=True):
        whole = future.result()
        if whole.heldout_lpd is not None:
            inside.append(record.score.diagnostics["elpd"].pointwise)
            outside.append(whole.diagnostics["heldout_lpd"].pointwise)
    if not inside:
        raise RuntimeError(f"none of {len(records)} programs has a held-out density on {task.name}")
    weights, rows = stacking_weights(np.array(inside)), np.array(outside)
    top = rows.max(0)
    stacked = top + np.log(weights @ np.exp(rows - top))
    return float(stacked.sum()), float(rows[0].sum())


def figures(arguments: argparse.Namespace) -> dict[str, dict[str, dict[str, float | None]]]:
    """Every figure, by task and objective."""
    tasks = {name: task for name, task in whole_tasks().items() if name in arguments.tasks}
    result: dict[str, dict[str, dict[str, float | None]]] = {}
    for name, task in tasks.items():
        found = {}
        for objective in arguments.objectives:
            with tempfile.TemporaryDirectory() as folder:
                found[objective] = train(
                    training_rows(task),
                    objective,
                    arguments.calls,
                    arguments.fresh,
                    arguments.num_workers,
                    folder,
                )
            Console().print(f"{name}, {objective}: {len(found[objective].all)} records")
        best = max(evidence_of(record) for each in found.values() for record in each.all)
        with ProgramScorer(arguments.num_workers, settings=HELD_OUT) as scorer:
            result[name] = {objective: summary(each, best, task, scorer) for objective, each in found.items()}
    return result


def summary(found: Found, best: float, task: Task, scorer: ProgramScorer) -> dict[str, float | None]:
    """One objective's figures; `None` for what a policy has none of whose fresh programs all fail."""
    good = best_by_structure(found.fresh, best - GOOD)
    # an objective that has no good structure still predicts, with the best that it writes
    stacked = (good or best_by_structure(found.fresh, -np.inf))[: MAX_STACKED if good else 1]
    together, single = held_out(stacked, task, scorer) if stacked else (None, None)
    scored = [evidence_of(record) for record in found.fresh if record.score.scored]
    elpds = [record.score.elpd for record in found.all if record.score.elpd is not None]
    training = sum(record.count for record in found.all[: len(found.all) - len(found.fresh)])
    mean = float(np.mean(scored)) if scored else None
    wider = len(best_by_structure(found.fresh, best - WIDER))
    calls = training + len(found.fresh)
    values = (max(elpds, default=None), mean, len(good), wider, together, single, calls)
    return dict(zip(KEYS, values, strict=True))


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument(
        "--calls", type=int, default=6000, help="programs that each objective may have scored"
    )
    parser.add_argument("--fresh", type=int, default=FRESH, help="of these, written by the trained policy")
    parser.add_argument("--tasks", nargs="+", default=list(whole_tasks()), choices=list(whole_tasks()))
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=list(OBJECTIVES))
    parser.add_argument("--num-workers", type=int, help="scoring workers; by default one less than cores")
    arguments = parser.parse_args()
    if arguments.calls < arguments.fresh + WARM_UP + ROUND:
        parser.error(
            f"--calls must be at least {arguments.fresh + WARM_UP + ROUND} with these fresh programs"
        )
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")
    result = figures(arguments)
    console = Console(width=130)
    for name, rows in result.items():
        table = Table(title=f"{name} (target: TB's family has 3 times GRPO's good structures)")
        for column in ("objective", *KEYS):
            table.add_column(column, justify="left" if column == "objective" else "right")
        for objective, values in rows.items():
            table.add_row(objective, *(_shown(values[key]) for key in KEYS))
        console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
