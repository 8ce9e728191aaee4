"""Runs the quickstart and measures what it promises.

    python benchmarks/quickstart.py --json quickstart.json

Trains with `fit --config configs/quickstart.yaml` in a process of its own, once a seed, then samples and
scores fresh programs of the trained and of the untrained policy, on the dugongs and on a task with invented
column names. Of the runs the worst counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from figures_file import Options, figures_file
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, GFlowNetModule, ProgramScorer, Reward, get_task
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Task, baseline_program, task_prompt
from synthstats_lightning.tasks.proposal import looking

ROOT = Path(__file__).resolve().parent.parent
TRAINED, UNTRAINED, INVENTED = 512, 1000, 300

TARGETS = {
    "seconds": "<= 240",
    "log_z": "",
    "log_z_gap": "<= 0.5",
    "residual_std": "<= 1.5",
    "effective_share": ">= 0.3",
    "forms_above_1_percent": ">= 4",
    "distinct_programs": "",
    "valid_rate": ">= 0.95",
    "best_elpd": ">= 22",
    "structures": ">= 10",
    "evidence_gain": "",
    "untrained_valid_rate": ">= 0.85",
    "untrained_structures": ">= 60",
    "untrained_effective_share": "",
    "invented_columns_valid_rate": ">= 0.7",
}
"""What each figure is asked for; no text where none is."""
WORST = {name: max if target.startswith("<") else min for name, target in TARGETS.items()}
"""Of several runs' figures the worse one."""


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
    """Fresh programs at the run's own temperature, scored."""
    baseline = reward.value(scorer.score(baseline_program(task), task))
    samples = module.sample([task_prompt(task)], num_samples, module.sampling, Stream.BENCHMARKS.at())
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


def run(config: Path, seed: int, folder: Path) -> tuple[float, Path]:
    """Trains in a fresh process; seconds and run folder."""
    command = [sys.executable, "-m", "synthstats_lightning", "fit", "--config", str(config)]
    command += [f"--seed_everything={seed}", f"--trainer.logger.init_args.save_dir={folder}"]
    started = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT)
    return time.perf_counter() - started, max(
        folder.glob("*/version_*"), key=lambda path: path.stat().st_mtime
    )


def of_run(seconds: float, folder: Path) -> dict[str, Any]:
    """Figures that a run's own report holds."""
    report = json.loads((folder / "report.json").read_text())["dugongs"]
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    return {
        "seconds": seconds,
        "log_z": report["log_z_importance"],
        "log_z_gap": abs(report["log_z_gap"]),
        "residual_std": report["residual_std"],
        "effective_share": report["effective_sample_size"] / settings["report"]["num_programs"],
        "forms_above_1_percent": sum(form["share"] > 0.01 for form in report["forms"]),
        "distinct_programs": len((folder / "programs.jsonl").read_text().splitlines()),
        "best_elpd": max(form["elpd"] for form in report["forms"] if form["elpd"] is not None),
    }


def of_policies(run_folder: Path, folder: Path) -> dict[str, Any]:
    """Figures of fresh programs of a trained and of the untrained policy."""
    settings = yaml.safe_load((run_folder / "config.yaml").read_text())
    reward, proposal = Reward(**settings["scoring"]["reward"]), settings["data"]["init_args"]["proposal"]
    task, other = (looking(item, proposal) for item in (get_task("dugongs"), invented_task(folder)))
    trained = GFlowNetModule.load_from_checkpoint(
        run_folder / "checkpoints" / "last.ckpt", map_location="cpu"
    )
    untrained = GFlowNetModule(policy=trained.policy_name, sampling=trained.sampling)
    untrained.configure_model()
    with ProgramScorer() as scorer:
        after = measure(trained, scorer, task, reward, TRAINED)
        before = measure(untrained, scorer, task, reward, UNTRAINED)
        invented = measure(untrained, scorer, other, reward, INVENTED)
    log_z = trained.learned_log_z(0)
    final, initial = evaluation_metrics(after, log_z), evaluation_metrics(before, log_z)
    return {
        "valid_rate": final["valid_rate"],
        "structures": int(final["structures"]),
        "evidence_gain": final["evidence"] - initial["evidence"],
        "untrained_valid_rate": initial["valid_rate"],
        "untrained_structures": int(initial["structures"]),
        "untrained_effective_share": initial["effective_sample_size"] / UNTRAINED,
        "invented_columns_valid_rate": float(np.mean([record.score.scored for record in invented])),
    }


def figures(config: Path, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """The worst of every figure over the runs, by name, and what each run had."""
    runs = []
    for seed in seeds:
        seconds, run_folder = run(config, seed, folder)
        runs.append({**of_run(seconds, run_folder), **of_policies(run_folder, folder)})
    return {**{name: WORST[name](one[name] for one in runs) for name in TARGETS}, "runs": runs}


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "quickstart.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        result = figures(options.config, options.seeds, Path(folder))
    table = Table(title="Quickstart")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, target in TARGETS.items():
        value = result[name]
        table.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value), target)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
