"""One tiny policy trained on six simulated environments for 300 steps, and tried on six unseen instances.

    python benchmarks/training/six_tasks.py --json six_tasks.json

JSON: `{"seen": {task: {...}}, "unseen": {task: {...}}, "steps", "seconds"}`, for each task `valid_rate`
(share of fresh programs with a score at the end; target at least 0.7), `valid_rate_start`,
`log_reward_start` and `log_reward_end` (mean over fresh programs at temperature 1, nats; target: it rises).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import yaml
from rich.console import Console
from rich.table import Table

from synthstats_lightning.callbacks import UnseenTasks
from synthstats_lightning.callbacks.unseen_tasks import UnseenResult
from synthstats_lightning.cli.main import main as run_command

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
VALID_RATE = 0.7


class SeenTasks(UnseenTasks):
    """The same measurement on the tasks of the run."""

    prefix: ClassVar[str] = "seen"


def configuration(steps: int, programs: int) -> dict[str, Any]:
    """The shipped overlay, with the run's own tasks measured as well.

    Args:
        steps: Training steps.
        programs: Fresh programs a task and measurement.
    """
    config: dict[str, Any] = yaml.safe_load((CONFIGS / "six_tasks.yaml").read_text())
    config["trainer"] |= {"max_steps": steps, "enable_progress_bar": False}
    config["model"]["init_args"]["lr_scheduler"]["init_args"]["T_max"] = steps
    measured = {"every_n_steps": steps, "num_programs": programs}
    config["unseen_tasks"] |= measured
    config["report"] = {"num_programs": None}
    seen = {"tasks": config["data"]["init_args"]["tasks"], **measured}
    own = {"class_path": f"{SeenTasks.__module__}.{SeenTasks.__qualname__}", "init_args": seen}
    config["trainer"]["callbacks"] = [own]
    return config


def summary(results: list[UnseenResult]) -> dict[str, dict[str, float]]:
    """First and last measurement of each task."""
    tasks = dict.fromkeys(result.task for result in results)
    found = {}
    for task in tasks:
        own = [result for result in results if result.task == task]
        found[task] = {
            "valid_rate": own[-1].valid_rate,
            "valid_rate_start": own[0].valid_rate,
            "log_reward_start": own[0].log_reward,
            "log_reward_end": own[-1].log_reward,
        }
    return found


def run(steps: int, programs: int) -> dict[str, Any]:
    """Trains once and measures at both ends."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder) / "six_tasks.yaml"
        overlay.write_text(yaml.safe_dump(configuration(steps, programs)))
        configs = [f"--config={path}" for path in (CONFIGS / "quickstart.yaml", overlay)]
        cli = run_command(
            [
                "fit",
                *configs,
                f"--trainer.default_root_dir={folder}",
                f"--trainer.logger.init_args.save_dir={folder}",
            ]
        )
    callbacks = [item for item in cli.trainer.callbacks if isinstance(item, UnseenTasks)]
    by_kind = {type(item).prefix: summary(item.results) for item in callbacks}
    return {**by_kind, "steps": steps, "seconds": time.perf_counter() - started}


def table(document: dict[str, Any]) -> Table:
    """The figures beside their targets."""
    shown = Table(title=f"Six tasks, {document['steps']} steps, {document['seconds']:.0f} s")
    for heading in ("tasks", "task", f"valid rate (≥ {VALID_RATE})", "log reward, start", "end (rises)"):
        shown.add_column(heading)
    for kind in ("seen", "unseen"):
        for task, row in document[kind].items():
            good = row["valid_rate"] >= VALID_RATE and row["log_reward_end"] > row["log_reward_start"]
            cells = (
                f"{row['valid_rate']:.2f}",
                f"{row['log_reward_start']:.2f}",
                f"{row['log_reward_end']:.2f}",
            )
            shown.add_row(kind, task, *cells, style="" if good else "red")
    return shown


def main() -> None:
    """Runs, prints and writes."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--programs", type=int, default=64, help="fresh programs a task and measurement")
    arguments = parser.parse_args()
    document = run(arguments.steps, arguments.programs)
    Console().print(table(document))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
