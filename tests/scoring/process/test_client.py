from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from synthstats_lightning.pool.program_worker import task_message
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.runtime.child_process import ChildProcess, StartError
from synthstats_lightning.scoring.process import client as client_module
from synthstats_lightning.scoring.process.client import ScoringClient
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import get_task

pytestmark = pytest.mark.long

MESSAGE = task_message(get_task("dugongs"))


@pytest.fixture
def client() -> Iterator[ScoringClient]:
    found = ScoringClient(EngineSettings(time_limit=1.0))
    yield found
    found.close()


def kill_when_there(client: ScoringClient) -> None:
    """Kills the scoring process as soon as there is one."""
    while client.pid is None:
        time.sleep(0.001)
    os.kill(client.pid, signal.SIGKILL)


def test_a_process_that_is_killed_while_it_starts_is_replaced(client: ScoringClient) -> None:
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(client.start)
        kill_when_there(client)
        with pytest.raises(StartError, match="the scoring process died"):
            started.result()
    assert client.pid is None
    client.start()
    assert client.pid is not None
    assert client.restarts == 1
    first = client.pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ProgramFailure) as refused:
        client.ask("score", "{}", MESSAGE)
    assert refused.value.category is FailureCategory.BAD_GRAPH, "another process has answered"
    assert client.pid not in (None, first)
    assert client.restarts == 2


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    client = ScoringClient()
    with pytest.raises(StartError, match="the scoring process died"):
        client.ask("score", "{}", MESSAGE)
    client.close()
    assert client.restarts == 0


def test_what_a_process_says_before_it_dies_is_in_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "synthstats_lightning" / "__init__.py"
    package.parent.mkdir()
    package.write_text("raise ModuleNotFoundError('no such room')")
    monkeypatch.setattr(client_module, "scorer_environment", lambda: {"PYTHONPATH": str(tmp_path)})
    monkeypatch.chdir(tmp_path)
    client = ScoringClient()
    with pytest.raises(StartError, match="ModuleNotFoundError: no such room"):
        client.start()


def test_who_waits_for_a_client_that_closes_gets_a_failure(client: ScoringClient) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, "score", "{}", MESSAGE)
        while client.pid is None:
            time.sleep(0.001)
        client.close()
        with pytest.raises(ProgramFailure) as failure:
            asked.result()
    assert failure.value.category is FailureCategory.KILLED
    assert client.pid is None


@pytest.mark.slow
def test_a_process_that_stops_answering_is_ended(
    client: ScoringClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "SILENT_SECONDS", 0.3)
    first = client.start().pid
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(ProgramFailure) as refused:
        client.ask("score", "{}", MESSAGE)
    assert refused.value.category is FailureCategory.BAD_GRAPH, "another process has answered"
    assert (client.pid != first, client.restarts) == (True, 1)
    start = client.start

    def stopped() -> ChildProcess:
        child = start()
        os.kill(child.pid, signal.SIGSTOP)
        return child

    monkeypatch.setattr(client, "start", stopped)
    with pytest.raises(ProgramFailure, match="stopped answering twice") as failure:
        client.ask("score", "{}", MESSAGE)
    assert failure.value.category is FailureCategory.TIMEOUT
    assert (client.pid, client.restarts) == (None, 3)


BUSY = """
import synthstats_lightning.programs as programs
def compute(*given):
    {code}
programs.parse_graph = compute
"""


@pytest.fixture
def with_engine(
    client: ScoringClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], ScoringClient]:
    """The client, with a statement in place of what its process does with a graph."""

    def replaced(code: str) -> ScoringClient:
        (tmp_path / "sitecustomize.py").write_text(BUSY.format(code=code))
        path = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[3])])
        environment = client_module.scorer_environment() | {"PYTHONPATH": path}
        monkeypatch.setattr(client_module, "scorer_environment", lambda: environment)
        return client

    return replaced


def test_a_process_that_computes_for_ever_is_ended(
    with_engine: Callable[[str], ScoringClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "SLACK_SECONDS", 0.2)
    client = with_engine("while True: pass")
    client.settings = EngineSettings(time_limit=0.01)
    with pytest.raises(ProgramFailure, match="ended after 0 seconds of processor time") as failure:
        client.ask("score", "{}", MESSAGE)
    assert failure.value.category is FailureCategory.CPU
    assert (client.pid, client.restarts) == (None, 1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise RuntimeError('shapes [3] and\\n[4]')",
            r"the scorer failed: RuntimeError: shapes \[3\] and \[4\]",
        ),
        ("raise SystemExit(3)", "the scorer failed: SystemExit: 3"),
        ("raise BaseException('from C')", "the scorer failed: BaseException: from C"),
        ("[][1]", "the scorer failed: IndexError"),
        ("compute()", "the scorer failed: RecursionError"),
    ],
)
@pytest.mark.slow
def test_whatever_is_raised_is_the_failure_of_the_request(
    with_engine: Callable[[str], ScoringClient], code: str, said: str
) -> None:
    client = with_engine(code)
    pids = set()
    for _ in range(2):
        with pytest.raises(ProgramFailure, match=said) as failure:
            client.ask("score", "{}", MESSAGE)
        assert failure.value.category is FailureCategory.SCORER_LIMIT
        pids.add(client.pid)
    assert (len(pids), client.restarts) == (1, 0)


def test_what_a_process_says_before_it_dies_twice_is_in_the_failure(
    client: ScoringClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import synthstats_lightning.scoring.engine as engine, os\n"
        "def die(*given, **options):\n"
        "    os.write(2, b'terminate called:\\n  no\\tmemory\\n'); os._exit(6)\n"
        "import synthstats_lightning.programs as programs; programs.parse_graph = die\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[3])])
    environment = client_module.scorer_environment() | {"PYTHONPATH": path}
    monkeypatch.setattr(client_module, "scorer_environment", lambda: environment)
    with pytest.raises(ProgramFailure, match=r"died twice on this program: no memory$") as failure:
        client.ask("score", "{}", MESSAGE)
    assert failure.value.category is FailureCategory.KILLED
    assert (client.pid, client.restarts) == (None, 2)
