"""Runs of several processes, and what they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(script: Path | list[str], *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python process in a session of its own, one thread, the test's own folder first in the path."""
    command = [str(script)] if isinstance(script, Path) else script
    return subprocess.Popen(
        [sys.executable, *command, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a test run in the background of a shell hands down that interrupts are ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(process: subprocess.Popen[str], timeout: float) -> str:
    """What a process printed; it is an error if it failed."""
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


def wait_until(condition, timeout: float, what: str):
    """The first true value of a condition."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen in {timeout} seconds")


def alive(pid: int) -> bool:
    """Whether a process runs; zombies do not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def descendants(pid: int) -> dict[int, str]:
    """Processes that a process has started, and those have started, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    lines = {}
    for child in found - {pid}:
        with contextlib.suppress(OSError):
            lines[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return lines


def short_run(folder: Path, overlay: str, saved_every: str | int) -> Callable[[int], list[str]]:
    """From a number of steps to a command that trains by a shipped overlay of `configs/trainer`, made short.

    Args:
        folder: Of logs and checkpoints (in `saved`).
        overlay: Its file.
        saved_every: Time or steps between checkpoints.
    """
    run = yaml.safe_load((ROOT / "configs/trainer" / overlay).read_text())
    run["scoring"] |= {
        "programs_per_step": 2,
        "every_n_steps": 1,
        "warmup_programs": 4,
        "exchange_every_n_steps": 2,
        "sampling": None,
    }
    clocks = ["every_n_train_steps", "train_time_interval"]
    given, other = clocks if isinstance(saved_every, int) else reversed(clocks)
    saving = {"dirpath": str(folder / "saved"), given: saved_every, other: None}
    run["checkpoint"] = {**run.get("checkpoint", {}), **saving}
    run["report"] = {"num_programs": None}
    run["trainer"] |= {"log_every_n_steps": 1, "enable_progress_bar": False}
    run["data"] = {"init_args": {"proposal": "nothing", "batch_size": 4}}
    run["model"] = {"init_args": {"policy": "tiny", "sampling": {"max_new_tokens": 100}}}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run))

    def command(steps: int) -> list[str]:
        quickstart = ["--config", "configs/quickstart.yaml", "--config", str(path)]
        here = ["--trainer.logger.init_args.save_dir", str(folder), "--trainer.max_steps", str(steps)]
        return ["-m", "synthstats_lightning", "fit", *quickstart, *here]

    return command
