"""The process that a job trains in: killed, failed or asked to end, it leaves a result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from synthstats_lightning.jobs.event_log import EVENTS, EventLog, read_events
from synthstats_lightning.jobs.guard import KILLED, Guard
from synthstats_lightning.jobs.process import last_sequence, reason, run_process
from synthstats_lightning.jobs.results import Kind, checkpoints_in

BEGUN = """
import json, os, sys, time
folder = sys.argv[1]
DATA = {"reward": -1.5, "loss": 3}
lines = [
    {"sequence": 0, "event": "rl.created", "time": "t", "step": 0, "data": {}},
    {"sequence": 1, "event": "rl.iteration.complete", "time": "t", "step": 7, "data": DATA},
]
os.makedirs(folder + "/checkpoints", exist_ok=True)
open(folder + "/checkpoints/step5.ckpt", "w").close()
open(folder + "/checkpoints/step9.ckpt", "w").close()
with open(folder + "/events.jsonl", "w") as file:
    file.writelines(json.dumps(line) + "\\n" for line in lines)
"""
ENDS: dict[str, tuple[str, int, str]] = {
    "killed": (
        BEGUN + "os.kill(os.getpid(), 9)",
        128 + signal.SIGKILL,
        "the training process was ended by SIGKILL",
    ),
    "wrong": (
        "import sys; print('error: policy must be there', file=sys.stderr); sys.exit(2)",
        2,
        "policy must be there",
    ),
    "raised": ("raise RuntimeError('no more')", 1, "exit status 1: RuntimeError: no more"),
    "silent": ("pass", 0, "ended without having trained"),
    "asked": (
        BEGUN + "os.kill(os.getppid(), 15); time.sleep(60)",
        128 + signal.SIGTERM,
        "the training process was ended by SIGTERM",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_result_however_it_ends(tmp_path: Path, end: str, capsys: Any) -> None:
    code, status, error = ENDS[end]
    ended = run_process(["-S", "-c", code, str(tmp_path)], tmp_path, "rl")
    assert ended.status == status
    found = json.loads((tmp_path / "result.json").read_text())
    assert found == ended.result
    assert found["status"] == "failed"
    assert error in found["error"]
    events = list(read_events(tmp_path / EVENTS))
    assert [event.event for event in events][-1] == "rl.failed"
    assert events[0].event == "rl.created"
    assert [event.sequence for event in events] == list(range(len(events)))
    if end in ("killed", "asked"):
        assert found["final_reward"] == -1.5
        assert events[-1].step == 7
        assert [(each["step"], each["loss"]) for each in found["checkpoints"]] == [(5, None), (9, 3.0)]
        assert found["model_id"].endswith("step9.ckpt")
    if end == "wrong":
        assert "error: policy must be there" in capsys.readouterr().err


def test_a_signal_before_there_is_a_training_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AskedToEnd(Guard):
        """A guard in whose beginning the one that watches is asked to end."""

        def __init__(self, *args: Any, **settings: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            super().__init__(*args, **settings)

    # where the signal is not caught yet, this ends the test and not the session
    monkeypatch.setattr("synthstats_lightning.jobs.process.Guard", AskedToEnd)
    former = signal.signal(signal.SIGTERM, _unexpected)
    try:
        ended = run_process(["-S", "-c", "import time; time.sleep(60)"], tmp_path, "rl")
        assert signal.getsignal(signal.SIGTERM) is _unexpected
    finally:
        signal.signal(signal.SIGTERM, former)
    assert ended.status == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "failed"


def _unexpected(number: int, frame: object) -> None:
    """Stands where a signal that nobody passes on would end the process."""
    raise AssertionError(f"{signal.Signals(number).name} was not passed on")


def test_what_a_run_said_itself_is_kept(tmp_path: Path) -> None:
    log = EventLog(tmp_path / EVENTS)
    log.append("sft.failed", 3, {"error": "of the time before"})
    code = (
        BEGUN.replace("rl.", "sft.").replace('"w") as', '"a") as').replace('"sequence": ', '"sequence": 2 + ')
    )
    told = (
        'json.dumps({"sequence": 4, "event": "sft.failed", "time": "t", "step": 9, "data": {"error": "own"}})'
    )
    code += f'\nopen(folder + "/events.jsonl", "a").write({told} + "\\n")\nsys.exit(1)'
    ended = run_process(["-S", "-c", code, str(tmp_path)], tmp_path, "sft")
    assert (ended.status, ended.result["error"]) == (1, "own")
    assert last_sequence(tmp_path) == 4, "nothing is said twice"
    again = list(read_events(tmp_path / EVENTS))[1]
    assert (again.event, again.step) == ("sft.running", 3), (
        "who follows does not take the former end for this one"
    )
    assert again.data["pid"] == os.getpid()
    assert ended.result["final_loss"] == 3.0
    assert len(ended.result["checkpoints"]) == 2


def test_a_run_that_never_began_is_known_by_its_label_and_tags(tmp_path: Path) -> None:
    told = {"label": "mine", "tags": {"team": "a"}}
    run_process(["-S", "-c", "raise SystemExit(2)"], tmp_path, "rl", told=told)
    created, failed = read_events(tmp_path / EVENTS)
    assert (created.event, failed.event) == ("rl.created", "rl.failed")
    assert created.data == {"kind": "rl", **told}


def test_a_checkpoint_says_its_step_where_its_name_does_not(tmp_path: Path) -> None:
    torch.save(
        {"epoch": 3, "global_step": 1700, "state": {"global_step": 5, "x": torch.ones(3)}},
        tmp_path / "last.ckpt",
    )
    (tmp_path / "torn.ckpt").write_bytes((tmp_path / "last.ckpt").read_bytes()[:300])
    (tmp_path / "step9.ckpt").touch()
    found = {Path(each.path).name: (each.step, each.epoch) for each in checkpoints_in(tmp_path)}
    assert found == {"step9.ckpt": (9, None), "last.ckpt": (1700, 3), "torn.ckpt": (None, None)}


def test_a_signal_that_is_ignored_ends_no_training(tmp_path: Path) -> None:
    """As under nohup, whose SIGHUP comes when the terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import os, time; os.kill(os.getppid(), 1); time.sleep(0.5); raise SystemExit(7)"
        ended = run_process(["-S", "-c", code], tmp_path, "rl")
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.status == 7


def test_training_ends_as_by_sigterm_where_its_watcher_is_killed(tmp_path: Path) -> None:
    training = """
import os, pathlib, signal, sys, time
def end(number, frame):
    pathlib.Path(sys.argv[1], "ended").write_text(str(number))
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1], "begun").touch()
time.sleep(60)
"""
    watcher = os.fork()
    if watcher == 0:
        run_process(["-S", "-c", training, str(tmp_path)], tmp_path, "rl")
        os._exit(0)
    for name in ("begun", "ended"):
        deadline = time.monotonic() + 20
        while not (tmp_path / name).is_file():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if name == "begun":
            os.kill(watcher, signal.SIGKILL)
            os.waitpid(watcher, 0)


@pytest.mark.parametrize("kind", ["rl", "graph"])
@pytest.mark.parametrize("group", [False, True])
def test_a_result_where_the_watcher_is_killed(tmp_path: Path, kind: Kind, group: bool) -> None:
    """Also together with its process group; the training says nothing itself."""
    training = """
import json, pathlib, sys, time
scored = [{"status": "scored", "log_reward": reward} for reward in (-3.0, 2.5, 1.0)]
lines = [*scored, {"status": "sandbox", "log_reward": -50.0}]
pathlib.Path(sys.argv[1], "programs.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
pathlib.Path(sys.argv[1], "begun").touch()
time.sleep(60)
"""
    told = {"label": "mine", "tags": {"team": "a"}}
    watcher = os.fork()
    if watcher == 0:
        os.setsid()
        run_process(["-S", "-c", training, str(tmp_path)], tmp_path, kind, told=told)
        os._exit(0)
    wait_for(tmp_path / "begun")
    (os.killpg if group else os.kill)(watcher, signal.SIGKILL)
    os.waitpid(watcher, 0)
    wait_for(tmp_path / "result.json")
    found = json.loads((tmp_path / "result.json").read_text())
    created, failed = read_events(tmp_path / EVENTS)
    assert (created.event, failed.event) == (f"{kind}.created", f"{kind}.failed")
    assert created.data == {"kind": kind, **told}
    assert failed.data == found
    assert (found["status"], found["error"]) == ("failed", KILLED)
    assert (found["final_reward"], failed.step) == ((2.5, 3) if kind == "graph" else (None, 0))


def test_a_guard_that_is_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    ended = run_process(["-S", "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path, "rl")
    assert "SIGKILL" in ended.result["error"]
    training = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    guard = Guard(training.pid, tmp_path, "rl", -1)
    guard._process.kill()
    guard._process.wait()
    guard.dismiss()
    training.communicate(b"\n")
    assert json.loads((tmp_path / "result.json").read_text()) == ended.result


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.is_file():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_reasons() -> None:
    assert reason(0, ["error: x"]) is None
    assert reason(3, []) == "the training process ended with exit status 3"
