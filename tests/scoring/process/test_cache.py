from __future__ import annotations

import pytest

from synthstats_lightning.scoring.process.cache import ScoreCache
from synthstats_lightning.scoring.score import Score


def test_the_longest_unused_goes_when_there_is_no_room():
    cache: ScoreCache[str] = ScoreCache(2)
    for name, value in (("a", 1.0), ("b", 2.0)):
        cache.put(name, Score(evidence=value))
    assert cache.get("a") == Score(evidence=1.0)
    cache.put("c", Score(evidence=3.0))
    assert cache.get("b") is None
    cache.put("a", Score(evidence=4.0))
    cache.put("d", Score(evidence=5.0))
    assert "c" not in cache
    assert (cache.get("a"), cache.get("d"), len(cache)) == (Score(evidence=4.0), Score(evidence=5.0), 2)


def test_capacity_must_be_positive():
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        ScoreCache(0)
