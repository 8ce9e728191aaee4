"""A run's file of programs: whole at every moment, bounded, and one whatever the number of processes."""

from __future__ import annotations

import json

import pytest

from synthstats_lightning.reports.journal import RecordJournal, read_records
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.scoring.score import Score
from tests.runtime.test_checkpoints import small_disk


def record(number: int, log_reward: float = 0.0) -> ProgramRecord:
    score = Score(evidence=float(number), elpd=-1.0, structure=f"{number:032x}")
    return ProgramRecord("t", f"program {number}", score, log_reward, -3.0, -3.5)


def started(folder, rank=0, size=1, capacity=None, resumed=False, known=()) -> RecordJournal:
    journal = RecordJournal(ProgramRecords(known, capacity))
    journal.start(folder, rank, size, resumed)
    return journal


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_program_is_in_the_file_as_soon_as_it_is_scored(tmp_path):
    journal = started(tmp_path / "run")
    path = tmp_path / "run" / "programs.jsonl"
    for number in range(3):
        journal.add(record(number))
        assert [row["source"] for row in rows(path)] == [f"program {n}" for n in range(number + 1)]
    journal.add(record(1))
    assert len(rows(path)) == 3
    assert [item.count for item in journal.records] == [1, 2, 1]
    journal.close()
    journal.close()
    assert [row["count"] for row in rows(path)] == [1, 2, 1], "counts are up to date once it is closed"
    assert list(read_records(tmp_path / "run")) == list(journal.records)
    journal.add(record(7))
    assert len(rows(path)) == 3, "a closed journal only remembers"


def test_sync_reaches_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    journal = started(tmp_path)
    journal.add(record(0))
    synced.clear()
    journal.sync()
    assert len(synced) == 1
    journal.sync()
    assert len(synced) == 1, "nothing new"


def test_a_torn_last_line_is_left_out_and_another_is_an_error(tmp_path):
    path = tmp_path / "programs.jsonl"
    whole = "".join(record(number).to_json_line() for number in range(3))
    for cut in (1, 2, 40, len(record(2).to_json_line()) - 1):
        path.write_text(whole[:-cut])
        # without its line break alone a last line is whole
        assert len(read_records(path)) == (3 if cut == 1 else 2)
    path.write_bytes(whole.encode() + '{"task": "μ'.encode()[:-1])
    assert len(read_records(path)) == 3, "torn within a character"
    lines = whole.splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:50] + "\n" + lines[2])
    with pytest.raises(ValueError, match=r"line 2 of .*programs\.jsonl is no JSON document"):
        read_records(path)
    path.write_text('{"task": "t"}\n' + whole)
    with pytest.raises(ValueError, match="no program record: KeyError"):
        read_records(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no programs\.jsonl in"):
        read_records(tmp_path)


def test_the_file_is_bounded_and_keeps_the_best(tmp_path):
    journal = started(tmp_path, capacity=20)
    for number in range(500):
        journal.add(record(number, log_reward=float(number % 97)))
        assert len(rows(tmp_path / "programs.jsonl")) <= 41
    journal.close()
    kept = sorted(row["log_reward"] for row in rows(tmp_path / "programs.jsonl"))
    assert 18 <= len(kept) <= 20
    assert kept[3] >= 90, "the last few are still on trial"
    assert [path.name for path in tmp_path.iterdir()] == ["programs.jsonl"]


def test_a_resumed_run_goes_on_in_its_folder(tmp_path):
    first = started(tmp_path)
    for number in (0, 1, 1, 2):
        first.add(record(number))
    with (tmp_path / "programs.jsonl").open("a") as file:
        file.write('{"task": "t", "source": "tor')
    # its checkpoint is older than programs 1 and 2; program 1 comes again
    second = started(tmp_path, resumed=True, known=[record(0)])
    assert [(item.source[-1], item.count) for item in second.records] == [("0", 1), ("1", 0), ("2", 0)]
    second.add(record(1))
    second.add(record(3))
    second.close()
    counts = {row["source"][-1]: row["count"] for row in rows(tmp_path / "programs.jsonl")}
    assert counts == {"0": 1, "1": 1, "2": 0, "3": 1}
    afresh = started(tmp_path)
    assert not (tmp_path / "programs.jsonl").exists()
    afresh.add(record(5))
    assert len(read_records(tmp_path)) == 1


def test_what_an_exception_leaves_in_the_queue_is_written_and_not_remembered(tmp_path):
    journal = started(tmp_path)
    for number in (0, 0, 1):
        journal.add(record(number))
    journal.close([record(1), record(2)])
    assert [(row["source"][-1], row["count"]) for row in rows(tmp_path / "programs.jsonl")] == [
        ("0", 2),
        ("1", 1),
        ("2", 1),
    ]
    assert len(journal.records) == 2


def test_files_of_several_processes_come_together(tmp_path):
    one, two = (started(tmp_path, rank, 2) for rank in (0, 1))
    one.add(record(0))
    two.add(record(0))
    two.add(record(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["programs-1.jsonl", "programs.jsonl"]
    (tmp_path / "programs-best.jsonl").write_text("a user's own\n")
    found = read_records(tmp_path)
    assert {item.source[-1]: item.count for item in found} == {"0": 2, "1": 1}
    one.take_over(two.records)
    two.hand_over()
    for journal in (one, two):
        journal.close()
    assert not (tmp_path / "programs-1.jsonl").exists()
    assert {row["source"][-1]: row["count"] for row in rows(tmp_path / "programs.jsonl")} == {"0": 2, "1": 1}
    assert len(two.records) == 0


def test_a_run_of_fewer_processes_takes_the_files_of_the_others_over(tmp_path):
    three = [started(tmp_path, rank, 3) for rank in range(3)]
    for rank, journal in enumerate(three):
        journal.add(record(rank))
    started(tmp_path, rank=0, size=1, resumed=True)
    assert [path.name for path in tmp_path.iterdir()] == ["programs.jsonl"]
    assert {item.source[-1] for item in read_records(tmp_path)} == {"0", "1", "2"}


def test_a_full_disk_loses_no_line_that_was_written(tmp_path):
    journal = started(tmp_path)
    journal.add(record(0))

    def fill():
        for number in range(1, 100_000):
            journal.add(record(number))

    with small_disk(), pytest.raises(OSError, match="File too large"):
        fill()
    found = len(rows(tmp_path / "programs.jsonl"))
    assert found == len(journal.records)
    journal.add(record(-1))
    assert len(rows(tmp_path / "programs.jsonl")) == found + 1
