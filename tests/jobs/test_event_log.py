"""Events on disk: numbered over a resume, whole lines, followed while they are written."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from synthstats_lightning.cli.errors import FAILED, WRONG_USAGE
from synthstats_lightning.cli.job import follow_command
from synthstats_lightning.cli.main import main
from synthstats_lightning.jobs.event_log import EVENTS, EventLog, follow_events, plain, read_events


def test_numbers_go_on_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    log = EventLog(path)
    log.append("rl.created", 0)
    log.append("rl.running", 0, {"loss": float("nan"), "reward": torch.tensor(1.5), "shape": (1, 2)})
    log.close()
    with path.open("a") as file:
        file.write('{"sequence": 2, "event": "rl.it')
    log = EventLog(path)
    assert log.append("rl.failed", 3).sequence == 2
    log.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["sequence"] for row in rows] == [0, 1, 2]
    assert rows[1]["data"] == {"loss": None, "reward": 1.5, "shape": [1, 2]}
    assert set(rows[0]) == {"sequence", "event", "time", "step", "data"}
    assert [event.ending for event in read_events(path)] == [None, None, "failed"]


def test_what_json_cannot_hold_is_none() -> None:
    given = {
        "a": [float("inf"), -0.0, 3],
        "b": {"c": object()},
        "d": True,
        "e": Path("x"),
        "f": torch.ones(2),
    }
    assert plain(given) == {"a": [None, 0.0, 3], "b": {"c": None}, "d": True, "e": "x", "f": None}


def test_events_are_followed_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "run" / EVENTS
    seen: list[int] = []
    first, more = threading.Event(), threading.Event()

    def follow() -> None:
        for event in follow_events(path, after=0, poll_seconds=0.01):
            seen.append(event.sequence)
            first.set()
        more.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    log = EventLog(path)
    log.append("rl.created", 0)
    log.append("rl.running", 0)
    assert first.wait(30)
    with path.open("a") as file:  # half a line is no event yet
        file.write('{"sequence": 2, "event": "rl.iteration.complete", "time": "t"')
        file.flush()
        file.write(', "step": 1, "data": {}}\n')
    log = EventLog(path)
    log.append("rl.succeeded", 2)
    assert more.wait(30)
    assert seen == [1, 2, 3]


def written(folder: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    log = EventLog(folder / EVENTS)
    for step, (event, data) in enumerate(events):
        log.append(event, step, data)
    log.close()
    return folder


def test_job_follow_prints_and_ends_with_the_run(tmp_path: Path, capsys: Any) -> None:
    run = written(
        tmp_path,
        ("rl.created", {"label": "mine", "pid": 1}),
        ("rl.iteration.complete", {"loss": 1.23456, "reward": None}),
        ("rl.succeeded", {"status": "succeeded"}),
    )
    last = main(["job", "follow", str(run)])
    assert last.sequence == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("#0  ")
    assert lines[0].endswith("rl.created  step 0  label mine  pid 1")
    assert lines[1].endswith("rl.iteration.complete  step 1  loss 1.235")
    main(["job", "follow", str(run), "--after", "1", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (run / EVENTS).read_text().splitlines()[-1]


def test_job_follow_of_runs_that_failed_or_are_gone(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = written(tmp_path / "failed", ("sft.created", {}), ("sft.failed", {"error": "x"}))
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    monkeypatch.setattr(follow_command, "follow_events", partial(follow_events, grace_seconds=0.1))
    gone = written(tmp_path / "gone", ("rl.running", {"pid": pid, "host": socket.gethostname()}))
    for folder, code, words in (
        (failed, FAILED, ""),
        (gone, FAILED, "is gone"),
        (tmp_path / "no", WRONG_USAGE, "no folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["job", "follow", str(folder)])
        assert ended.value.code == code
        assert words in capsys.readouterr().err


def test_who_follows_waits_a_moment_for_the_word_of_who_watched(tmp_path: Path) -> None:
    run = written(tmp_path, ("graph.running", {"pid": 1}))

    def conclude() -> None:
        log = EventLog(run / EVENTS)
        log.append("graph.failed", 3)
        log.close()

    timer = threading.Timer(0.3, conclude)
    timer.start()
    found = list(follow_events(run / EVENTS, alive=lambda event: False, poll_seconds=0.01, grace_seconds=30))
    timer.join()
    assert [event.event for event in found] == ["graph.running", "graph.failed"]


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    run = written(tmp_path, *[("rl.iteration.complete", {"text": "x" * 5000})] * 100, ("rl.succeeded", {}))
    command = f"{sys.executable} -m synthstats_lightning job follow {run} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("#0  ")
    assert done.stderr == ""
