"""The file of a run's programs: written as they are scored, read again whatever became of the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from synthstats_lightning.programs.graph_lines import GraphLines
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.runtime.durable_files import GrowingFile, read_json_lines

PROGRAMS = "programs.jsonl"
_LARGEST = 2
"""Lines that the file may have for each program that is kept, before it is written anew."""


class RecordJournal:
    """Writes every distinct program to `programs.jsonl` as it is scored.

    A program's line is with the kernel when `add` returns, and on the disk when `sync` does: what a run has
    logged after `sync` outlives a kill of the process and a crash of the machine. The line of a program that
    comes again stays as it is until the file is written anew, by `close` and whenever it has twice as many
    lines as `records` may hold: until then only its `count` and `log_prob` are those of its first time.

    On several processes each has a file of its own, `programs-RANK.jsonl` but for the first, so that no two
    write one file; `gather` brings them together.

    Args:
        records: What is written; the programs that the capacity has cost are left out when the file is
            written anew.
    """

    def __init__(self, records: ProgramRecords) -> None:
        self.records = records
        self._file: GrowingFile | None = None
        self._graphs = GraphLines()
        self._noted: dict[tuple[str, str], ProgramRecord] = {}
        self._lines = 0
        self._outdated = False

    def start(self, folder: Path, rank: int = 0, size: int = 1, resumed: bool = False) -> None:
        """Opens the file; until then, and after `close`, `add` only remembers.

        A run that goes on in the folder where it ended keeps what the file holds beyond its checkpoint; the
        run's history does not have these programs, so their `count` is 0 until they come again. A run that
        starts afresh takes the place of an earlier one.

        Args:
            folder: The run's folder, where the file goes.
            rank: Rank of this process, which names its file.
            size: Number of processes.
            resumed: Whether the run goes on from a checkpoint.
        """
        own = folder / journal_name(rank)
        others = [path for path in journals(folder) if _rank(path) >= size] if rank == 0 else []
        if resumed:
            for path in (own, *others):
                for found in read_records(path) if path.is_file() else ():
                    if found not in self.records:
                        found.count = 0
                        self.records.add(found)
        self._file, self._graphs = GrowingFile(own), GraphLines()
        if len(self.records):
            self._write_anew()
        else:
            own.unlink(missing_ok=True)
        for path in others:
            path.unlink(missing_ok=True)

    def add(self, record: ProgramRecord) -> None:
        """Remembers a program, and writes it if it is new.

        Args:
            record: A scored program.
        """
        known = record in self.records
        if not known and self._file is not None:
            self._append(record)
            self._lines += 1
        self._outdated |= known or self._noted.pop((record.task, record.source), None) is not None
        self.records.add(record)
        capacity = self.records.capacity
        if capacity is not None and self._lines > _LARGEST * capacity:
            self._write_anew()

    def sync(self) -> None:
        """Waits until every program is on the disk; comes before its score is logged."""
        if self._file is not None:
            self._file.sync()

    def note(self, record: ProgramRecord) -> None:
        """Writes a program that the records have not taken up yet, or never will.

        Args:
            record: A scored program.
        """
        if self._file is not None and not self.holds(record.task, record.source):
            self._noted[record.task, record.source] = record
            self._append(record)

    def holds(self, task: str, source: str) -> bool:
        """Whether a program is written, or remembered.

        Args:
            task: Name of its task.
            source: Source text of the program.
        """
        return (task, source) in self._noted or self.records.get(task, source) is not None

    def gather(self) -> None:
        """Brings the programs of all processes to the first one; every rank must call it."""
        rank, size = rank_and_size()
        if size == 1:
            return
        others = gather_objects(self.records.to_json_lines() if rank else "")
        if rank == 0:
            self.take_over(record for lines in others for record in ProgramRecords.from_json_lines(lines))
        gather_objects(None)  # the first one has written them
        if rank:
            self.hand_over()

    def take_over(self, others: Iterable[ProgramRecord]) -> None:
        """Adds the programs of other processes, and writes the file anew with all of them.

        Args:
            others: Records of other ranks or runs.
        """
        for record in others:
            self.records.add(record)
        if self._file is not None:
            self._write_anew()

    def hand_over(self) -> None:
        """After another process took this one's programs over: forgets them and removes the file."""
        self.records.clear()
        if self._file is not None:
            self._file.close()
            self._file.path.unlink(missing_ok=True)
            self._lines, self._outdated, self._graphs = 0, False, GraphLines()

    def close(self, unfinished: Iterable[ProgramRecord] = ()) -> None:
        """Brings counts up to date and closes the file; safe to call twice.

        Args:
            unfinished: Programs that have a score and that the run, which ends before its time, has not taken
                up: they are written, and not remembered.
        """
        if self._file is None:
            return
        if self._outdated or self._lines > len(self.records):
            self._write_anew()
        for record in unfinished:
            self.note(record)
        self._file.close()
        self._file = None

    def _append(self, record: ProgramRecord) -> None:
        if self._file is not None:
            try:
                self._file.append(record.to_json_line(self._graphs))
            except OSError:  # lines to come must not name what this one was to hold
                self._graphs = GraphLines()
                raise

    def _write_anew(self) -> None:
        if self._file is not None:
            self._file.close()
            self._graphs = GraphLines()
            ProgramRecords([*self.records, *self._noted.values()]).write(self._file.path, self._graphs)
            self._lines, self._outdated = len(self.records), False


def journal_name(rank: int) -> str:
    """The file of a process.

    Args:
        rank: Its number; the first process has `programs.jsonl`.
    """
    return PROGRAMS if rank == 0 else f"programs-{rank}.jsonl"


def journals(folder: Path) -> list[Path]:
    """The files of programs in a run's folder: one, and after a kill of a run of several processes more.

    Args:
        folder: The run's folder, which has a journal of each rank.
    """
    first = [folder / PROGRAMS] if (folder / PROGRAMS).is_file() else []
    others = (path for path in folder.glob("programs-*.jsonl") if _rank(path) > 0)
    return [*first, *sorted(others, key=_rank)]


def read_records(path: Path) -> ProgramRecords:
    """The programs of a run, also of one that was killed.

    Args:
        path: One file of programs, or the run's folder, for those of all its processes.

    Raises:
        FileNotFoundError: If there are none.
        ValueError: If a line, other than a last one that is torn off, cannot be read.
    """
    files = journals(path) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"no {PROGRAMS} in {path}")
    found = ProgramRecords()
    for file in files:
        # within a file the last line of a program holds; what two processes have seen adds up
        for record in ProgramRecords(_records(file)):
            found.add(record)
    return found


def _records(path: Path) -> Iterable[ProgramRecord]:
    graphs = GraphLines()
    for fields in read_json_lines(path):
        try:
            yield ProgramRecord.from_dict(graphs.restore(fields))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} holds a line that is no program record: {error!r}") from None


def _rank(path: Path) -> int:
    number = path.stem.partition("-")[2]
    return int(number) if number.isdecimal() else 0
