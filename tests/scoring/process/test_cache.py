from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.process.cache import CacheKey, ScoreCache
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings


def key(name: str, **settings) -> CacheKey:
    return CacheKey(name, "task", EngineSettings(**settings))


def test_hits_and_misses_are_counted():
    cache = ScoreCache()
    assert cache.get(key("a")) is None
    cache.put(key("a"), Score(evidence=1.0))
    assert cache.get(key("a")) == Score(evidence=1.0)
    assert (cache.hits, cache.misses, len(cache)) == (1, 1, 1)


def test_every_part_of_the_key_counts():
    cache = ScoreCache()
    cache.put(key("a"), Score(evidence=1.0))
    others = [key("b"), key("a", starts=13), key("a")._replace(task="other"), key("a")._replace(engine="0")]
    assert not any(other in cache for other in others)


def test_the_least_recently_used_is_dropped():
    cache = ScoreCache(capacity=2)
    cache.put(key("a"), Score(evidence=1.0))
    cache.put(key("b"), Score(evidence=2.0))
    cache.get(key("a"))
    cache.put(key("c"), Score(evidence=3.0))
    assert key("a") in cache
    assert key("b") not in cache
    assert key("c") in cache


def test_failures_are_kept():
    cache = ScoreCache()
    failed = Score.failed(FailureCategory.SCORER_LIMIT, "time")
    cache.put(key("a"), failed)
    assert cache.get(key("a")) == failed


def test_threads():
    cache = ScoreCache(capacity=50)

    def work(worker: int) -> None:
        for index in range(300):
            name = key(str((worker * index) % 80))
            if cache.get(name) is None:
                cache.put(name, Score(evidence=float(index)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert cache.hits + cache.misses == 2400
    assert len(cache) <= 50


def test_capacity_must_be_positive():
    with pytest.raises(ValueError, match="capacity"):
        ScoreCache(0)
