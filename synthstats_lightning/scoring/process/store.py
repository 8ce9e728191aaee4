"""Scores on disk: a cache that outlives a run and that several processes share."""

from __future__ import annotations

import json
import sqlite3
import time
import warnings
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from synthstats_lightning.programs.failure import TRANSIENT, FailureCategory
from synthstats_lightning.scoring.process.store_check import set_aside_if_corrupt
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import ENGINE_VERSION, EngineSettings

LAYOUT = 1
"""Version of the table, as SQLite's `user_version`."""
BUSY_SECONDS = 60.0
"""How long a process waits for another one that writes."""
PREPARING_ATTEMPTS = 50
"""A tenth of a second apart."""
NOT_KEPT = TRANSIENT | {FailureCategory.SCORER_LIMIT}
"""Failures that may be the machine's fault, not the program's."""

_CREATE = """
CREATE TABLE IF NOT EXISTS scores (
    canonical TEXT NOT NULL,
    task TEXT NOT NULL,
    settings TEXT NOT NULL,
    engine TEXT NOT NULL,
    score TEXT NOT NULL,
    PRIMARY KEY (canonical, task, settings, engine)
) WITHOUT ROWID
"""


class ScoreKey(NamedTuple):
    """Everything a score depends on.

    Attributes:
        canonical: Canonical hash of the model graph.
        task: Fingerprint of the task's data, shown rows included.
        settings: The engine's settings.
        engine: The engine's version.
    """

    canonical: str
    task: str
    settings: EngineSettings
    engine: str = ENGINE_VERSION


class ScoreStore:
    """A file of scores by canonical form, data, engine settings and engine version.

    It is safe under several processes: an SQLite database in write-ahead mode, where readers never wait and
    writers take turns. Values are JSON. A score is deterministic, so that two processes that compute one at
    once write the same value, and the first one counts. The file belongs on a local disk: SQLite's locks do
    not hold on most network file systems.

    Failures that the machine may be to blame for (time, memory, a killed process) are not kept.

    A store only saves time, so that nothing that befalls it ends a run. A corrupt file is set aside under
    another name and a new one begun; where it breaks, or the disk is full, while it is in use, scores are
    computed as without a store from then on. Either is a warning that names the file.

    Args:
        path: The file; it and its folder are made if they do not exist.

    Raises:
        ValueError: If the file is no database, or one of another layout.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._broken = False
        set_aside_if_corrupt(self.path)
        self._connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare_when_free()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise ValueError(f"{self.path} is no store of scores: {error}") from error

    def _prepare_when_free(self) -> None:
        """Prepares the file, also while other processes begin it: SQLite's timeout does not cover that."""
        for _ in range(PREPARING_ATTEMPTS):
            try:
                return self._prepare()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                time.sleep(0.1)
        return self._prepare()

    def get(self, key: ScoreKey) -> Score | None:
        """The score under a key, or `None`."""
        query = "SELECT score FROM scores WHERE canonical = ? AND task = ? AND settings = ? AND engine = ?"
        rows = self._execute(query, _columns(key))
        try:
            return Score.from_dict(json.loads(rows[0][0])) if rows else None
        except (ValueError, KeyError, TypeError) as error:
            self._give_up(f"holds what is no score: {error!r}")
            return None

    def put(self, key: ScoreKey, score: Score) -> None:
        """Keeps a score under a key, unless one is kept already or the failure is not the program's."""
        if score.failure in NOT_KEPT:
            return
        value = json.dumps(score.to_dict(), allow_nan=False)
        self._execute("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?, ?)", (*_columns(key), value))

    def __len__(self) -> int:
        rows = self._execute("SELECT count(*) FROM scores", ())
        return int(rows[0][0]) if rows else 0

    def _execute(self, statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Rows of a statement, none if the file has failed."""
        if self._broken:
            return []
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            self._give_up(f"failed: {error}")
            return []

    def _give_up(self, reason: str) -> None:
        self._broken = True
        warnings.warn(f"the store of scores {self.path} {reason}; going on without it", stacklevel=3)

    def close(self) -> None:
        """Closes the file; the store is of no use afterwards."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}")
        self._connection.execute("PRAGMA journal_mode = WAL")
        # a power cut may lose the last scores, never the file
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            layout = cursor.execute("PRAGMA user_version").fetchone()[0]
            if layout == 0:
                cursor.execute(_CREATE)
                cursor.execute(f"PRAGMA user_version = {LAYOUT}")
            cursor.execute("COMMIT")
        if layout not in (0, LAYOUT):
            self._connection.close()
            raise ValueError(f"{self.path} has layout {layout} of the score store, not {LAYOUT}")


def _columns(key: ScoreKey) -> tuple[str, str, str, str]:
    settings = json.dumps(asdict(key.settings), sort_keys=True)
    return key.canonical, key.task, settings, key.engine
