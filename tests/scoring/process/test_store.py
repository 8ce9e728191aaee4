from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from synthstats_lightning.programs.failure import TRANSIENT, FailureCategory
from synthstats_lightning.scoring.process.store import ScoreKey, ScoreStore
from synthstats_lightning.scoring.score import Diagnostics, Score
from synthstats_lightning.scoring.settings import EngineSettings

DIAGNOSTICS = Diagnostics(0.01, 900.0, 0.3, "psis+importance", 0.5, (-1.0, -2.5))
SCORE = Score(evidence=-3.0, elpd=-3.5, canonical="abc", diagnostics={"elpd": DIAGNOSTICS})


def key(name: str = "a", **settings) -> ScoreKey:
    return ScoreKey(name, "task", EngineSettings(**settings))


def test_a_score_survives_the_process(tmp_path):
    path = tmp_path / "folder" / "scores.sqlite"
    store = ScoreStore(path)
    assert store.get(key()) is None
    store.put(key(), SCORE)
    store.close()
    again = ScoreStore(path)
    assert again.get(key()) == SCORE
    assert again.get(key()).diagnostics["elpd"].pointwise == (-1.0, -2.5)
    assert len(again) == 1
    again.close()


def test_every_part_of_the_key_counts(tmp_path):
    store = ScoreStore(tmp_path / "scores.sqlite")
    store.put(key(), SCORE)
    others = [key("b"), key(starts=13), key()._replace(task="other"), key()._replace(engine="0")]
    assert [store.get(other) for other in others] == [None] * 4
    store.close()


def test_values_are_json(tmp_path):
    path = tmp_path / "scores.sqlite"
    store = ScoreStore(path)
    store.put(key(), SCORE)
    store.close()
    with sqlite3.connect(path) as connection:
        (value,) = connection.execute("SELECT score FROM scores").fetchone()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert json.loads(value)["evidence"] == -3.0


def test_failures_of_the_program_are_kept_and_those_of_the_machine_are_not(tmp_path):
    store = ScoreStore(tmp_path / "scores.sqlite")
    store.put(key("a"), Score.failed(FailureCategory.NON_FINITE, "nan"))
    store.put(key("b"), Score.failed(FailureCategory.SCORER_LIMIT, "time"))
    for category in TRANSIENT:
        store.put(key("c"), Score.failed(category, "the machine"))
    assert store.get(key("a")).failure is FailureCategory.NON_FINITE
    assert store.get(key("b")) is None
    assert store.get(key("c")) is None
    store.put(key("c"), SCORE)
    assert store.get(key("c")) == SCORE
    store.close()


def test_the_first_value_counts(tmp_path):
    store = ScoreStore(tmp_path / "scores.sqlite")
    store.put(key(), SCORE)
    store.put(key(), replace(SCORE, evidence=0.0))
    assert store.get(key()) == SCORE
    store.close()


WRITER = """
import sys
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.scoring.process.store import ScoreKey, ScoreStore

store, mine = ScoreStore(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for index in range(300):
    for name in (f"{mine}-{index}", f"both-{index}"):
        store.put(ScoreKey(name, "task", EngineSettings()), Score(evidence=float(index)))
        assert store.get(ScoreKey(name, "task", EngineSettings())).evidence == index
"""


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "scores.sqlite"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    outcomes = []
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, error = writer.communicate(timeout=120)
        outcomes.append((writer.returncode, error))
    assert outcomes == [(0, ""), (0, "")]
    store = ScoreStore(path)
    assert len(store) == 900
    assert store.get(key("both-7")).evidence == 7.0
    store.close()


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "scores.sqlite"
    path.write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(ValueError, match="no store of scores"):
        ScoreStore(path)


def test_another_layout_is_refused(tmp_path):
    path = tmp_path / "scores.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ValueError, match="layout 7"):
        ScoreStore(path)
