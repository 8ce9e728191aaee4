"""The worker's life: starting, being killed, hanging, ending with the trainer."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox import Sandbox, SandboxError, SandboxLimits, process
from synthstats_lightning.sandbox.inside.supervise import Supervisor
from synthstats_lightning.sandbox.inside.worker import ABSENT_FROM_PYMC_5, _try
from synthstats_lightning.sandbox.outcome import Outcome
from synthstats_lightning.sandbox.protocol import Job
from tests.sandbox.conftest import COVARIATES, LINEAR, SCHEMA
from tests.sandbox.observe import descendants, gone, scratch


@pytest.fixture(scope="module")
def own() -> Iterator[Sandbox]:
    """A sandbox that the test may hurt."""
    with Sandbox(SandboxLimits(wall_seconds=20.0)) as sandbox:
        yield sandbox.start()


@pytest.mark.skipif(not version("pymc").startswith("5."), reason="PyMC 6 needs numba")
@pytest.mark.parametrize("package", sorted(ABSENT_FROM_PYMC_5))
def test_what_pymc_5_does_without_is_not_there(own: Sandbox, package: str) -> None:
    assert own.execute(f"import sys; print([name for name in sys.modules if name == {package!r}])") == "[]\n"
    with pytest.raises(ProgramFailure, match=f"No module named '{package}'") as caught:
        own.execute(f"import {package}")
    assert caught.value.category is FailureCategory.RAISED


def test_killed_between_programs(own: Sandbox) -> None:
    restarts = own.restarts
    graph, first, folder = own.build(LINEAR, SCHEMA, COVARIATES), own.pid, scratch(own)
    os.kill(first, signal.SIGKILL)
    assert own.build(LINEAR, SCHEMA, COVARIATES) == graph
    assert own.pid != first
    assert own.restarts == 1 + restarts
    assert not folder.exists()


@pytest.mark.long
def test_killed_during_a_program(own: Sandbox) -> None:
    """Lost once: the program gets another chance. Lost twice: the program is held responsible."""
    restarts = own.start().restarts
    errors: list[BaseException] = []

    def run() -> None:
        try:
            own.build("import time; time.sleep(15)", SCHEMA, COVARIATES)
        except ProgramFailure as failure:
            errors.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    killed = []
    while len(killed) < 2 and thread.is_alive():
        worker = own.pid
        if worker is not None and worker not in killed:
            programs = descendants(worker)
            if programs:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
                assert all(gone(program) for program in programs)
        time.sleep(0.02)
    thread.join()
    assert own.restarts == 2 + restarts
    (failure,) = errors
    assert isinstance(failure, ProgramFailure)
    assert failure.category is FailureCategory.KILLED
    assert own.execute("print(1)") == "1\n"


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stopped_worker_is_replaced(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the program gets another chance. Twice: it has none."""
    monkeypatch.setattr(process, "_GRACE", 0.5)
    run, stopped = process.WorkerProcess.run, []

    def stop(worker: process.WorkerProcess, request: bytes) -> object:
        if len(stopped) < times:
            stopped.append(worker.pid)
            os.kill(worker.pid, signal.SIGSTOP)
        return run(worker, request)

    monkeypatch.setattr(process.WorkerProcess, "run", stop)
    with Sandbox() as sandbox:
        if times == 1:
            assert json.loads(sandbox.build(LINEAR, SCHEMA, COVARIATES))["nodes"]
        else:
            with pytest.raises(ProgramFailure, match="the worker hung twice") as caught:
                sandbox.build(LINEAR, SCHEMA, COVARIATES)
            assert caught.value.category is FailureCategory.TIMEOUT
        assert sandbox.restarts == times == len(stopped)
        assert all(gone(worker) for worker in stopped)


@pytest.mark.parametrize(("timed_out", "said"), [(True, "ran out of time"), (False, "exit code 3: no room")])
def test_a_worker_that_cannot_run_an_empty_program_says_so(timed_out: bool, said: str) -> None:
    class Failing(Supervisor):
        def __init__(self) -> None:
            pass

        def run(self, job: Job) -> tuple[Outcome, bytes, bytes]:
            return Outcome(3, timed_out, False, False, 0.0, 0.0), b"", b"no room\n"

    with pytest.raises(RuntimeError, match=f"a program cannot be confined here: an empty one .*{said}"):
        _try(Failing())


TRAINER = """
import sys, time, threading
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
sandbox = Sandbox(SandboxLimits(wall_seconds=60.0)).start()
print(sandbox.pid, flush=True)
threading.Thread(target=sandbox.execute, args=("import time; time.sleep(50)",), daemon=True).start()
time.sleep(60)
"""


def test_nothing_outlives_a_killed_trainer() -> None:
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, cwd=root, text=True
    ) as trainer:
        worker = int(trainer.stdout.readline())
        folder = Path(os.readlink(f"/proc/{worker}/cwd"))
        deadline = time.monotonic() + 20
        while not (programs := descendants(worker)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        trainer.kill()
    assert gone(worker)
    assert all(gone(program) for program in programs)
    deadline = time.monotonic() + 5
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_start_in_parallel_close_and_start_again() -> None:
    sandboxes = [Sandbox(), Sandbox()]
    for sandbox in sandboxes:
        sandbox.start(wait=False)
    pids = [sandbox.pid for sandbox in sandboxes]
    folders = [scratch(sandbox) for sandbox in sandboxes]
    assert len(set(pids)) == 2
    sandboxes[1].close()
    sandboxes[1].close()
    assert sandboxes[1].pid is None
    assert sandboxes[0].execute("print(1)") == "1\n"
    sandboxes[0].close()
    assert all(gone(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)
    assert sandboxes[0].start(wait=False).pid not in pids
    assert sandboxes[0].restarts == 0
    sandboxes[0].close()


def test_a_forgotten_sandbox_leaves_nothing() -> None:
    sandbox = Sandbox().start(wait=False)
    pid, folder = sandbox.pid, scratch(sandbox)
    del sandbox
    gc.collect()
    assert gone(pid)
    assert not folder.exists()


def test_threads_wait_for_each_other(sandbox: Sandbox) -> None:
    printed = []
    threads = [
        threading.Thread(target=lambda i=i: printed.append(sandbox.execute(f"print({i})"))) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(printed) == [f"{i}\n" for i in range(8)]


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text("import sys; sys.exit('no PyMC here')")
    monkeypatch.setattr(process, "START_SCRIPT", script)
    with pytest.raises(SandboxError, match="the sandbox worker died: no PyMC here"):
        Sandbox().start()
    script.write_text("import time; time.sleep(60)")
    with pytest.raises(SandboxError, match=r"was not ready after 0.3 s"):
        Sandbox(start_timeout=0.3).start()


def test_worker_has_no_torch_and_nothing_of_our_environment(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    environment = process.worker_environment(Path("/somewhere"))
    assert "SECRET_TOKEN" not in environment
    assert environment["HOME"] == "/somewhere"
    content = Path(f"/proc/{sandbox.pid}/environ").read_bytes().decode()
    assert "PATH=" in content
    assert {entry.partition("=")[0] for entry in content.split("\0") if entry} <= {
        *environment,
        "LD_LIBRARY_PATH",
    }
    assert sandbox._worker.greeting["torch"] is False
    assert sandbox._worker.greeting["threads"] == 1
    maps = Path(f"/proc/{sandbox.pid}/maps").read_text()
    assert "libtorch" not in maps


def test_arguments_are_checked() -> None:
    with Sandbox() as sandbox:
        with pytest.raises(ValueError, match=r"covariates must be \['age', 'site'\], got \['age'\]"):
            sandbox.build(LINEAR, SCHEMA, {"age": COVARIATES["age"]})
        with pytest.raises(ValueError, match=r"covariate 'site' must be int64 of shape \(9,\), got float64"):
            sandbox.build(LINEAR, SCHEMA, {**COVARIATES, "site": COVARIATES["age"]})
        with pytest.raises(ValueError, match=r"must be float64 of shape \(9,\), got float64 of shape \(8,\)"):
            sandbox.build(LINEAR, SCHEMA, {**COVARIATES, "age": COVARIATES["age"][:8]})
        assert sandbox.pid is None
    with pytest.raises(ValueError, match=r"start_timeout must be a positive number of seconds, got 0\.0"):
        Sandbox(start_timeout=0.0)


def test_large_data_cross_the_pipe(sandbox: Sandbox) -> None:
    rows = 200_000
    schema = DataSchema({"x": "float64"}, "y", "float64", rows)
    source = "with pm.Model() as model:\n    pm.Normal('o', np.exp(x) * pm.Normal('a'), 1, observed=y)"
    graph = json.loads(sandbox.build(source, schema, {"x": np.linspace(0, 1, rows)}))
    assert [node["op"] for node in graph["nodes"]].count("covariate") == 1
    with pytest.raises(ProgramFailure) as caught:
        sandbox.build(source.replace("np.exp(x)", "np.sort(x)"), schema, {"x": np.linspace(1, 0, rows)})
    assert caught.value.category is FailureCategory.OUTPUT
