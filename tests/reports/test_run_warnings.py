"""Warnings of a run: begun, over, written, read again."""

from __future__ import annotations

import pytest

from synthstats_lightning.reports.run_warnings import WARNINGS, RunWarning, WarningLog, read_warnings


def gap(task, step, value=3.0):
    return RunWarning("log_z_gap", task, step, f"learned log Z is {value} nats off", "train longer", value)


def test_a_warning_is_said_once_and_taken_back(tmp_path):
    log = WarningLog()
    log.start(tmp_path)
    assert log.update("a", 10, [gap("a", 10)]) == [gap("a", 10)]
    assert log.update("a", 20, [gap("a", 20, 4.0)]) == []
    assert log.update("b", 20, []) == []
    assert log.present == (gap("a", 10),)
    nothing = RunWarning("nothing_scored", "b", 30, "no program has a score", "see failures")
    assert log.update("b", 30, [nothing]) == [nothing]
    assert log.update("a", 40, []) == []
    assert log.present == (nothing,)
    log.close()
    held, over = read_warnings(tmp_path)
    assert held == nothing
    assert (over.step, over.over, over.value) == (10, 40, 3.0)
    assert str(held) == "b, step 30: no program has a score; see failures"


def test_a_run_that_goes_on_keeps_the_file_and_what_holds(tmp_path):
    first, second, third = WarningLog(), WarningLog(), WarningLog()
    first.start(tmp_path)
    first.update("a", 10, [gap("a", 10)])
    first.close()
    second.restore(first.state())
    second.start(tmp_path, resumed=True)
    assert second.update("a", 20, [gap("a", 20)]) == []
    assert len((tmp_path / WARNINGS).read_text().splitlines()) == 1
    second.update("a", 30, [])
    assert [warning.over for warning in read_warnings(tmp_path)] == [30]
    third.start(tmp_path)
    assert read_warnings(tmp_path) == ()


def test_a_line_that_is_no_warning_is_named(tmp_path):
    (tmp_path / WARNINGS).write_text('{"kind": "log_z_gap"}\n')
    with pytest.raises(ValueError, match=r"warnings.jsonl holds a line that is no warning"):
        read_warnings(tmp_path)
