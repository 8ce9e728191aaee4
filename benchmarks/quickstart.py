"""Runs the quickstart and measures what it promises.

    python benchmarks/quickstart.py --json quickstart.json

Trains with `fit --config configs/quickstart.yaml` in a process of its own, then samples and scores fresh
programs from
the trained and from the untrained policy, on the dugongs and on a task with invented column names.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from figures_file import figures_file
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, GFlowNetModule, ProgramScorer, Reward, get_task
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Task, baseline_program, task_prompt

ROOT = Path(__file__).resolve().parent.parent
TRAINED, UNTRAINED, INVENTED = 512, 1000, 300

TARGETS = {
    "seconds": "<= 600",
    "valid_rate": ">= 0.95",
    "evidence_gain": ">= 8",
    "structures": ">= 10",
    "best_elpd": ">= 22",
    "residual_std_ratio": ">= 4",
    "log_z_gap": "<= 0.5",
    "untrained_valid_rate": ">= 0.85",
    "untrained_structures": ">= 60",
    "untrained_top_share": "<= 0.25",
    "invented_columns_valid_rate": ">= 0.7",
}


def invented_task(folder: Path) -> Task:
    """A CSV whose column names are no words."""
    generator = np.random.default_rng(7)
    x = generator.uniform(0.5, 40, 35)
    y = 12 + 0.8 * x + generator.normal(0, 3, 35)
    path = folder / "invented.csv"
    rows = "".join(f"{a:.2f},{b:.2f}\n" for a, b in zip(x, y, strict=True))
    path.write_text("flumox_3,quenzar\n" + rows)
    return CSVTask(path, response="quenzar", description="Readings of quenzar at several flumox.")


def measure(
    module: GFlowNetModule, scorer: ProgramScorer, task: Task, reward: Reward, num_samples: int
) -> list[ProgramRecord]:
    """Fresh programs at temperature 1, scored."""
    baseline = reward.value(scorer.score(baseline_program(task), task))
    samples = module.sample(
        [task_prompt(task)], num_samples, SamplingSettings(max_new_tokens=160), Stream.BENCHMARKS.at()
    )
    futures = [scorer.submit(source, task) for source in samples.sources]
    records = []
    for row, future in enumerate(futures):
        score, reference = future.result(), float(samples.reference_log_prob[row])
        records.append(
            ProgramRecord(
                task.name,
                samples.sources[row],
                score,
                reward.log_reward(score, baseline, reference),
                float(samples.log_prob[row]),
                reference,
            )
        )
    return records


def run(config: Path, folder: Path) -> tuple[float, Path]:
    """Trains in a fresh process; seconds and run folder."""
    command = [sys.executable, "-m", "synthstats_lightning", "fit", "--config", str(config)]
    command += ["--trainer.logger.init_args.save_dir", str(folder)]
    started = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT)
    return time.perf_counter() - started, max(
        folder.glob("*/version_*"), key=lambda path: path.stat().st_mtime
    )


def figures(config: Path, folder: Path) -> dict[str, Any]:
    """Every figure, by name."""
    seconds, run_folder = run(config, folder)
    settings = yaml.safe_load((run_folder / "config.yaml").read_text())
    reward = Reward(**settings["scoring"]["reward"])
    task = get_task("dugongs")
    trained = GFlowNetModule.load_from_checkpoint(
        run_folder / "checkpoints" / "last.ckpt", map_location="cpu"
    )
    untrained = GFlowNetModule(policy=trained.policy_name)
    untrained.configure_model()
    with ProgramScorer() as scorer:
        after = measure(trained, scorer, task, reward, TRAINED)
        before = measure(untrained, scorer, task, reward, UNTRAINED)
        invented = measure(untrained, scorer, invented_task(folder), reward, INVENTED)
    log_z = trained.learned_log_z(0)
    final, initial = evaluation_metrics(after, log_z), evaluation_metrics(before, log_z)
    report = json.loads((run_folder / "report.json").read_text())["dugongs"]
    return {
        "seconds": seconds,
        "valid_rate": final["valid_rate"],
        "evidence_gain": final["evidence"] - initial["evidence"],
        "structures": int(final["structures"]),
        "best_elpd": max(form["elpd"] for form in report["forms"] if form["elpd"] is not None),
        # of the run's own 2,000 fresh programs: one failure in 512 would decide the figure
        "residual_std_ratio": initial["residual_std"] / report["residual_std"],
        "log_z_gap": abs(report["log_z_gap"]),
        "untrained_valid_rate": initial["valid_rate"],
        "untrained_structures": int(initial["structures"]),
        "untrained_top_share": initial["top_structure_share"],
        "invented_columns_valid_rate": float(np.mean([record.score.scored for record in invented])),
    }


def main() -> None:
    """Prints a table and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "quickstart.yaml")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        result = figures(options.config, Path(folder))
    table = Table(title="Quickstart")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, value in result.items():
        table.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value), TARGETS[name])
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
