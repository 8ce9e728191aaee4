"""A child answers, says why it does not, and is left alone by forks of its parent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from synthstats_lightning.runtime.child_process import ChildProcess, StartError
from synthstats_lightning.runtime.frames import ConnectionLost, DeadlinePassed, pack, unpack

ROOT = Path(__file__).resolve().parents[2]
ECHO = """
from synthstats_lightning.runtime.frames import ConnectionLost, read_frame, take_pipes, write_frame
requests, replies = take_pipes()
print("this goes to standard error", flush=True)
write_frame(replies, b'{"ready": true}')
try:
    while (request := read_frame(requests, 1 << 20)) != b"null":
        write_frame(replies, request)
except ConnectionLost:
    pass
else:
    raise SystemExit("asked to end")
"""


def started(code: str) -> ChildProcess:
    return ChildProcess("echo", ["-c", code], {"PYTHONPATH": str(ROOT), "PATH": os.defpath})


@pytest.fixture
def echo() -> Iterator[ChildProcess]:
    child = started(ECHO)
    child.wait_ready(60.0)
    yield child
    child.kill()


def test_it_answers_and_what_it_prints_disturbs_nothing(echo: ChildProcess) -> None:
    echo.wait_ready(0.0)
    assert echo.greeting == {"ready": True}
    document = {"text": "x" * 200_000, "none": None}
    echo.send(pack(document), 20.0)
    assert unpack(echo.receive(1 << 20, 20.0)) == document
    echo.send(b"12345", 20.0)
    with pytest.raises(ConnectionLost, match="over the limit"):
        echo.receive(3, 20.0)
    assert echo.last_words() == "this goes to standard error"


def test_it_is_not_waited_for_longer_than_asked(echo: ChildProcess) -> None:
    before = time.monotonic()
    with pytest.raises(DeadlinePassed):
        echo.receive(100, 0.05)
    assert time.monotonic() - before < 20
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(echo.receive, 100, 60.0)
        echo.interrupt()
        with pytest.raises(ConnectionLost):
            waiting.result(20.0)
    # the kernel closes its pipes before it is gone
    while echo.usable:
        assert time.monotonic() - before < 60
        time.sleep(0.01)


def test_it_ends_when_its_input_is_closed(echo: ChildProcess) -> None:
    echo.stop(30.0)
    assert not Path(f"/proc/{echo.pid}").exists()
    echo.kill()


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit('no room')", "the echo died: no room"), ("import time; time.sleep(60)", "not ready")],
)
def test_why_it_does_not_start(code: str, said: str) -> None:
    child = started(code)
    with pytest.raises(StartError, match=said) as error:
        child.wait_ready(20.0 if "died" in said else 0.1)
    assert not error.value.killed
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_fork_of_the_parent_leaves_it_alone(echo: ChildProcess) -> None:
    fork = os.fork()
    if fork == 0:
        status = 1
        try:
            status = int(echo.usable)
            echo.interrupt()
            echo.kill()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert echo.usable
    echo.send(b"still here", 20.0)
    assert echo.receive(100, 20.0) == b"still here"
