"""`job run` of jobs on the bundled policy, to their results."""

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
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.jobs import RLConfig
from synthstats_lightning.jobs.event_log import EVENTS, read_events
from synthstats_lightning.jobs.process import Ended
from synthstats_lightning.jobs.results import read_result

RL = """
[algorithm]
type = "online"
method = "gflownet"
[policy]
label = "mine"
[training]
num_epochs = 1
iterations_per_epoch = 2
batch_size = 4
group_size = 4
log_interval = 1
[training.lora]
r = 2
[tags]
team = "a"
"""
SMALL = {
    "scoring": {"warmup_programs": 6, "num_workers": 1, "synchronous": True},
    "report": {"num_programs": None},
}
SFT = """
[algorithm]
type = "offline"
method = "sft"
[job]
data = "examples.jsonl"
[hyperparameters]
n_epochs = 2
batch_size = 8
warmup_ratio = 0.5
[training.lora]
r = 2
"""


GRAPH = """
[graph]
label = "bred"
rollout_budget = 6
population_size = 3
"""


def events(folder: Path) -> list[str]:
    return [event.event for event in read_events(folder / EVENTS)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "rl.toml").write_text(RL)
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL))
    (folder / "sft.toml").write_text(SFT)
    lines = ({"prompt": f"Number {n}?", "completion": f"y = {n}"} for n in range(20))
    (folder / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def here(arguments: list[str], folder: Path, kind: str, environment: Any, told: Any = None) -> Ended:
    """The training of a job in this process: starting one takes longer than these jobs."""
    assert arguments[:2] == ["-m", "synthstats_lightning"]
    main(arguments[2:])
    return Ended(0, read_result(folder) or {})


@pytest.fixture(scope="module")
def trained(place: Path) -> Path:
    """The folder of an RL job that has run."""
    small = ["--config", str(place / "small.yaml")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synthstats_lightning.jobs.process.run_process", here)
        result = main(["job", "run", str(place / "rl.toml"), "--output", str(place / "runs"), *small])
    assert result["status"] == "succeeded"
    return place / "runs" / "mine" / "version_0"


def test_an_rl_job(trained: Path) -> None:
    assert events(trained) == [
        "rl.created",
        "rl.running",
        "rl.iteration.complete",
        "rl.iteration.complete",
        "rl.succeeded",
    ]
    result = read_result(trained)
    assert result is not None
    assert set(result) == {"status", "final_reward", "model_id", "checkpoints", "error"}
    assert result["final_reward"] < 0
    assert result["model_id"] == str(trained / "adapter")
    assert (trained / "adapter" / "adapter_config.json").is_file()
    assert {Path(each["path"]).name for each in result["checkpoints"]} >= {"step2.ckpt"}
    assert all(each["loss"] is not None and each["step"] == 2 for each in result["checkpoints"])
    config = yaml.safe_load((trained / "config.yaml").read_text())
    assert config["model"]["init_args"]["lora"]["rank"] == 2
    assert config["trainer"]["max_steps"] == 2


def test_runs_and_follow_know_it(trained: Path, capsys: Any) -> None:
    main(["runs", "list", str(trained.parents[1]), "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["status"], row["steps"], row["label"], row["tags"]) == ("succeeded", 2, "mine", {"team": "a"})
    last = main(["job", "follow", str(trained), "--after", "3"])
    assert last.event == "rl.succeeded"
    assert capsys.readouterr().out.startswith("#4  ")


@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_an_sft_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("synthstats_lightning.jobs.process.run_process", here)
    result = main(["job", "run", "sft.toml"])
    run = place / "runs" / "sft" / "version_0"
    found = events(run)
    assert found[:2] == ["sft.created", "sft.running"]
    assert found.count("sft.epoch.complete") == 2
    assert "sft.checkpoint.saved" in found
    assert found[-1] == "sft.succeeded"
    assert result["status"] == "succeeded"
    assert 0 < result["final_loss"] < 20
    assert result["model_id"] == "runs/sft/version_0/adapter"
    # what it leaves is where an RL job starts from, on the same base
    path = place / "next.toml"
    path.write_text('[policy]\nsource = "runs/sft/version_0/adapter"\n')
    model = RLConfig.from_path(path).configuration["model"]["init_args"]
    assert (model["policy"], model["adapter"]) == ("tiny", "runs/sft/version_0/adapter")


@pytest.mark.slow
def test_a_graph_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def search_here(arguments: list[str], folder: Path, *given: Any) -> Ended:
        assert arguments[:3] == ["-m", "synthstats_lightning", "search"]
        main(arguments[2:])
        return Ended(0, given[-1](folder).to_dict())

    monkeypatch.chdir(place)
    monkeypatch.setattr("synthstats_lightning.jobs.searching.run_process", search_here)
    (place / "graph.toml").write_text(GRAPH)
    result = main(["job", "run", "graph.toml", "--config", "small.yaml"])
    run = place / "runs" / "bred" / "version_0"
    assert events(run) == ["graph.created", "graph.running", "graph.succeeded"]
    rows = [json.loads(line) for line in (run / "programs.jsonl").read_text().splitlines()]
    rewards = [row["log_reward"] for row in rows if row["status"] == "scored"]
    assert len(rows) == 6
    assert result == read_result(run)
    assert result["final_reward"] == max(rewards)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_whose_training_is_killed_goes_on(place: Path) -> None:
    """SIGKILL to the training between two checkpoints: a result, and a resume in the same folder."""
    (place / "long.toml").write_text(RL.replace("iterations_per_epoch = 2", "iterations_per_epoch = 30"))
    (place / "often.yaml").write_text(yaml.safe_dump({**SMALL, "checkpoint": {"every_n_train_steps": 2}}))
    arguments = [
        sys.executable,
        "-m",
        "synthstats_lightning",
        "job",
        "run",
        "long.toml",
        "--config",
        "often.yaml",
    ]
    process = subprocess.Popen([*arguments, "--output", "killed"], cwd=place)
    run = place / "killed" / "mine" / "version_0"
    deadline = time.monotonic() + 300
    while not list(run.glob("checkpoints/step*.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.1)
    (running,) = [event for event in read_events(run / EVENTS) if event.event == "rl.running"]
    os.kill(running.data["pid"], signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGKILL
    result = read_result(run)
    assert result is not None
    assert result["status"] == "failed"
    assert "SIGKILL" in result["error"]
    assert result["checkpoints"]
    last = list(read_events(run / EVENTS))[-1]
    resumed = subprocess.run([*arguments, "--resume", str(run)], cwd=place, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    after = [event for event in read_events(run / EVENTS) if event.sequence > last.sequence]
    assert [event.event for event in after[:2]] == ["rl.running"] * 2, "job run's own, then the training's"
    assert after[1].step == max(each["step"] for each in result["checkpoints"])
    assert after[-1].event == "rl.succeeded"
    assert after[-1].step == 30
    assert len(list(run.glob("metrics*.csv"))) == 2
