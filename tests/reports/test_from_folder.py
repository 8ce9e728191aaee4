"""The report made afterwards from a folder: from records alone, of a killed run, with and without tasks."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import record_metrics, record_shares
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task


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
    assert "y ~ curve" in text
    assert f"{CURVE:.1%}" in text
    assert "failed: 2 of 7 sampled programs, raised" in text
    assert "learned 6.50, at least" in text
    assert not (folder / "posterior.png").exists(), "there is no task to draw"


def test_pictures_with_and_without_bands(tmp_path):
    task = get_task("dugongs")
    folder = write(tmp_path / "run", [*RECORDS, record("e", "other", -3.0, -1.0, task="a/b")])

    def predict(source, task, quantiles, seconds):
        if source == "c":
            raise RuntimeError("its worker died")
        return np.sort(np.random.default_rng(0).normal(size=(len(quantiles), task.num_rows)), axis=0)

    found, text = printed(folder, task, predict=predict)
    assert (folder / "posterior-dugongs.png").stat().st_size > 10_000
    (missing,) = found["dugongs"]["left_out"]
    assert missing == "the predictive band of structure 2: RuntimeError: its worker died"
    assert "left out: the predictive band of structure 2" in text
    assert found["a/b"]["left_out"] == []
    found, _ = printed(folder, task, predict=predict, deadline=-1.0)
    assert found["dugongs"]["left_out"][0].endswith("the deadline came first")
    found, _ = printed(folder, task)
    assert found["dugongs"]["left_out"][0].endswith("there are no workers")


def test_fresh_programs_take_precedence(tmp_path):
    folder = write(tmp_path / "run", RECORDS)
    found, text = printed(folder, fresh={"dugongs": RECORDS[:3]}, log_z={"dugongs": 5.0})
    assert found["dugongs"]["method"] == "fresh programs"
    assert found["dugongs"]["log_z_gap"] == pytest.approx(5.0 - found["dugongs"]["log_z_importance"])
    assert "3 fresh programs" in text


def test_a_run_whose_programs_all_failed(tmp_path):
    found, text = printed(write(tmp_path / "run", [failed("x"), failed("y")]), get_task("dugongs"))
    assert found["dugongs"]["valid_rate"] == 0.0
    assert "failed: 2 of 2 sampled programs" in text
    with pytest.raises(FileNotFoundError, match=r"no programs\.jsonl in"):
        from_folder(tmp_path)
