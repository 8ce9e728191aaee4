"""The report made afterwards from a folder: from records alone, of a killed run, with and without tasks."""

from __future__ import annotations

import io
import json
import math
from concurrent.futures import Future

import numpy as np
import pytest
from rich.console import Console

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import record_metrics, record_shares
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask


def record(name, structure, evidence, prior, count=1, task="dugongs") -> ProgramRecord:
    score = Score(evidence=evidence, elpd=evidence - 1, structure=structure, summary=f"y ~ {structure}")
    return ProgramRecord(task, name, score, evidence + 45.0 + prior, -3.0, prior, count)


def failed(name, count=1, task="dugongs") -> ProgramRecord:
    score = Score.failed(FailureCategory.RAISED, "no")
    return ProgramRecord(task, name, score, -25.0, -2.0, -4.0, count)


RECORDS = [
    record("a", "line", -40.0, math.log(0.5), count=3),
    record("b", "line", -40.0, math.log(0.1)),
    record("c", "curve", -39.0, math.log(0.2)),
    failed("d", count=2),
]
"""Prior times evidence: line 0.6, curve 0.2 e, in units of exp(-40)."""
CURVE = 0.2 * math.e / (0.6 + 0.2 * math.e)


def write(folder, records, torn=""):
    folder.mkdir(exist_ok=True)
    (folder / "programs.jsonl").write_text("".join(item.to_json_line() for item in records) + torn)
    return folder


def printed(folder, *tasks, **more):
    console = Console(file=io.StringIO(), width=120)
    found = from_folder(folder, tasks, console=console, **more)
    return found, console.file.getvalue()


def test_shares_are_prior_times_evidence_of_distinct_programs():
    shares = {share.structure: share for share in record_shares(RECORDS)}
    assert shares["curve"].posterior_share == pytest.approx(CURVE)
    assert shares["line"].posterior_share == pytest.approx(1 - CURVE)
    assert shares["line"].num_programs == 2, "a program counts once, however often it was sampled"
    assert shares["line"].best.source == "a"


def test_metrics_of_records():
    found = record_metrics(RECORDS)
    assert found["programs"] == 4
    assert found["samples"] == 7
    assert found["valid_rate"] == pytest.approx(5 / 7)
    expected = math.log(0.6 * math.exp(5) + 0.2 * math.exp(6) + math.exp(-25))
    assert found["log_z_found"] == pytest.approx(expected)
    assert found["evidence"] == pytest.approx(-40 + CURVE)
    assert found["best_elpd"] == -40.0
    entropy = -(CURVE * math.log(CURVE) + (1 - CURVE) * math.log(1 - CURVE))
    assert found["effective_structures"] == pytest.approx(math.exp(entropy))
    assert record_metrics([failed("x")])["valid_rate"] == 0.0
    assert record_metrics([])["log_z_found"] == -math.inf


def test_report_of_a_killed_run(tmp_path):
    folder = write(tmp_path / "run", RECORDS, torn='{"task": "dugo')
    found, text = printed(folder, log_z={"dugongs": 6.5})
    assert json.loads((folder / "report.json").read_text()) == found
    assert found["dugongs"]["log_z_learned"] == 6.5
    assert found["dugongs"]["method"] == "programs of the run, weighted by prior times evidence"
    assert "4 distinct programs of the run, weighted by prior times evidence" in " ".join(text.split())
    shares = {form["text"]: form["share"] for form in found["dugongs"]["forms"]}
    assert shares["curve"] + shares["line"] == pytest.approx(1.0)
    for name, share in shares.items():
        assert name in text
        assert f"{share:.1%}" in text
    assert "of the posterior on programs not seen" in text
    assert "failed: 2 of 7 sampled programs, raised" in text
    assert "learned 6.50, at least" in text
    assert (folder / "posterior.png").exists(), "of the shares, though there is no task to draw"
    assert not (folder / "checks.png").exists()
    assert "<code>curve</code>" in (folder / "report.html").read_text()


class Workers:
    """Answers as a pool does: normal predictions, but for one program whose worker dies."""

    def whole_score(self, source, task):
        future = Future()
        future.set_result(Score(evidence=-50.0, elpd=-49.0, summary="length ~ Normal(v0, v1)"))
        return future

    def posterior(self, source, task, chains, draws, seed, seconds, rows):
        if source == "c":
            raise RuntimeError("its worker died")
        random = np.random.default_rng(0)
        shape = chains, draws, task.num_rows + (0 if rows is None else len(rows["age"]))
        return PosteriorDraws(
            {}, random.normal(size=shape), random.normal(size=shape), "importance", 9.0, 0.0
        )


def test_the_page_and_its_pictures_with_and_without_workers(tmp_path):
    task = get_task("dugongs")
    folder = write(tmp_path / "run", [*RECORDS, record("e", "other", -3.0, -1.0, task="a/b")])
    found, text = printed(folder, task, workers=Workers())
    assert (folder / "posterior-dugongs.png").stat().st_size > 10_000
    assert (folder / "checks-dugongs.png").stat().st_size > 10_000
    (missing,) = found["dugongs"]["left_out"]
    assert missing.startswith("the predictions of a program with ")
    assert missing.endswith("RuntimeError: its worker died")
    assert "left out: the predictions of a program" in text
    assert found["a/b"]["left_out"] == ["predictions and comparisons: the data are not known"]
    page = (folder / "report.html").read_text()
    for name in ("dugongs", "a/b", "baseline", "default regression", "Calibration and residuals", missing):
        assert name in page
    assert f"report: {folder / 'report.html'}" in text
    found, _ = printed(folder, task, workers=Workers(), deadline=-1.0)
    assert found["dugongs"]["left_out"][0].endswith("the deadline came first")
    found, _ = printed(folder, task)
    assert found["dugongs"]["left_out"][0].endswith("there are no workers")


def test_a_task_without_rows_of_its_own_has_a_page_without_predictions(tmp_path):
    """Episodes: programs are fitted to what each of them observed, and all rows of the task are held out."""
    task = ExperimentTask("dugongs_simulator", seed=1, name="dugongs")
    folder = write(tmp_path / "run", RECORDS)
    found, text = printed(folder, task, workers=Workers())
    assert found["dugongs"]["left_out"] == [
        "predictions: all rows of the task are held out, so that no program was fitted to them"
    ]
    assert f"report: {folder / 'report.html'}" in text
    assert "all rows of the task are held out" in (folder / "report.html").read_text()


def test_own_programs_stand_in_the_leaderboard(tmp_path):
    folder = write(tmp_path / "run", RECORDS)
    (tmp_path / "mine.py").write_text("with pm.Model() as mine: pass")
    printed(folder, get_task("dugongs"), workers=Workers(), compare=[tmp_path / "mine.py"])
    page = (folder / "report.html").read_text()
    assert "mine.py" in page
    assert "with pm.Model() as mine: pass" in page
    with pytest.raises(FileNotFoundError, match=r"no program at none\.py"):
        printed(folder, get_task("dugongs"), workers=Workers(), compare=["none.py"])


def test_warnings_and_configuration_are_on_the_page(tmp_path):
    folder = write(tmp_path / "run", RECORDS)
    warning = {
        "kind": "log_z_gap",
        "task": "dugongs",
        "step": 40,
        "message": "learned log Z is 7 nats off",
        "advice": "train longer",
        "over": 90,
    }
    (folder / "warnings.jsonl").write_text(json.dumps(warning) + "\n")
    (folder / "config.yaml").write_text("seed_everything: 17\nmodel: {init_args: {policy: tiny}}\n")
    printed(folder)
    page = (folder / "report.html").read_text()
    assert "Step 40: learned log Z is 7 nats off; train longer (over by step 90)" in page
    assert "seed_everything: 17" in page
    assert "synthstats-lightning fit --config config.yaml" in page


def test_fresh_programs_take_precedence(tmp_path):
    folder = write(tmp_path / "run", RECORDS)
    found, text = printed(folder, fresh={"dugongs": RECORDS[:3]}, log_z={"dugongs": 5.0})
    assert found["dugongs"]["method"] == "fresh programs"
    assert found["dugongs"]["log_z_gap"] == pytest.approx(5.0 - found["dugongs"]["log_z_importance"])
    assert "3 fresh programs" in " ".join(text.split())


def test_a_run_whose_programs_all_failed(tmp_path):
    found, text = printed(write(tmp_path / "run", [failed("x"), failed("y")]), get_task("dugongs"))
    assert found["dugongs"]["valid_rate"] == 0.0
    assert "failed: 2 of 2 sampled programs" in text
    with pytest.raises(FileNotFoundError, match=r"no programs\.jsonl in"):
        from_folder(tmp_path)
