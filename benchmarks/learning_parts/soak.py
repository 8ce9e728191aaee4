"""Trains on two cores while things go wrong, and measures what is left behind.

    python benchmarks/learning_parts/soak.py --json soak.json
    python benchmarks/learning_parts/soak.py --minutes 120 --json soak.json

A worker process is killed every 30 seconds, one hostile program comes with every 20 others, and twice the run
ends and goes on from its newest checkpoint. Memory is that of all processes together.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from figures_file import Options, figures_file
from learning_parts.soak_faults import WASTERS, HostilePrograms, WorkerKiller
from learning_parts.soak_watch import MemoryWatch, descendants, open_descriptors, scratch_files
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from rich.console import Console
from rich.table import Table
from sandbox_parts.sandbox_canaries import Canaries, kernel_objects
from sandbox_parts.sandbox_corpus import read_cases

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule, Reward
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.objectives import Regression, TrajectoryBalance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO, newest_checkpoint
from synthstats_lightning.sandbox import SandboxLimits

CASES = Path(__file__).resolve().parents[1] / "sandbox_parts" / "sandbox_cases.json"
LEGS = 3
RATE, RATE_MINUTES = 1e-3, 1e-3
"""Largest learning rate, and rate times minutes: a long run learns slowly, so that it learns to its end."""
TARGETS = {
    "memory_growth": "<= 0.05",
    "leaked_processes": "== 0",
    "leaked_fds": "== 0",
    "leaked_files": "== 0",
    "reward_end": "> reward_start",
}


class Leg(Callback):
    """Ends a leg of the run in time, and notes the rewards of what is sampled.

    Args:
        seconds: How long it trains.
        watch: Told when training goes on.
        killer: Told which workers there are.
        rewards: Mean log reward of each round of logging, in nats, is appended.
    """

    def __init__(
        self, seconds: float, watch: MemoryWatch, killer: WorkerKiller, rewards: list[float]
    ) -> None:
        self.seconds = seconds
        self.watch = watch
        self.killer = killer
        self.rewards = rewards
        self._end = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the clock."""
        scoring, _ = scoring_and_module(trainer, pl_module, self)
        self.killer.aim(scoring.scorer.pool)
        self.watch.training = True
        self._end = time.monotonic() + self.seconds

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Looks at the clock."""
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            reward = trainer.callback_metrics.get("sample/log_reward")
            if reward is not None:
                self.rewards.append(float(reward))
        trainer.should_stop = trainer.should_stop or time.monotonic() > self._end

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The rest of the run is no training."""
        self.watch.training = False
        self.killer.aim(None)


def fit(
    folder: Path, leg: Leg, hostile: HostilePrograms, max_records: int, rate: float
) -> tuple[ProgramScoring, int]:
    """Trains for one leg, from the newest checkpoint if there is one.

    Returns:
        The callback that scored, and the training step that the leg came to.
    """
    scoring = ProgramScoring(
        reward=Reward(beta=1.0, prior_weight=1.0, floor=-5.0, log_reward_failure=-8.0),
        programs_per_step=24,
        every_n_steps=2,
        warmup_programs=16,
        max_in_flight=96,
        max_age=200,
        drain_seconds=5.0,  # what has no score then is in the checkpoint
        num_workers=1,
        limits=SandboxLimits(cpu_seconds=2, wall_seconds=4.0),
        score_cache=str(folder / "scores.sqlite"),
        max_records=max_records,
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=10_000_000,
        log_every_n_steps=5,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        gradient_clip_val=1.0,
        plugins=[DurableCheckpointIO()],
        callbacks=[
            scoring,
            hostile,
            TrainingMetrics(every_n_steps=50, num_programs=16),
            leg,
            ModelCheckpoint(folder / "checkpoints", every_n_train_steps=10, save_last=True, save_top_k=1),
        ],
        default_root_dir=folder,
    )
    module = GFlowNetModule(
        lora=LoraSettings(rank=16, alpha=32.0),
        objective=TrajectoryBalance(regression=Regression("huber", 5.0)),
        optimizer=functools.partial(torch.optim.AdamW, lr=rate, weight_decay=0.0),
        log_z_lr=0.1,
        sampling=SamplingSettings(max_new_tokens=120),
    )
    newest = newest_checkpoint([folder / "checkpoints"])
    data = ReplayDataModule(batch_size=32, steps_per_epoch=100, capacity=4 * max_records, replay_fraction=0.3)
    trainer.fit(module, data, ckpt_path=newest, weights_only=True)
    return scoring, trainer.global_step


def soak(minutes: float, console: Console) -> dict[str, Any]:
    """The whole soak; keys as in the JSON file, and more for the eye."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    temporary = folder / "tmp"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    os.environ["TMPDIR"] = str(temporary)
    canaries = Canaries()
    cases = [case for case in read_cases(CASES) if case["effect"]["kind"] != "benign"]
    hostile = HostilePrograms([*WASTERS, *(canaries.fill(case["code"], case["id"]) for case in cases)])
    processes, descriptors, objects = descendants(os.getpid()), open_descriptors(), kernel_objects()
    watch, killer = MemoryWatch(), WorkerKiller()
    rewards: list[float] = []
    failures: Counter[str] = Counter()
    steps: list[int] = []
    began = time.monotonic()
    try:
        for number in range(LEGS):
            # what starting cost the earlier legs is not taken from the later ones
            left = 60 * minutes - (time.monotonic() - began)
            leg = Leg(left / (LEGS - number), watch, killer, rewards)
            scoring, step = fit(folder, leg, hostile, 4000, min(RATE, RATE_MINUTES / minutes))
            steps.append(step)
            # those of the earlier legs came with the checkpoint
            failures = Counter({str(name): count for name, count in scoring.failures.items()})
            console.print(
                f"leg {number + 1}: step {step}, {killer.kills} workers killed, log rewards by tenths"
                f" {[round(float(np.mean(part)), 1) for part in np.array_split(rewards, 10) if len(part)]}"
            )
            del scoring
            gc.collect()
    except BaseException:
        canaries.close()
        raise
    finally:
        watch.stop()
        killer.stop()
        took = (time.monotonic() - began) / 60
    left_processes = descendants(os.getpid()) - processes
    left_descriptors = {k: v for k, v in open_descriptors().items() if k not in descriptors}
    left_files = scratch_files([temporary, folder], kept=[canaries.folder.name])
    left_files += canaries.dropped() + canaries.tampered()
    after = kernel_objects()
    left_files += [name for name in after for _ in range(max(0, after[name] - objects[name]))]
    canaries.close()
    warm_up = 60.0 * minutes / 8 if minutes >= 40 else 60.0
    tenth = max(1, len(rewards) // 10)
    for what, found in (("process", left_processes), ("descriptor", left_descriptors), ("file", left_files)):
        if found:
            console.print(f"left behind, {what}: {found}")
    return {
        "minutes": took,
        "memory_growth": watch.growth(warm_up),
        "leaked_processes": len(left_processes),
        "leaked_fds": len(left_descriptors),
        "leaked_files": len(left_files),
        "failures_by_category": dict(failures + hostile.failures),
        "reward_start": float(np.mean(rewards[:tenth])),
        "reward_end": float(np.mean(rewards[-tenth:])),
        "shown": {
            "trainer growth": watch.growth(warm_up, "trainer"),
            "workers' growth": watch.growth(warm_up, "workers"),
            "memory, MB": (watch.samples[-1].trainer + watch.samples[-1].workers) / 1e6,
            "steps": steps[-1],
            "workers killed": killer.kills,
            "hostile programs": sum(hostile.failures.values()),
        },
    }


def main() -> None:
    """Runs the soak, prints a table and writes the figures."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it trains, all legs together")
    parser.add_argument("--json", type=figures_file, help="file for the figures")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    torch.set_num_threads(1)
    for message in (
        ".*programs still had no score.*",
        ".*exists and is not empty.*",
        ".*treespec, LeafSpec.*",
    ):
        warnings.filterwarnings("ignore", message)
    console = Console()
    figures = soak(options.minutes, console)
    shown = figures.pop("shown")
    table = Table(title=f"Soak of {figures['minutes']:.1f} minutes on two cores")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, value in {**figures, **shown}.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(name, text, TARGETS.get(name, ""))
    console.print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
