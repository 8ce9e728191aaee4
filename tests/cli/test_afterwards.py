"""`forecast`, `export` and `compare`: what a user types after a run, and what is refused in one line."""

from __future__ import annotations

import csv
import json

import pytest
import yaml

from synthstats_lightning import load_posterior
from synthstats_lightning.cli.main import main
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task

LINE = """
with pm.Model() as model:
    a = pm.Normal("a", 2.5, 1)
    b = pm.Normal("b", 0, 0.5)
    s = pm.HalfNormal("s", 0.3)
    pm.Normal("length", a + b * {}, s, observed=length)
"""
SOURCES = (LINE.format("np.log(age)"), LINE.format("age / 30"))


def write_run(folder, scores, **config):
    folder.mkdir()
    records = [
        ProgramRecord("dugongs", source, score, 4.0, -3.0, -1.0)
        for source, score in zip(SOURCES, scores, strict=False)
    ]
    (folder / "programs.jsonl").write_text("".join(record.to_json_line() for record in records))
    config = {"data": {"init_args": {"tasks": ["dugongs"]}}, **config}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture
def run(tmp_path):
    """A run whose one program has a score that nobody computes again."""
    return write_run(tmp_path / "run", [Score(evidence=10.0, structure="line", summary="length ~ Normal")])


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("name,age\nfirst,3\nsecond,50\n")
    return path


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.count("\n") == 1, said
    return said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("years\n3\n", "has no column 'age'; columns: years"),
        ("age\n3\nold\n", "row 2: column 'age' holds 'old', which is not a number"),
        ("age,name\n3,a\n,b\n", "row 2: "),
        ("age\n", "needs a header line and at least one row"),
    ],
)
def test_rows_that_cannot_be_predicted(run, rows, tmp_path, capsys, content, message):
    rows.write_text(content)
    output = tmp_path / "predictions.csv"
    output.write_text("earlier")
    assert message in refused(capsys, "forecast", run, "--new", rows, "--output", output)
    assert output.read_text() == "earlier"


def test_wrong_arguments_are_one_line(run, rows, tmp_path, capsys):
    new = ("--new", rows, "--output", tmp_path / "out.csv")
    assert "no run at nowhere" in refused(capsys, "forecast", "nowhere", *new)
    assert "no CSV file" in refused(capsys, "forecast", run, "--new", "none.csv", "--output", "out.csv")
    assert "other than the new rows" in refused(capsys, "forecast", run, "--new", rows, "--output", rows)
    assert "weights must be" in refused(capsys, "forecast", run, *new, "--weights", "loo")
    assert "quantiles must be" in refused(capsys, "forecast", run, *new, "--quantiles", "[50]")
    assert "task must be one of dugongs" in refused(capsys, "forecast", run, *new, "--task", "rats")
    export = ("--output", tmp_path / "model.py")
    assert "form must be from 1 to 1" in refused(capsys, "export", run, *export, "--form", "2")
    assert "form must be from 1 to 1" in refused(capsys, "export", run, *export, "--form", "0")
    assert "no program at mine.py" in refused(capsys, "compare", run, "mine.py")
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "model.py").exists()


def test_a_run_without_scores_or_data(tmp_path, rows, capsys):
    new = ("--new", rows, "--output", tmp_path / "out.csv")
    empty = write_run(tmp_path / "empty", [Score(structure="line")])
    assert "program with an evidence" in refused(capsys, "forecast", empty, *new)
    (tmp_path / "nothing").mkdir()
    assert "no programs.jsonl" in refused(capsys, "forecast", tmp_path / "nothing", *new)
    lost = write_run(tmp_path / "lost", [Score(evidence=1.0, structure="line")], data={})
    for command in (("forecast", lost, *new), ("export", lost, "--output", tmp_path / "model.py")):
        assert "does not give the data of task 'dugongs'" in refused(capsys, *command)
    table = {"class_path": "CSVTask", "init_args": {"path": "gone.csv", "response": "length"}}
    moved = write_run(
        tmp_path / "moved", [Score(evidence=1.0, structure="line")], data={"init_args": {"tasks": [table]}}
    )
    said = refused(capsys, "export", moved, "--output", tmp_path / "model.py")
    assert "no CSV file at gone.csv (paths in it are from the working directory)" in said


@pytest.mark.slow
def test_forecast_export_and_compare_of_a_run(tmp_path, rows, capsys):
    task = get_task("dugongs")
    with ProgramScorer(1) as scorer:
        scores = [scorer.score(source, task) for source in SOURCES]
    run, output = write_run(tmp_path / "run", scores), tmp_path / "predictions.csv"
    main(["forecast", str(run), "--new", str(rows), "--output", str(output)])
    with output.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["name"], second["age"]) == ("first", "50")
    assert 1.8 < float(first["length_q05"]) < float(first["length_q95"]) < 2.4
    printed = capsys.readouterr()
    assert "1 of 2 new rows have age outside the data (1 to 31.5)" in printed.err
    assert "2 predictions in" in printed.out
    main(["export", str(run), "--output", str(tmp_path / "model.py")])
    assert "mu=a + b * np.log(age)" in (tmp_path / "model.py").read_text()
    mine = tmp_path / "mine.py"
    mine.write_text(LINE.format("np.sqrt(age)"))
    models = main(["compare", str(run), str(mine), "--json", str(tmp_path / "table.json")])
    assert [model.is_own for model in models] == [False, True, False]
    assert models[1].elpd_difference < 0 < models[1].elpd_difference_se
    assert sum(model.stacking_weight for model in models) == pytest.approx(1, abs=1e-6)
    assert len(json.loads((tmp_path / "table.json").read_text())["models"]) == 3
    posterior = load_posterior(run)
    assert posterior.compare()["rank"].iloc[0] == 0
    assert posterior.inference_data(1, draws=50).posterior["b"].shape == (4, 50)
