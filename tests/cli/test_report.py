"""`synthstats-lightning report`: from a folder alone, and what it refuses."""

from __future__ import annotations

import json

import pytest
import torch
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.evaluation.run_report import RunSettings
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score


@pytest.fixture
def run(tmp_path):
    record = ProgramRecord("dugongs", "a", Score(evidence=-40.0, structure="line"), 4.0, -3.0, -1.0)
    (tmp_path / "programs.jsonl").write_text(record.to_json_line())
    return tmp_path


def test_report_of_a_folder_without_configuration(run, capsys):
    found = main(["report", str(run)])
    assert found == json.loads((run / "report.json").read_text())
    assert found["dugongs"]["top_structure_share"] == 1.0
    assert found["dugongs"]["left_out"] == [
        "the pictures: there is no config.yaml that says what the data are",
        "predictions and comparisons: the data are not known",
    ]
    printed = capsys.readouterr().out
    assert "left out: the pictures" in printed
    assert f"report: {run / 'report.html'}" in printed
    assert "<title>Posterior over programs: dugongs</title>" in (run / "report.html").read_text()


def test_what_a_configuration_says(run):
    config = {
        "data": {"class_path": "ReplayDataModule", "init_args": {"tasks": ["dugongs", "surgical"]}},
        "scoring": {"reward": {"beta": 0.5, "prior_weight": 1.0}, "sandbox": "standard"},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    settings = RunSettings(run)
    assert [task.name for task in settings.tasks] == ["dugongs", "surgical"]
    assert settings.reward.beta == 0.5
    assert settings.left_out == []
    config["data"]["init_args"]["tasks"] = ["no such task"]
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (missing,) = RunSettings(run).left_out
    assert missing.startswith("the pictures: the data cannot be read: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_programs", "-1"], "num_programs must be at least 0, got -1"),
        (["--num_programs", "5"], "num_programs must be 0 for"),
        (["--plotted", "0"], "plotted must be at least 1, got 0"),
        (["--deadline", "0"], "deadline must be a positive number of seconds, got 0"),
        (["--ckpt_path", "none.ckpt"], "there is no checkpoint none.ckpt"),
        (["--ckpt_path", "foreign.ckpt"], "foreign.ckpt must be a checkpoint that `fit` has written"),
        (["--compare", "none.py", "other.py"], "no program at none.py"),
    ],
)
def test_refusals_are_one_line(run, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(run)
    torch.save({"weights": 1}, "foreign.ckpt")
    if "foreign.ckpt" not in arguments:
        (run / "foreign.ckpt").unlink()
    with pytest.raises(SystemExit) as stop:
        main(["report", str(run), *arguments])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_folder_without_programs(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path)])
    assert stop.value.code == 2
    assert "no programs.jsonl in" in capsys.readouterr().err
