"""The file of a run's events: a line an event, numbered in order, durable, also over a resume."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from synthstats_lightning.runtime.durable_files import GrowingFile, read_json_lines

EVENTS = "events.jsonl"
"""Name of the file in the run's folder."""
ENDINGS = ("succeeded", "failed")
"""What the last event of a run that has ended says."""


@dataclass(frozen=True)
class Event:
    """Something that happened in a run.

    Attributes:
        sequence: Its number, from 0; a run that is resumed goes on counting.
        event: Its kind, such as `rl.running`.
        time: When it happened, in UTC, as ISO 8601 has it.
        step: Training steps so far.
        data: What is told of it; every number is finite or `None`.
    """

    sequence: int
    event: str
    time: str
    step: int
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ending(self) -> str | None:
        """`succeeded` or `failed` where the event is a run's last; otherwise `None`."""
        last = self.event.rpartition(".")[2]
        return last if last in ENDINGS else None

    def line(self) -> str:
        """The event as a line of JSON, without the line break."""
        return json.dumps(asdict(self), allow_nan=False)


class EventLog:
    """Appends events to a file; each is on the disk when `append` returns.

    Args:
        path: The file. One that is there already is gone on with.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self.last: Event | None = None
        for event in read_events(path):
            self.last = event

    def append(self, event: str, step: int, data: Mapping[str, Any] | None = None) -> Event:
        """Writes an event.

        Args:
            event: The kind of the event, such as `rl.running`.
            step: Training steps so far.
            data: What is told of it; numbers that JSON cannot hold become `None`.

        Returns:
            The event, with its number and its time.

        Raises:
            OSError: If the disk is full, or the file cannot be written.
        """
        sequence = 0 if self.last is None else self.last.sequence + 1
        written = Event(sequence, event, now(), step, plain(data or {}))
        self._file.append(written.line() + "\n")
        self._file.sync()
        self.last = written
        return written

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_events(path: Path) -> Iterator[Event]:
    """The events of a file, in order; none where there is no file.

    Args:
        path: The file, whose last line its writer may not have finished.

    Raises:
        ValueError: If a line is no event.
    """
    if not path.is_file():
        return
    for number, document in enumerate(read_json_lines(path), start=1):
        yield _event(document, path, number)


def follow_events(
    path: Path,
    after: int = -1,
    alive: Callable[[Event], bool] = lambda event: True,
    poll_seconds: float = 0.2,
    grace_seconds: float = 10.0,
) -> Iterator[Event]:
    """The events of a file as they are written, until one ends the run.

    Args:
        path: The file, which may not be there yet.
        after: Number of the event after which to begin; all by default.
        alive: Asked, while nothing new comes, with the last event that tells of a process.
        poll_seconds: Seconds between looks at the file.
        grace_seconds: Seconds after which no more are waited for where `alive` says no all the time: of a
            process that was killed, who watched it says how it ended, a moment later.

    Raises:
        ValueError: If a line is no event.
    """
    place, number = 0, 0
    gone_since: float | None = None
    last = told = None
    while True:
        lines, place = _whole_lines(path, place)
        for line in lines:
            number += 1
            try:
                document = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is no JSON document: {error}") from None
            last = _event(document, path, number)
            told = last if told is None or "pid" in last.data else told
            if last.sequence > after:
                yield last
        if lines:
            gone_since = None
        elif last is not None and told is not None:
            if last.ending is not None:
                return
            if alive(told):
                gone_since = None
            elif gone_since is None:
                gone_since = time.monotonic()
            elif time.monotonic() - gone_since > grace_seconds:
                return
        if not lines:
            time.sleep(poll_seconds)


def plain(value: Any) -> Any:
    """The same as JSON can hold it: numbers that are not finite, and what has no such form, become `None`.

    Args:
        value: Texts, numbers and tensors of one element, in mappings, lists and tuples.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        return str(value) if isinstance(value, Path) else None
    return number if math.isfinite(number) else None


def now() -> str:
    """The present time in UTC, as ISO 8601 has it, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(document: Any, path: Path, number: int) -> Event:
    try:
        event = Event(**document)
    except TypeError:
        raise ValueError(f"line {number} of {path} is no event") from None
    types = {"sequence": int, "event": str, "time": str, "step": int, "data": Mapping}
    if not all(isinstance(getattr(event, name), kind) for name, kind in types.items()):
        raise ValueError(f"line {number} of {path} is no event")
    return event


def _whole_lines(path: Path, place: int) -> tuple[list[str], int]:
    """Lines from a place in a file on that end with a line break, and the place behind them."""
    if not path.is_file():
        return [], place
    with path.open("rb") as file:
        file.seek(place)
        content = file.read()
    end = content.rfind(b"\n") + 1
    return content[:end].decode("utf-8", "replace").splitlines(), place + end
