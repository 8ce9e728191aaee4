"""A report in a given time, on a clock that each piece of work moves on."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.reports import comparisons, elpd_scores, report_files
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.pictures import task_pictures
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import TableTask, get_task, understand

BEFORE = 2
"""Predictions that may be begun before one has ended: as many as there are threads."""


class Clock:
    """Says the time that work has taken."""

    def __init__(self):
        self.now, self.lock = 0.0, threading.Lock()

    def monotonic(self):
        return self.now

    def spend(self, seconds):
        with self.lock:
            self.now += seconds


class SlowWorkers:
    """Each score takes two seconds, each prediction thirty, and fails."""

    def __init__(self, clock):
        self.clock, self.predictions = clock, []

    def whole_score(self, source, task):
        self.clock.spend(2.0)
        answer = Future()
        answer.set_result(Score.failed(FailureCategory.RAISED, "no"))
        return answer

    def posterior(self, source, task, chains=4, draws=1000, seed=0, seconds=None, rows=None):
        self.predictions.append(seconds)
        self.clock.spend(30.0)
        raise ProgramFailure(FailureCategory.RAISED, "no")


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in (report_files, comparisons, elpd_scores, task_pictures):
        monkeypatch.setattr(module, "time", made)
    return made


def report():
    records = [
        ProgramRecord(
            "dugongs", f"program {n}", Score(evidence=-float(n), structure=f"{n}"), 0.0, -2.0, -2.0, fresh=1
        )
        for n in range(12)
    ]
    return TaskReport("dugongs", records, log_z=1.0)


def write(folder, clock, **times):
    (folder / "metrics.csv").write_text("step,train/log_z/dugongs\n1,0.5\n2,1.0\n", encoding="utf-8")
    workers, found = SlowWorkers(clock), report()
    task = get_task("dugongs")
    files = report_files.write_report_files(folder, [found], [task], workers, plotted=4, **times)
    return workers, found, files


def test_nothing_is_begun_after_its_time(tmp_path, clock):
    workers, found, files = write(tmp_path, clock, deadline=40.0, drawn_by=41.0)
    # each may take what is left, and after the first ones there is nothing left
    assert len(workers.predictions) <= BEFORE + 1
    assert max(workers.predictions) <= 40.0
    assert files.page.is_file()
    assert any("predictions" in line for line in found.left_out)
    assert "learning.png: the deadline came first" in found.left_out
    assert files.pictures == {}


def test_without_an_end_every_picture_is_drawn(tmp_path, clock):
    clock.spend(50.0)
    workers, found, files = write(tmp_path, clock, deadline=40.0)
    assert workers.predictions == []
    assert "predictions and comparisons: the deadline came first" in found.left_out
    # without predictions the best forms have their shares, and no map is drawn of nothing
    assert list(files.pictures) == ["posterior", "learning"]
    assert all(picture.is_file() for picture in files.pictures.values())


def test_how_a_table_was_understood_is_on_the_page(tmp_path):
    table = {
        "time": [3.0, 9.0, 4.0, 8.0],
        "died": [1, 0, 1, 0],
        "age": [61, None, 40, 52],
        "id": [1, 2, 3, 4],
    }
    task = TableTask(understand(table, "time"), name="trial")
    score = Score(evidence=-1.0, structure="a")
    records = [ProgramRecord("trial", "a program", score, 0.0, -2.0, -2.0)]
    files = report_files.write_report_files(
        tmp_path, [TaskReport("trial", records)], [task], None, plotted=1, deadline=0.0
    )
    page = files.page.read_text(encoding="utf-8")
    assert "died is taken to be 1 where the event was seen" in page
    assert "1 of 4 rows are left out for missing cells" in page
    assert "id is left out: another number in every row" in page
