"""Whether a file of scores can be trusted; one that cannot is set aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_COMPANIONS = ("", "-wal", "-shm")
_BUSY_SECONDS = 60.0


def corruption(path: Path) -> str | None:
    """What is wrong with a database, `None` if it is whole, or a file of another kind.

    Every page is read (`PRAGMA quick_check`).

    Args:
        path: Path of the file.
    """
    with path.open("rb") as file:
        beginning = file.read(len(_MAGIC))
    if beginning == bytes(len(_MAGIC)):
        return "it begins with zeros, as after a power cut"
    if beginning != _MAGIC:
        return None  # opening it says what it is
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError:
        return None  # locked or not allowed: no sign of corruption, and opening it will say so
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else str(found)


def set_aside_if_corrupt(path: Path) -> Path | None:
    """Gives a corrupt database another name, so that a new one can be begun, and warns.

    Of several processes that open a corrupt one, one finds it so and renames it. Processes that use it
    already go on with the renamed file.

    Args:
        path: The file, which need not exist.

    Returns:
        The new name, `None` if nothing was wrong.
    """
    # a look has the file open, with SQLite's companion files beside it: none may be renamed meanwhile
    with _one_process(path.parent):
        reason = corruption(path) if path.is_file() else None
        if reason is None:
            return None
        stem = f"{path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}"
        for suffix in _COMPANIONS:
            with suppress(FileNotFoundError):  # a process that used the file may remove its companions now
                path.with_name(path.name + suffix).rename(path.with_name(stem + suffix))
    aside = path.with_name(stem)
    reason = " ".join(reason.split())
    warnings.warn(f"corrupt store of scores {path} ({reason}): set aside as {aside}", stacklevel=3)
    return aside


@contextmanager
def _one_process(folder: Path) -> Iterator[None]:
    """Within this context no other process is in one for the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
