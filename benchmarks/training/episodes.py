"""Episodes on three environments: the policy experiments, submits, is scored, and learns.

    python benchmarks/training/episodes.py --json episodes.json

Trains the bundled episode policy by trajectory balance on one instance of each environment at once, and
measures fresh episodes at temperature 1 before and after, on the same random streams. About ten minutes of
one core. `--folder` keeps the transcripts. With `--information W` sub-trajectory balance between turns is
trained instead, with W nats of log flow for each nat that an experiment was expected to tell; 0 is without.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Trainer
from rich.console import Console
from rich.table import Table

from synthstats_lightning import GFlowNetModule, ReplayDataModule, Reward
from synthstats_lightning.callbacks.episodes import EpisodeScoring
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.evaluation.episode_information import EpisodeInformation
from synthstats_lightning.objectives import ActionSubTrajectoryBalance, Objective, TrajectoryBalance
from synthstats_lightning.objectives.regression import Regression
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks.experiments import ExperimentTask

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

ENVIRONMENTS = ("dugongs_simulator", "death_process", "peregrines_simulator")
REWARD = Reward(score="heldout_lpd", prior_weight=1.0, floor=-10.0, log_reward_failure=-14.0)
TARGETS = {
    "log_reward_rise": "> 0",
    "score_rise": "> 0",
    "submitted_end": ">= 0.9",
    "valid_end": ">= 0.8",
    "experiments_end": "> 0",
}
"""Of each environment."""


class Measurement(EpisodeScoring):
    """As the callback, and measures fresh episodes before the first training step and after the last."""

    def __init__(self, fresh: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.fresh = fresh
        self.told = EpisodeInformation()
        self.figures: dict[str, dict[str, dict[str, float]]] = {}

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Measures, then starts as ever."""
        self.measure(trainer, pl_module, "start")
        super().on_train_start(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Ends as ever, then measures."""
        super().on_train_end(trainer, pl_module)
        self.measure(trainer, pl_module, "end")

    def measure(self, trainer: Trainer, module: GFlowNetModule, when: str) -> None:
        """Figures of fresh episodes of every task."""
        programs = self.scorer.sample(trainer, module, self.fresh, module.sampling, Stream.BENCHMARKS.at())
        for index, task in enumerate(self.scorer.tasks):
            own = [program for program in programs if program.task_index == index]
            self.figures.setdefault(task.name, {})[when] = self.summary(own)

    def summary(self, programs: list[PendingProgram]) -> dict[str, float]:
        """Means over episodes; of the score over those that have one."""
        records = [self.scorer.record(program) for program in programs]
        baseline = self.reward.value(self.scorer.baselines[programs[0].task_index])
        gains = [self.reward.value(record.score) - baseline for record in records if record.score.scored]
        clipped = [
            max(self.reward.value(record.score) - baseline, self.reward.floor)
            if record.score.scored
            else self.reward.log_reward_failure
            for record in records
        ]
        log_reward = np.array([record.log_reward for record in records])
        return {
            "log_reward": float(log_reward.mean()),
            "log_reward_se": float(log_reward.std(ddof=1) / np.sqrt(len(records))),
            "score": float(np.mean(clipped)),
            "score_se": float(np.std(clipped, ddof=1) / np.sqrt(len(records))),
            "median_gain": float(np.median(gains)) if gains else float("nan"),
            "submitted": float(np.mean([bool(program.source) for program in programs])),
            "valid": len(gains) / len(records),
            "experiments": float(np.mean([len(program.episode.observed) for program in programs])),
            "information": float(np.mean([sum(self.told.gains(program.episode)) for program in programs])),
            "turns": float(np.mean([len(program.episode.turns) for program in programs])),
        }


def run(
    folder: Path,
    steps: int,
    episodes: int,
    fresh: int,
    experiments: int,
    information: float | None,
    seed: int,
) -> dict[str, Any]:
    """Trains, and returns every figure by environment."""
    data = ReplayDataModule(
        tasks=[ExperimentTask(name, seed=1, experiments=experiments) for name in ENVIRONMENTS],
        batch_size=24,
        steps_per_epoch=steps,
        replay_fraction=0.3,
        seed=seed,
    )
    scoring = Measurement(
        fresh,
        reward=REWARD,
        programs_per_step=episodes,
        every_n_steps=4,
        warmup_programs=4 * episodes,
        max_in_flight=6 * episodes,
        num_workers=1,
    )
    objective: Objective = TrajectoryBalance(huber_delta=5.0)
    if information is not None:
        objective = ActionSubTrajectoryBalance(regression=Regression("huber", 5.0), information=information)
    module = GFlowNetModule(
        policy="tiny-episodes",
        tasks=data.task_names,
        objective=objective,
        optimizer=partial(torch.optim.AdamW, lr=2e-3, weight_decay=0.0),
        log_z_lr=0.5,
        sampling=SamplingSettings(max_new_tokens=160),
        seed=seed,
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[scoring],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        gradient_clip_val=1.0,
        default_root_dir=folder,
    )
    started = time.perf_counter()
    trainer.fit(module, data)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {}
    for name, when in scoring.figures.items():
        row = {f"{key}_{at}": value for at, values in when.items() for key, value in values.items()}
        row["log_reward_rise"] = row["log_reward_end"] - row["log_reward_start"]
        row["score_rise"] = row["score_end"] - row["score_start"]
        found[name] = row
    lines = sum(1 for _ in (folder / "transcripts.jsonl").open(encoding="utf-8"))
    return found | {"seconds": seconds, "training_episodes": lines, "failures": _failures(scoring)}


def _failures(scoring: EpisodeScoring) -> dict[str, int]:
    return {str(category): count for category, count in scoring.failures.most_common()}


def print_table(result: dict[str, Any]) -> None:
    """One row a figure, one column an environment."""
    table = Table(title=f"Episodes, {result['training_episodes']} for training, {result['seconds']:.0f} s")
    for column in ("figure", *ENVIRONMENTS, "target"):
        table.add_column(column)
    for name in result[ENVIRONMENTS[0]]:
        cells = (f"{result[environment][name]:.3g}" for environment in ENVIRONMENTS)
        table.add_row(name, *cells, TARGETS.get(name, ""))
    Console().print(table)
    Console().print(f"failures in training: {result['failures']}")


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="keep the run's folder with its transcripts here")
    parser.add_argument("--steps", type=int, default=200, help="training steps")
    parser.add_argument("--episodes", type=int, default=8, help="per environment and sampling round")
    parser.add_argument("--fresh", type=int, default=48, help="per environment, before and after")
    parser.add_argument("--experiments", type=int, default=3, help="budget of an episode")
    parser.add_argument("--information", type=float, help="weight of information gains, in nats a nat")
    parser.add_argument("--seed", type=int, default=0, help="of sampling and replay")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        counts = options.steps, options.episodes, options.fresh, options.experiments
        result = run(folder, *counts, options.information, options.seed)
    print_table(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
