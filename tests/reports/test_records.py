"""Records of a run: bounded, the best kept, and the same after a round trip."""

from __future__ import annotations

import pytest

from synthstats_lightning.pool.program_worker import ProgramWorker
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task


def record(number: int) -> ProgramRecord:
    score = Score(evidence=float(number), elpd=-1.0, structure=f"{number:032x}")
    return ProgramRecord("t", f"program {number}", score, float(number % 50), -3.0, -3.5)


def test_the_worst_go_when_there_are_too_many():
    records = ProgramRecords(capacity=40)
    for number in range(50):
        records.add(record(number))
    kept = [item.log_reward for item in records]
    assert 36 <= len(kept) <= 40
    assert kept == sorted(kept), "in the order in which they were first seen"
    assert max(kept) == 49
    assert min(kept) >= 10
    records.add(record(49))
    assert next(item for item in records if item.log_reward == 49).count == 2


def test_all_are_kept_without_a_bound(tmp_path):
    records = ProgramRecords(record(number) for number in range(300))
    records.write(tmp_path / "run" / "programs.jsonl")
    text = (tmp_path / "run" / "programs.jsonl").read_text()
    assert list(ProgramRecords.from_json_lines(text)) == list(records)
    assert len(records) == 300


def test_capacity_out_of_range():
    with pytest.raises(ValueError, match="max_records must be at least 10, got 9"):
        ProgramRecords(capacity=9)


def test_a_pool_forgets_the_scores_that_were_longest_unused():
    task = get_task("dugongs")
    scorer = ProgramScorer(1, max_known=20)
    try:
        for number in range(20):
            scorer.remember(f"program {number}", task, Score(evidence=float(number)))
        assert scorer.score("program 0", task).evidence == 0.0  # used, so that others are older
        for number in range(20, 25):
            scorer.remember(f"program {number}", task, Score(evidence=float(number)))
        known = {number for number in range(25) if (task.fingerprint, f"program {number}") in scorer._known}
        assert known == {0, *range(6, 25)}
    finally:
        scorer.close()


def test_a_pool_tries_again_what_came_to_no_score(monkeypatch):
    task, calls = get_task("dugongs"), []

    def score(worker, source, message):
        calls.append(source)
        if len(calls) == 1:
            raise RuntimeError("no worker")
        return Score(evidence=float(len(calls)))

    monkeypatch.setattr(ProgramWorker, "score", score)
    scorer = ProgramScorer(1)
    try:
        with pytest.raises(RuntimeError, match="no worker"):
            scorer.score("program", task)
        assert scorer.score("program", task).evidence == 2.0
        assert scorer.score("program", task).evidence == 2.0
        assert (scorer.scored, scorer.repeated, len(calls)) == (1, 1, 2)
        assert not scorer._pending
    finally:
        scorer.close()
