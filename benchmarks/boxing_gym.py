"""BoxingGym's environments: what the environment's own program, the intercept-only one and a policy predict.

    python benchmarks/boxing_gym.py --json boxing_gym.json
    python benchmarks/boxing_gym.py --policy tiny

For each environment, instances of seeds 1 to 5 are observed at random designs; after 0, 1, 3, 5, 7 and 10
experiments programs predict ten evaluation points of the same instance. Without `--checkpoint` a bundled
policy (`--policy`; the writer, which reads a digest of the data) is first trained on other instances of the
environments (seeds from 100 on), for `--steps` steps; with 0 steps it is evaluated as it is.
Figures are means over instances, never over environments; `raw_error` is in the environment's own metric.
With `--reference-errors`, what `boxing_gym_parts/reference_errors.py` says instead: what standardised errors
refer to.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from boxing_gym_parts.reference_errors import errors_of
from figures_file import Options, figures_file
from rich.console import Console

from synthstats_lightning import GFlowNetModule, ProgramScorer, ProgramScoring, ReplayDataModule
from synthstats_lightning.cli.evaluate.policy_argument import named_policy
from synthstats_lightning.evaluation.entrants import Writer
from synthstats_lightning.evaluation.measurement import Measurement, summarise
from synthstats_lightning.evaluation.protocol import EnvironmentRun
from synthstats_lightning.evaluation.report import environment_table, notes
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.objectives import TrajectoryBalance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.task_collection import SimulatedTasks

MAX_MINUTES = 30
FIRST_TRAINING_SEED = 100
TRAINING_INSTANCES = 2
PROPOSALS = {"writer": "digest", "tiny": "nothing"}
"""What each policy's prompt shows of the data."""
LENGTHS = {"writer": 256, "tiny": 160}
"""Most tokens of a program of each."""
TIME_LIMIT = 60.0
"""Processor seconds of one prediction: the emotions' own program has forty parameters."""


def train(policy: str, environments: list[str], steps: int, workers: int, cache: Path, folder: Path) -> Path:
    """A bundled policy, trained across instances that are not evaluated; its checkpoint, in `folder`."""
    tokens = LENGTHS[policy]
    tasks = [
        SimulatedTasks(name, TRAINING_INSTANCES, FIRST_TRAINING_SEED, response_range="prior")
        for name in environments
    ]
    data = ReplayDataModule(
        tasks=tasks, proposal=PROPOSALS[policy], batch_size=64, replay_fraction=0.3, seed=0
    )
    module = GFlowNetModule(
        policy=policy,
        tasks=data.task_names,
        lora=LoraSettings(rank=16, alpha=32.0),
        objective=TrajectoryBalance(huber_delta=5.0),
        optimizer=functools.partial(torch.optim.AdamW, lr=1.5e-3, weight_decay=0.0),
        log_z_lr=0.5,
        sampling=SamplingSettings(max_new_tokens=tokens),
        seed=0,
    )
    scoring = ProgramScoring(
        programs_per_step=2,
        every_n_steps=4,
        warmup_programs=6,
        max_in_flight=96,
        sampling=SamplingSettings(max_new_tokens=tokens, temperature=1.2),
        anneal_steps=steps,
        num_workers=workers,
        score_cache=str(cache),
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=steps,
        callbacks=[scoring],
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        default_root_dir=str(folder),
    )
    trainer.fit(module, datamodule=data)
    trainer.save_checkpoint(folder / "boxing_gym.ckpt")
    return folder / "boxing_gym.ckpt"


def evaluate(
    environments: list[str],
    settings: EvaluationSettings,
    writer: Writer | None,
    workers: int,
    console: Console,
    path: Path | None,
) -> list[Measurement]:
    """Every measurement; each environment is printed, and written to `path`, as soon as it is done."""
    found: list[Measurement] = []
    with ProgramScorer(workers, settings=EngineSettings(time_limit=TIME_LIMIT)) as scorer:
        # one environment ahead, so that the pool has work while the last programs of another are awaited
        ahead = [EnvironmentRun(SIMULATORS[environments[0]](), scorer, settings, policy=writer)]
        for name, following in zip(environments, [*environments[1:], None], strict=True):
            started = time.perf_counter()
            if following is not None:
                ahead.append(EnvironmentRun(SIMULATORS[following](), scorer, settings, policy=writer))
            own = list(ahead.pop(0).measurements())
            found += own
            seconds = time.perf_counter() - started
            console.print(environment_table(name, summarise(own), f"{name} ({seconds:.0f} s)"))
            for line in notes(own):
                console.print(line, markup=False, soft_wrap=True)
            if path is not None:
                lines = "".join(json.dumps(item.to_dict()) + "\n" for item in found)
                path.write_text(lines, encoding="utf-8")
    return found


def parse() -> argparse.Namespace:
    """The command line."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="write the table to this file")
    parser.add_argument("--measurements", type=Path, help="write every measurement, one a line, to this file")
    parser.add_argument(
        "--environments", nargs="+", default=list(SIMULATORS), choices=list(SIMULATORS), metavar="NAME"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--budgets", nargs="+", type=int, default=[0, 1, 3, 5, 7, 10])
    parser.add_argument("--checkpoint", type=Path, help="a trained policy; trains one by default")
    parser.add_argument("--policy", choices=list(PROPOSALS), default="writer", help="which one to train")
    parser.add_argument("--no-policy", action="store_true", help="only oracle and baseline")
    parser.add_argument("--steps", type=int, default=160, help="training steps without a checkpoint")
    parser.add_argument("--programs", type=int, default=8, help="programs of the policy for each instance")
    parser.add_argument("--weighting", choices=["evidence", "stacking"], default="evidence")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="scoring processes")
    parser.add_argument("--reference-errors", action="store_true", help="what standardised errors refer to")
    parser.add_argument("--folder", type=Path, help="keep the checkpoint and the cache of scores here")
    return parser.parse_args()


def main() -> None:
    """Prints the tables and writes JSON."""
    options = parse()
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    # Lightning's own calls, about which nothing can be done here
    warnings.filterwarnings("ignore", category=FutureWarning, module="lightning.pytorch.utilities._pytree")
    console = Console()
    console.width = max(console.width, 110)
    if options.reference_errors:
        figures, table = errors_of(options.environments)
        Console(width=200).print(table)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        return
    started = time.perf_counter()
    settings = EvaluationSettings(
        budgets=tuple(options.budgets), seeds=tuple(options.seeds), weighting=options.weighting
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        given: str | None = None if options.checkpoint is None else str(options.checkpoint)
        if given is None and not options.no_policy:
            given = options.policy
            if options.steps:
                cache = folder / "scores.sqlite"
                given = str(train(given, options.environments, options.steps, options.workers, cache, folder))
                console.print(f"trained {options.steps} steps in {time.perf_counter() - started:.0f} s")
        measurements = evaluate(
            options.environments,
            settings,
            None if given is None else named_policy(given, options.programs).entrant,
            options.workers,
            console,
            options.measurements,
        )
    result: dict[str, Any] = {**summarise(measurements), "seconds": time.perf_counter() - started}
    console.print(f"{result['seconds']:.0f} seconds (target: at most {60 * MAX_MINUTES})")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
