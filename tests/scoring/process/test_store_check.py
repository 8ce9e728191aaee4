"""A corrupt store of scores is set aside and begun anew; one that breaks in use costs no run."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from synthstats_lightning.scoring.process import store_check
from synthstats_lightning.scoring.process.store import ScoreKey, ScoreStore
from synthstats_lightning.scoring.process.store_check import corruption, set_aside_if_corrupt
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings


def key(name: str) -> ScoreKey:
    return ScoreKey(name, "task", EngineSettings())


def filled(path: Path, number: int = 300) -> Path:
    store = ScoreStore(path)
    for index in range(number):
        store.put(key(f"program {index}"), Score(evidence=float(index)))
    store.close()
    return path


def corrupt(path: Path, way: str) -> None:
    content = bytearray(path.read_bytes())
    if way == "zeros":
        content[:4096] = bytes(4096)
    elif way == "short":
        content = content[: len(content) // 2]
    else:
        content[4096 : len(content) - 2000] = bytes([0xA5]) * (len(content) - 6096)
    path.write_bytes(content)


@pytest.mark.parametrize("way", ["zeros", "short", "overwritten"])
def test_a_corrupt_store_is_set_aside(tmp_path, way):
    path = filled(tmp_path / "scores.sqlite")
    assert corruption(path) is None
    corrupt(path, way)
    content = path.read_bytes()
    with pytest.warns(
        UserWarning, match=r"corrupt store of scores .*scores.sqlite .*: set aside as"
    ) as caught:
        store = ScoreStore(path)
    assert len(store) == 0
    store.put(key("new"), Score(evidence=1.0))
    assert store.get(key("new")).evidence == 1.0
    store.close()
    (aside,) = tmp_path.glob("scores.sqlite.corrupt-*")
    assert str(aside) in str(caught[0].message)
    assert aside.read_bytes() == content


def open_store(path: str) -> tuple[int, int]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store = ScoreStore(path)
        store.put(key("mine"), Score(evidence=1.0))
        count = len(store)
        store.close()
    return count, len(caught)


@pytest.mark.slow
def test_processes_that_find_it_corrupt_at_once(tmp_path):
    path = filled(tmp_path / "scores.sqlite")
    corrupt(path, "short")
    with ProcessPoolExecutor(3, multiprocessing.get_context("forkserver")) as pool:
        found = list(pool.map(open_store, [str(path)] * 6))
    assert sorted(found) == [(1, 0)] * 5 + [(1, 1)]
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1


def test_one_at_a_time_looks_whether_it_is_corrupt(tmp_path, monkeypatch):
    """A look leaves SQLite's companion files beside the database, which another one must not rename."""
    path = filled(tmp_path / "scores.sqlite")
    corrupt(path, "short")
    looking, most = 0, 0

    def counted(path: Path) -> str | None:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        time.sleep(0.02)
        found = corruption(path)
        looking -= 1
        return found

    monkeypatch.setattr(store_check, "corruption", counted)
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("ignore")
        asides = list(pool.map(set_aside_if_corrupt, [path] * 4))
    assert most == 1
    assert [aside for aside in asides if aside] == list(tmp_path.glob("*.corrupt-*"))


def test_what_is_no_database_is_not_touched(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n" * 100)
    assert set_aside_if_corrupt(path) is None
    assert set_aside_if_corrupt(tmp_path / "nothing") is None
    with pytest.raises(ValueError, match="no store of scores"):
        ScoreStore(path)
    assert path.read_text() == "a,b\n" * 100


def test_a_store_that_breaks_in_use_is_left_alone(tmp_path):
    path = filled(tmp_path / "scores.sqlite", 3)
    store = ScoreStore(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE scores SET score = '{\"torn'")
    connection.close()
    with pytest.warns(UserWarning, match="holds what is no score"):
        assert store.get(key("program 1")) is None
    store.put(key("new"), Score(evidence=1.0))  # without effect, and without an error
    assert store.get(key("new")) is None
    assert len(store) == 0
    store.close()


def test_a_full_disk_costs_the_cache_and_not_the_run(tmp_path):
    store = ScoreStore(filled(tmp_path / "scores.sqlite", 3))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    long = Score(evidence=1.0, message="x" * 100_000)
    with pytest.warns(UserWarning, match="full; going on without it"):
        store.put(key("long"), long)
    store.put(key("another"), long)
    assert store.get(key("program 1")) is None
    store.close()
    again = ScoreStore(store.path)
    assert again.get(key("program 1")).evidence == 1.0
    again.close()
