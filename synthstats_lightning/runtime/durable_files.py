"""Files that are written whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the kernel says of a full disk, a full quota and a file over its limit."""
_TEMPORARY = ".tmp-"


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
        path: The file.
        text: What it shall hold.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
        found = pattern.fullmatch(other.name)
        if found is not None and not _runs(int(found[1])):
            other.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    with contextlib.suppress(PermissionError):  # it runs, as another user
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True
