"""A warm-up without a program that scores ends a run, and says why."""

import pytest

from synthstats_lightning.callbacks.findings.table import PreflightTable
from synthstats_lightning.callbacks.findings.unscored import NothingScoredError, check_scored, shown
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score


def record(source, category=None, message=""):
    score = Score(evidence=1.0) if category is None else Score.failed(category, message)
    return ProgramRecord("t", source, score, 0.0, -1.0, -1.0)


def test_one_score_or_no_program_at_all_is_no_reason_to_stop():
    failed = record("a", FailureCategory.SYNTAX)
    check_scored([failed, record("b")])
    check_scored([])


def test_the_reason_counts_distinct_programs_by_failure_most_frequent_first():
    prose = "Sure, here is a model.\nIt has a mean."
    programs = [
        record("m", FailureCategory.RAISED, "NameError: name 'foo'\nis not defined"),
        record(prose, FailureCategory.SYNTAX, "line 1: invalid syntax"),
        record("other", FailureCategory.SYNTAX, "line 2"),
        record(prose, FailureCategory.SYNTAX, "line 1: invalid syntax"),
    ]
    with pytest.raises(NothingScoredError, match="none of the 3 distinct programs") as caught:
        check_scored(programs)
    assert "require_scored: false" in caught.value.reason
    assert "--config policy/writer" in caught.value.reason
    assert [(row.subject.strip(), row.outcome) for row in caught.value.table.rows] == [
        ("warm-up", "failed"),
        ("syntax", "failed"),
        ("raised", "failed"),
    ]
    text = str(caught.value)
    assert "2 programs; the first: line 1: invalid syntax" in text
    assert "1 programs; the first: NameError: name 'foo' is not defined" in text
    assert prose in text


def test_long_texts_are_cut_and_empty_ones_said():
    assert shown("a\n" * 42).splitlines()[-1] == "... and 2 lines more"
    assert shown(" \n") == "(nothing)"


def test_columns_of_the_table_are_aligned():
    table = PreflightTable()
    table.add("data", "27 rows")
    table.add("training step", "no\nloss", "warning")
    assert str(table).splitlines() == ["data           ok       27 rows", "training step  warning  no loss"]
    assert not table.failed


def test_a_warm_up_that_a_deadline_cut_off_ends_no_run_after_a_few_programs():
    few = [record(str(number), FailureCategory.RAISED) for number in range(16)]
    check_scored(few, cut_off=True)
    with pytest.raises(NothingScoredError, match="none of the 17 distinct"):
        check_scored([*few, record("one more", FailureCategory.RAISED)], cut_off=True)
