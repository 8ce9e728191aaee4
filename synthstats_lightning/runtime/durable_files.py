"""Files that are written whole or not at all, and files that only grow, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the kernel says of a full disk, a full quota and a file over its limit."""
_TEMPORARY = ".tmp-"
_BLOCK_BYTES = 2**16


def out_of_space(error: BaseException) -> bool:
    """Whether an error says that there is no room on the disk."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def is_temporary(path: Path) -> bool:
    """Whether a file is one that `replacing` has not finished, or never will."""
    return path.name.startswith(_TEMPORARY)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside another one, whose place it takes when the block ends without an error.

    Its content, and then its name, are on the disk before the block is left: a reader, also one after a crash
    or a power cut, finds the old file or the new one. The temporary file keeps the ending of the other. What
    a killed process has left of an earlier attempt goes.

    Args:
        path: The file; its folder is made if need be.

    Yields:
        The path to write to.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    temporary = target.with_name(f"{_TEMPORARY}{os.getpid()}-{target.name}")
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(target)
        _flush(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all.

    Args:
        path: Where the file is.
        text: What it shall hold.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


class GrowingFile:
    """A text file in UTF-8 that only grows, by whole lines, and outlives its process at any moment.

    The kernel has a line when `append` returns, so that killing the process loses none; the disk has it when
    `sync` returns, so that a crash of the machine loses at most what came since. A line that a crash has torn
    off goes when the file is opened again.

    Args:
        path: The file; it and its folder are made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._unsynced = False

    def append(self, lines: str) -> None:
        """Appends whole lines, or, if the disk is full, none.

        Args:
            lines: Each with its line break.
        """
        if not lines:
            return
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            _mend(self._descriptor)
            _flush(self.path.parent)
        content, before = memoryview(lines.encode()), os.fstat(self._descriptor).st_size
        self._unsynced = True
        try:
            while content:
                content = content[os.write(self._descriptor, content) :]
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def sync(self) -> None:
        """Waits until every line is on the disk."""
        if self._descriptor is not None and self._unsynced:
            os.fsync(self._descriptor)
            self._unsynced = False

    def close(self) -> None:
        """Closes the file once every line is on the disk; `append` opens it again."""
        if self._descriptor is not None:
            try:
                self.sync()
            finally:
                os.close(self._descriptor)
                self._descriptor = None


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of a JSON lines file, without a last line that its writer did not finish.

    Args:
        path: Where the file is.

    Raises:
        ValueError: If another line is no JSON document.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                if not line.endswith("\n"):
                    return
                raise ValueError(f"line {number} of {path} is no JSON document: {error}") from None


def _mend(descriptor: int) -> None:
    """Takes a last line off that has no line break."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    os.ftruncate(descriptor, end)


def _flush(path: Path) -> None:
    """Waits until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(target: Path) -> None:
    pattern = re.compile(rf"{re.escape(_TEMPORARY)}(\d+)-{re.escape(target.name)}")
    for other in target.parent.glob(f"{_TEMPORARY}*"):
        match = pattern.fullmatch(other.name)
        if match is not None and not _runs(int(match[1])):
            other.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    with contextlib.suppress(PermissionError):  # it runs, as another user
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True
