"""A run that is killed at random moments and resumed is the run that was not, step for step."""

from __future__ import annotations

import contextlib
import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO, newest_checkpoint
from synthstats_lightning.runtime.durable_files import is_temporary
from tests.ranks.processes import ROOT, alive, wait_until
from tests.runtime.test_checkpoints import small_disk

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["synthstats_lightning.cli.lightning", "synthstats_lightning.testing.fakes"])
"""Its processes need not import everything anew."""
FAKE = {"class_path": "synthstats_lightning.testing.fakes.FakeExecutor"}


def configuration(folder: Path, steps: int, devices: int, real: bool) -> Path:
    """Dropout, annealed exploration and rewards, schedules, epochs that checkpoints straddle."""
    way = {"beta": {"start": 0.25, "steps": 2 * steps // 3}} if real else {"adapted_by": 0.9}
    scoring = {
        "synchronous": True,
        "programs_per_step": 3,
        "every_n_steps": 2,
        "warmup_programs": 8,
        "num_workers": 1,
        "reward": {"prior_weight": 1.0, "floor": -5.0, "log_reward_failure": -8.0},
        "reward_schedule": way,
        "sampling": {"temperature": 1.3, "max_new_tokens": 80},
        "anneal_steps": steps,
        "prefix_resampling_fraction": 0.34,
    }
    if not real:
        scoring["executor"] = FAKE
    run = {
        "trainer": {
            "accelerator": "cpu",
            "devices": devices,
            "max_steps": steps,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "logger": {
                "class_path": "lightning.pytorch.loggers.CSVLogger",
                "init_args": {"save_dir": str(folder), "name": "run", "flush_logs_every_n_steps": 1},
            },
        },
        "scoring": scoring,
        "metrics": {"every_n_steps": 4, "num_programs": 3},
        "report": {"num_programs": None},
        "checkpoint": {"every_n_train_steps": 1, "save_last": True},
        "data": {
            "class_path": "ReplayDataModule",
            "init_args": {"proposal": "nothing", "batch_size": 6, "steps_per_epoch": 5},
        },
        "model": {
            "class_path": "GFlowNetModule",
            "init_args": {
                "policy": "tiny",
                "lora": {"rank": 4, "dropout": 0.2},
                "sampling": {"max_new_tokens": 80},
            },
        },
    }
    if devices > 1:
        run["trainer"]["strategy"] = "ddp"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    return path


def arguments(config: Path) -> list[str]:
    quickstart = str(ROOT / "configs" / "quickstart.yaml")
    return ["fit", "--config", quickstart, "--config", str(config), "--ckpt_path", "last"]


def losses(folder: Path) -> dict[int, set[tuple[float, ...]]]:
    """What every leg of a run has logged of each step."""
    rows: dict[int, set[tuple[float, ...]]] = {}
    for path in (folder / "run").glob("version_*/metrics.csv"):
        with path.open() as file:
            for row in csv.DictReader(file):
                # the last line may be torn: its writer was killed
                with contextlib.suppress(TypeError, ValueError):
                    names = ("train/loss", "train/log_z/dugongs", "train/log_prob")
                    values = tuple(float(row[name]) for name in names if row.get(name))
                    if values:
                        rows.setdefault(int(row["step"]), set()).add(values)
    return rows


def end(folder: Path) -> dict:
    """What the newest checkpoint holds, without what is measured by the clock."""
    saved = torch.load(newest_checkpoint([folder]), weights_only=True)
    scoring = saved["callbacks"]["ProgramScoring"]["ranks"]
    for rank in scoring:
        # the type checks of these tests draw from Python's own stream
        del rank["random_state"]["python"]
        rank["records"] = [timeless(json.loads(line)) for line in rank["records"].splitlines()]
    names = ("state_dict", "optimizer_states", "lr_schedulers", "ReplayDataModule", "global_step", "epoch")
    return {name: saved[name] for name in names} | {"scoring": scoring}


def timeless(record):
    if isinstance(record, dict):
        return {key: timeless(value) for key, value in record.items() if key != "seconds"}
    return record


def assert_equal(one, two, where="checkpoint"):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two), where
    elif isinstance(one, dict):
        assert one.keys() == two.keys(), where
        for key in one:
            assert_equal(one[key], two[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), where
        for index, pair in enumerate(zip(one, two, strict=True)):
            assert_equal(*pair, f"{where}[{index}]")
    else:
        assert one == two, where


class Run:
    """A run in a process of its own: of the server, or, as a user starts it, of a new interpreter."""

    def __init__(self, config: Path, typed: bool) -> None:
        self.started = time.time()
        if typed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "synthstats_lightning", *arguments(config)],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        else:
            self.process = SERVER.Process(target=main, args=(arguments(config),))
            self.process.start()

    @property
    def status(self) -> int | None:
        """Exit status, `None` while it runs."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()
        if isinstance(self.process, subprocess.Popen):
            self.process.wait(60)
        else:
            self.process.join(60)


def killed(config: Path, delay: float, typed: bool) -> set[int]:
    """Starts or resumes a run and kills it some time after its first new checkpoint.

    Args:
        config: Of the run.
        delay: Seconds.
        typed: Whether it is started as a user does.

    Returns:
        Process ids of what it had started.
    """
    run = Run(config, typed)

    def new_checkpoint():
        files = [path for path in config.parent.rglob("*.ckpt") if not is_temporary(path)]
        return run.status is not None or any(_modified(path) > run.started for path in files)

    try:
        wait_until(new_checkpoint, 150, "a checkpoint")
        time.sleep(delay)
        found = descendants(run.process.pid)
    finally:
        run.kill()
    assert run.status in (0, -signal.SIGKILL)
    return found


def _modified(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _gone(workers: set[int]) -> bool:
    return not any(alive(pid) for pid in workers)


def descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def finish(config: Path, devices: int) -> None:
    """Runs to the end: in this process, or, on several, in others."""
    if devices == 1:
        main(arguments(config))
        return
    command = [sys.executable, "-m", "synthstats_lightning", *arguments(config)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def check(folder: Path, delays: list[float], steps: int, devices: int = 1, real: bool = False) -> None:
    whole = configuration(folder / "whole", steps, devices, real)
    with warnings.catch_warnings():
        # Lightning says that there is no checkpoint yet
        warnings.filterwarnings("ignore", ".*there is no last checkpoint available.*")
        finish(whole, devices)
    torn = configuration(folder / "torn", steps, devices, real)
    for delay in delays:
        workers = killed(torn, delay, typed=real or devices > 1)
        wait_until(partial(_gone, workers), 40, f"the end of {workers}")
    finish(torn, devices)
    expected, found = losses(whole.parent), losses(torn.parent)
    assert all(len(values) == 1 for values in expected.values())
    assert len(expected) == steps
    # Lightning writes a step's row after the step's checkpoint: a kill between the two loses the row
    missing = expected.keys() - found.keys()
    assert len(missing) <= len(delays)
    assert found == {step: values for step, values in expected.items() if step not in missing}
    assert_equal(end(torn.parent), end(whole.parent))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_kills(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    generator = np.random.default_rng(int.from_bytes(os.urandom(4)))
    check(tmp_path, generator.uniform(0, 0.8, size=2).tolist(), steps=11)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_kills_with_real_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    generator = np.random.default_rng(int.from_bytes(os.urandom(4)))
    check(tmp_path, generator.uniform(0, 3, size=10).tolist(), steps=60, real=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    generator = np.random.default_rng(int.from_bytes(os.urandom(4)))
    check(tmp_path, generator.uniform(0, 1.5, size=3).tolist(), steps=24, devices=2)


def test_a_full_disk_ends_the_run_with_one_line(tmp_path, monkeypatch, capsys):
    """From step 3 on no file may grow; the checkpoint before stays, and the run goes on from it."""
    monkeypatch.chdir(ROOT)
    config = configuration(tmp_path / "full", 4, 1, real=False)
    save = DurableCheckpointIO.save_checkpoint

    def limited(self, checkpoint, path, storage_options=None):
        with small_disk() if checkpoint["global_step"] >= 3 else contextlib.nullcontext():
            save(self, checkpoint, path, storage_options)

    monkeypatch.setattr(DurableCheckpointIO, "save_checkpoint", limited)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*there is no last checkpoint available.*")
        with pytest.raises(SystemExit) as stop:
            main(arguments(config))
    assert stop.value.code == 1
    error = capsys.readouterr().err
    (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
    kept = newest_checkpoint([config.parent])
    assert "no room for the checkpoint" in line
    assert f"resume from {kept}" in line
    assert "Traceback" not in error
    assert torch.load(kept, weights_only=True)["global_step"] == 2
    torn = tmp_path / "step9.ckpt"
    torn.write_bytes(kept.read_bytes()[:-1000])
    with pytest.raises(SystemExit) as stop:
        main([*arguments(config)[:-1], str(torn)])
    assert stop.value.code == 2
    assert f"error: torn checkpoint: {torn}" in capsys.readouterr().err
