"""`fit` with the tiny policy for a few steps: on every shipped task configuration and on users' own tasks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from synthstats_lightning.callbacks import UnseenTasks
from synthstats_lightning.cli.main import main
from tests.support import own_task_files
from tests.support.shared_scoring import SharedScoring, sharing_scoring

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs" / "tasks").glob("*.yaml"))
QUICK = {"eight_schools"}
STEPS = 2


@pytest.fixture(autouse=True)
def shared() -> Iterator[None]:
    with sharing_scoring():
        yield


def run(
    folder: Path,
    data: dict[str, Any] | None = None,
    unseen: dict[str, Any] | None = None,
    reward: dict[str, Any] | None = None,
) -> Path:
    config = {
        "trainer": {
            "max_steps": STEPS,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "logger": False,
        },
        "scoring": {
            "programs_per_step": 2,
            "every_n_steps": 1,
            "warmup_programs": 4,
            "synchronous": True,
            "sampling": None,
            "reward": reward or {},
        },
        "report": {"num_programs": None},
        "unseen_tasks": unseen or {},
        "data": {"init_args": {"proposal": "nothing", "batch_size": 4, **(data or {})}},
        "model": {"init_args": {"policy": "tiny", "sampling": {"max_new_tokens": 96}}},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in CONFIGS
    ],
)
def test_fit_runs(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    overlays = [f"--config={path}" for path in ("configs/quickstart.yaml", config, run(tmp_path))]
    cli = main(["fit", *overlays, "--trainer.default_root_dir", str(tmp_path)])
    tasks = cli.datamodule.tasks
    assert cli.trainer.global_step == STEPS
    assert torch.isfinite(cli.trainer.callback_metrics["train/loss"])
    scoring = next(item for item in cli.trainer.callbacks if isinstance(item, SharedScoring))
    assert {record.task for record in scoring.records} == {task.name for task in tasks}
    logged = cli.trainer.callback_metrics
    assert {f"train/log_z/{task.name}" for task in tasks} <= set(logged)


@pytest.mark.slow
def test_weights_decide_what_is_sampled_and_unseen_instances_are_measured(tmp_path: Path) -> None:
    data = {"tasks": ["dugongs", "surgical"], "task_weights": {"dugongs": 3.0}}
    collection = {"simulator": "death_process", "instances": 2, "first_seed": 50, "num_observations": 5}
    unseen = {
        "tasks": [{"class_path": "SimulatedTasks", "init_args": collection}],
        "every_n_steps": STEPS,
        "num_programs": 3,
    }
    overlay = run(tmp_path, data, unseen)
    configs = [f"--config={path}" for path in (ROOT / "configs" / "quickstart.yaml", overlay)]
    cli = main(["fit", *configs, "--trainer.default_root_dir", str(tmp_path)])
    scoring = next(item for item in cli.trainer.callbacks if isinstance(item, SharedScoring))
    # warm-up and two rounds, all in the same proportion
    assert Counter(record.task for record in scoring.records) == {"dugongs": 6 + 2 * 3, "surgical": 2 + 2 * 1}
    measured = next(item for item in cli.trainer.callbacks if isinstance(item, UnseenTasks))
    names = ["death_process/50", "death_process/51"]
    assert [(item.step, item.task) for item in measured.results] == [
        (step, name) for step in (0, STEPS) for name in names
    ]
    logged = cli.trainer.callback_metrics
    for task, count in (("dugongs", 3), ("surgical", 1)):
        newest = [record for record in scoring.records if record.task == task][-count:]
        assert logged[f"sample/programs/{task}"] == count
        mean = sum(record.log_reward for record in newest) / count
        assert logged[f"sample/log_reward/{task}"] == pytest.approx(mean)
        assert logged[f"sample/valid_rate/{task}"] == sum(item.score.scored for item in newest) / count
        assert f"train/log_z/{task}" in logged
    last = measured.results[-2:]
    assert logged["unseen/log_reward"] == pytest.approx(sum(item.log_reward for item in last) / 2)
    assert logged[f"unseen/valid_rate/{names[0]}"] == pytest.approx(last[0].valid_rate)
    assert all(0 <= item.valid_rate <= 1 and item.best_log_reward >= item.log_reward for item in last)
    assert not {record.task for record in scoring.records} & set(names)


def own_fit(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, task: str) -> Any:
    """A run from the user's folder, with the user's module beside the YAML file; returns the task."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
    (folder / f"{module}.py").write_text(source)
    (folder / "task.yaml").write_text(task)
    reward = {"score": "heldout_lpd"}
    configs = (ROOT / "configs" / "quickstart.yaml", "task.yaml", run(folder, reward=reward))
    try:
        cli = main(["fit", *(f"--config={path}" for path in configs), "--trainer.default_root_dir", "."])
    finally:
        sys.modules.pop(module, None)
    scoring = next(item for item in cli.trainer.callbacks if isinstance(item, SharedScoring))
    scored = [record.score for record in scoring.records if record.score.scored]
    assert scored
    assert all(score.heldout_lpd is not None for score in scored)
    return cli.datamodule.tasks[0]


def test_a_simulator_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = own_fit(tmp_path, monkeypatch, "coffee", own_task_files.SIMULATOR, own_task_files.SIMULATOR_YAML)
    assert (task.name, task.num_rows, task.held_out) == ("coffee", 16, 4)
    assert task.simulator.noise == 2.0


def test_data_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = [0.3, 0.8, 0.9, 1.4, 1.5, 2.1, 2.0, 2.6]
    lines = [f"{dose},{height}" for dose, height in enumerate(heights)]
    (tmp_path / "plants.csv").write_text("\n".join(["dose,height", *lines]) + "\n")
    task = own_fit(tmp_path, monkeypatch, "plants", own_task_files.DATA, own_task_files.DATA_YAML)
    assert (task.name, task.num_rows, task.held_out) == ("plants", 8, 2)
    assert task.units["height"] == "metres"
