"""Runs in a folder: listed, shown, compared, from what they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from synthstats_lightning.cli.errors import WRONG_USAGE
from synthstats_lightning.cli.main import main
from synthstats_lightning.jobs.event_log import EVENTS, EventLog
from synthstats_lightning.jobs.folders import differences, flat


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of two jobs and a run without events, which differ in a few settings."""
    for number, rate in enumerate((0.001, 0.002)):
        folder = tmp_path / "rl" / f"version_{number}"
        folder.mkdir(parents=True)
        config = {
            "seed_everything": 0,
            "model": {"init_args": {"policy": "tiny", "optimizer": {"init_args": {"lr": rate}}}},
            "data": {"init_args": {"tasks": ["dugongs"]}},
        }
        if number:
            config["trainer"] = {"callbacks": [{"class_path": "A"}]}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "metrics.csv").write_text(f"step,train/loss,log_z\n0,9.0,\n4,,{number}.5\n")
        (folder / "report.json").write_text(
            json.dumps({"dugongs": {"log_z_importance": 22.5 + number, "x": [1]}})
        )
        log = EventLog(folder / EVENTS)
        log.append("rl.created", 0, {"label": "mine", "tags": {"team": "a"}})
        ending = "failed" if number else "succeeded"
        figures = {
            "status": ending,
            "final_reward": -2.5,
            "error": "x" if number else None,
            "checkpoints": [],
        }
        log.append(f"rl.{ending}", 5, figures)
        log.close()
        (folder / "result.json").write_text(json.dumps(figures))
    other = tmp_path / "quickstart" / "version_0"
    other.mkdir(parents=True)
    (other / "metrics.csv").write_text("step,val/loss\n3,1.5\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


def printed(capsys: Any, *arguments: str) -> Any:
    main(["runs", *arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_list(runs: Path, capsys: Any) -> None:
    found = printed(capsys, "list", str(runs))
    assert [Path(row["folder"]).relative_to(runs).as_posix() for row in found] == [
        "quickstart/version_0",
        "rl/version_0",
        "rl/version_1",
    ]
    assert [row["status"] for row in found] == ["unknown", "succeeded", "failed"]
    assert [row["steps"] for row in found] == [4, 5, 5]
    assert [row["figure"] for row in found] == [1.5, -2.5, -2.5]
    assert found[1]["tags"] == {"team": "a"}
    main(["runs", "list", str(runs)])
    table = capsys.readouterr().out
    assert "3 runs in" in table
    assert "rl/version_1" in table


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", b"a: ["),
        ("config.yaml", b"a: \xff\xfe"),
        ("result.json", b"[]"),
        ("result.json", b'{"status": '),
        (EVENTS, b'{"sequence": 0}\n'),
        (EVENTS, b'{"sequence": "0", "event": "rl.created", "time": "t", "step": 0, "data": {}}\n'),
        (EVENTS, b'{"sequence": 0, "event": "rl.created", "time": "t", "step": 0, "data": [1]}\n'),
        (EVENTS, b"\n\n"),
    ],
)
def test_a_run_that_cannot_be_read_hides_no_other(runs: Path, name: str, content: bytes, capsys: Any) -> None:
    broken = runs / "rl" / "version_1"
    (broken / name).write_bytes(content)
    found = printed(capsys, "list", str(runs))
    assert [row["status"] for row in found] == ["unknown", "succeeded", "unreadable"]
    assert str(broken / name) in found[2]["error"]
    main(["runs", "list", str(runs)])
    assert "unreadable" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["runs", "show", str(broken)])
    assert ended.value.code == WRONG_USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_every_checkpoint_is_shown(runs: Path, capsys: Any) -> None:
    run = runs / "rl" / "version_0"
    result = json.loads((run / "result.json").read_text())
    result["checkpoints"] = [{"path": name, "step": 5} for name in ("step5.ckpt", "last.ckpt")]
    (run / "result.json").write_text(json.dumps(result))
    main(["runs", "show", str(run)])
    table = capsys.readouterr().out
    assert "step5.ckpt" in table
    assert "last.ckpt" in table


def test_show(runs: Path, capsys: Any) -> None:
    run = str(runs / "rl" / "version_1")
    found = printed(capsys, "show", run)
    assert found["error"] == "x"
    assert found["figures"]["report/log_z_importance/dugongs"] == 23.5
    assert found["figures"]["train/loss"] == 9.0
    assert found["settings"]["model.init_args.optimizer.init_args.lr"] == 0.002
    main(["runs", "show", run])
    table = capsys.readouterr().out
    for text in ("failed", "tag team", "tiny", "0.002", "23.5"):
        assert text in table


def test_a_search_is_shown_by_its_method(tmp_path: Path, capsys: Any) -> None:
    config = {
        "model": {"init_args": {"policy": "tiny", "objective": {"class_path": "TrajectoryBalance"}}},
        "search": {"method": {"class_path": "synthstats_lightning.searchers.Evolution"}},
        "scoring": {"max_programs": 60},
        "trainer": {"max_steps": 95},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    main(["runs", "show", str(tmp_path)])
    table = capsys.readouterr().out
    assert "searchers.Evolution" in table
    assert "60" in table
    assert "TrajectoryBalance" not in table
    assert "95" not in table.replace(str(tmp_path), "")


def test_diff_and_compare(runs: Path, capsys: Any) -> None:
    first, second = (str(runs / "rl" / f"version_{number}") for number in (0, 1))
    found = printed(capsys, "diff", first, second)
    assert found == {
        "model.init_args.optimizer.init_args.lr": {"first": 0.001, "second": 0.002},
        "trainer.callbacks.0.class_path": {"first": None, "second": "A"},
    }
    figures = printed(capsys, "compare", first, second)
    assert figures["log_z"] == {first: 0.5, second: 1.5}
    assert figures["final_reward"] == {first: -2.5, second: -2.5}
    assert set(printed(capsys, "compare", first, second, "--metric", "loss")) == {"train/loss"}
    main(["runs", "diff", first, second])
    assert "2 settings differ" in capsys.readouterr().out
    main(["runs", "compare", first, second])
    assert "report/log_z_importance/dugongs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "nowhere"], "no folder of runs at nowhere"),
        (["show", "empty"], "no run at empty: it holds none of"),
        (["compare", "quickstart/version_0"], "runs must be at least 2, got 1"),
        (
            ["compare", "rl/version_0", "quickstart/version_0", "--metric", "nothing"],
            "metric must be part of the name of a figure, got 'nothing'; there are final_reward, log_z,"
            " report/log_z_importance/dugongs, train/loss, val/loss",
        ),
        (["diff", "broken", "broken"], "broken/config.yaml cannot be read"),
    ],
)
def test_wrong_usage_is_one_line(
    runs: Path, arguments: list[str], words: str, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(runs)
    (runs / "broken").mkdir()
    (runs / "broken" / "config.yaml").write_text("a: [")
    with pytest.raises(SystemExit) as ended:
        main(["runs", *arguments])
    assert ended.value.code == WRONG_USAGE
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_flat_and_differences() -> None:
    assert flat({"a": {"b": [1, 2], "c": {}}, "d": [{"e": 1}]}) == {"a.b": [1, 2], "a.c": {}, "d.0.e": 1}
    assert differences({"a": 1, "b": 2}, {"b": 3, "c": None}) == {"a": (1, None), "b": (2, 3)}
