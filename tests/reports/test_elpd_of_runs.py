"""`elpd_table.py --runs`: leave-one-out scores of runs beside those by hand and of published systems."""

from __future__ import annotations

import json

import numpy as np
import pytest

from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task
from tests.support.benchmark_modules import BENCHMARKS, benchmark_module
from tests.support.warm import warm_pool

PROGRAMS = BENCHMARKS / "elpd_programs" / "eight_schools"


@pytest.fixture
def elpd_table(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return benchmark_module("elpd_table")


def posterior(sources):
    """Of a run on the eight schools that sampled these programs, each of a form of its own."""
    scores = [Score(evidence=-31.0 - number, structure=f"form {number}") for number in range(len(sources))]
    records = [
        ProgramRecord("eight_schools", source, score, 0.0, -1.0, -1.0)
        for source, score in zip(sources, scores, strict=True)
    ]
    return RunPosterior.from_records("eight_schools", records, task=get_task("eight_schools"))


def source(name):
    return (PROGRAMS / f"{name}.py").read_text()


def test_best_and_stacked_against_a_grid_of_weights(elpd_table):
    names = ["no_pooling", "hierarchical"]
    task, scorer = get_task("eight_schools"), warm_pool()
    scores = [scorer.score(source(name), task) for name in names]
    rows = [np.array(score.diagnostics["elpd"].pointwise) for score in scores]
    weight = np.linspace(1e-9, 1 - 1e-9, 20001)[:, None]
    stacked = np.logaddexp(np.log(weight) + rows[0], np.log1p(-weight) + rows[1]).sum(axis=1).max()
    programs = {
        "eight_schools": {name: {"elpd": each.elpd} for name, each in zip(names, scores, strict=True)}
    }
    failing = "import pymc as pm\nraise ValueError('no model')\n"
    runs = [posterior([*map(source, names), failing]), posterior([source("no_pooling")])]
    found = elpd_table.of_runs(runs, programs, scorer)
    assert list(found) == ["eight_schools", "eight_schools 2"]
    both, one = found.values()
    assert both["best_elpd"] == pytest.approx(max(score.elpd for score in scores))
    assert both["stacked_elpd"] == pytest.approx(stacked, abs=1e-3)
    # weights are found within 1e-5 nats a row
    assert both["stacked_elpd"] >= both["best_elpd"] - 1e-3
    assert one["best_elpd"] == one["stacked_elpd"] == pytest.approx(scores[0].elpd)
    assert both["hand_written"] == one["hand_written"] == pytest.approx(max(score.elpd for score in scores))
    assert set(both["published"]) == {"expert", "RefineStat", "BoxLM", "o3"}
    table = elpd_table.runs_table(found)
    assert len(table.rows) == 2
    assert len(table.columns) == 8


def test_a_run_without_scores_is_a_row_without_figures(elpd_table):
    found = elpd_table.of_runs([posterior(["x = 1\n"])], {}, warm_pool())["eight_schools"]
    assert [found[name] for name in ("best_elpd", "best_elpd_se", "stacked_elpd", "hand_written")] == [
        None
    ] * 4
    assert len(elpd_table.runs_table({"eight_schools": found}).rows) == 1


def run_folder(folder, *, known_task):
    """A run's folder with one program and, so that its task is known, its configuration."""
    records = ProgramRecords()
    score = Score(evidence=-31.0, structure="form", summary="effect ~ Normal")
    records.add(ProgramRecord("eight_schools", source("no_pooling"), score, 0.0, -1.0, -1.0))
    folder.mkdir()
    records.write(folder / "programs.jsonl")
    if known_task:
        configuration = {"data": {"class_path": "DataModule", "init_args": {"tasks": ["eight_schools"]}}}
        (folder / "config.yaml").write_text(json.dumps(configuration))
    return folder


@pytest.mark.filterwarnings("ignore")
def test_what_a_user_types(elpd_table, tmp_path, monkeypatch, capsys):
    row = {
        "elpd": -31.0,
        "elpd_se": 1.0,
        "mcse": 0.0,
        "pareto_k": 0.1,
        "published": -31.0,
        "high_pareto_k": 0,
    }
    monkeypatch.setattr(elpd_table, "by_hand", lambda scorer: {"eight_schools": {"no_pooling": row}})
    run, figures = run_folder(tmp_path / "run", known_task=True), tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["elpd_table.py", "--runs", str(run), "--json", str(figures)])
    elpd_table.main()
    found = json.loads(figures.read_text())["runs"]["eight_schools"]
    task = get_task("eight_schools")
    assert found["best_elpd"] == warm_pool().score(source("no_pooling"), task).elpd
    assert found["hand_written"] == -31.0
    assert "elpd of runs" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_is_not_there_or_does_not_know_its_task(there, elpd_table, tmp_path, monkeypatch, capsys):
    run = run_folder(tmp_path / "run", known_task=False) if there else tmp_path / "run"
    monkeypatch.setattr("sys.argv", ["elpd_table.py", "--runs", str(run)])
    with pytest.raises(SystemExit) as ended:
        elpd_table.main()
    assert ended.value.code == 2
    assert str(run) in capsys.readouterr().err
