"""A warm-up none of whose programs scores: nothing can be learned from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthstats_lightning.callbacks.findings.table import Outcome, PreflightTable
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.distributed import gather_objects

FEW = 16
"""Programs without a score that are no reason to end a run whose warm-up was cut off."""
SHOWN_LINES = 40
"""Lines of a program that are shown."""


class NothingScoredError(RuntimeError):
    """None of the programs that a run begins with has a score.

    Args:
        table: What became of them.
        number: How many there are.
    """

    def __init__(self, table: PreflightTable, number: int) -> None:
        self.table = table
        self.reason = (
            f"none of the {number} distinct programs of the warm-up has a score, so that there is nothing to"
            " learn from: a policy made for such data is wanted (of the bundled ones `writer`, by"
            " `--config policy/writer`); `scoring.require_scored: false` trains all the same"
        )
        super().__init__(f"{self.reason}\n{table}")


def check_scored(records: Iterable[ProgramRecord], *, cut_off: bool = False) -> None:
    """Refuses to train where no program has a score; every rank must ask at once.

    Args:
        records: The programs of this rank, also more than once, those that the run was given among them.
        cut_off: Whether a deadline has ended the warm-up: `FEW` programs then say nothing of the others.

    Raises:
        NothingScoredError: If none has one, on any rank.
    """
    own = list({(record.task, record.source): record for record in records}.values())
    ranks = gather_objects((any(record.score.scored for record in own), own[:1000], cut_off))
    programs = [record for _, rank, _ in ranks for record in rank]
    enough = len(programs) > (FEW if any(late for _, _, late in ranks) else 0)
    if enough and not any(scored for scored, _, _ in ranks):
        table = PreflightTable()
        add_programs(table, programs)
        raise NothingScoredError(table, len(programs))


def add_programs(table: PreflightTable, records: Sequence[ProgramRecord], subject: str = "warm-up") -> None:
    """Appends how many programs score, and for each kind of failure how many and the first one's reason.

    Args:
        table: It gets the lines, and one program of the most frequent failure where none scores.
        records: Distinct programs of a run.
        subject: What is said to be looked at.
    """
    failures: dict[str, list[ProgramRecord]] = {}
    for record in records:
        if record.score.failure is not None:
            failures.setdefault(str(record.score.failure), []).append(record)
    scored = sum(record.score.scored for record in records)
    outcome: Outcome = "ok" if 2 * scored >= len(records) > 0 else "warning" if scored else "failed"
    table.add(subject, f"{scored} of {len(records)} distinct programs have a score", outcome)
    frequent = sorted(failures.items(), key=lambda item: -len(item[1]))
    for category, failed in frequent:
        reason = failed[0].score.message or "no reason given"
        table.add(f"  {category}", f"{len(failed)} programs; the first: {reason}", outcome)
    if frequent and not scored:
        table.show(f"a program as it was extracted ({frequent[0][0]})", shown(frequent[0][1][0].source))


def shown(source: str) -> str:
    """The first lines of a text, and how many there are beyond them.

    Args:
        source: Source of a program, or what a policy wrote.
    """
    lines = source.splitlines()
    if not source.strip():
        return "(nothing)"
    more = len(lines) - SHOWN_LINES
    return "\n".join([*lines[:SHOWN_LINES], *([f"... and {more} lines more"] if more > 0 else [])])
