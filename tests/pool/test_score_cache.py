"""Scores on disk are shared by pools: what one has scored the next one looks up."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task

LEVEL = """
with pm.Model() as model:
    level = pm.Normal("level", 0, 5)
    pm.Normal("obs", level, 1.5, observed=y)
"""
SAME = """
with pm.Model():
    mu = pm.Normal("mu", mu=0.0, sigma=5.0)
    pm.Normal("z", mu=mu, sigma=1.5, observed=data["y"])
"""
Y = np.random.default_rng(0).normal(size=10)


@pytest.fixture(scope="module")
def task() -> Task:
    return Task("level", "A level.", {"i": np.arange(10), "y": Y}, "y")


@pytest.mark.slow
def test_the_next_pool_looks_scores_up(task, tmp_path_factory):
    path = tmp_path_factory.mktemp("cache") / "scores.sqlite"
    with ProgramScorer(1, score_cache=path) as scorer:
        first = scorer.score(LEVEL, task)
        unsupported = scorer.score("x = 1", task)
    assert first.scored, first.message
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT canonical, score FROM scores").fetchall()
        assert [row[0] for row in rows] == [first.canonical]
        # what is looked up, not scored again, shows the mark
        marked = {**json.loads(rows[0][1]), "seconds": 123.0}
        connection.execute("UPDATE scores SET score = ?", (json.dumps(marked),))
    connection.close()
    with ProgramScorer(1, score_cache=path) as scorer:
        again = scorer.score(SAME, task)
        other = scorer.score(LEVEL.replace("1.5", "1.25"), task)
    assert again == replace(first, seconds=123.0)
    assert other.scored
    assert other.seconds < 100
    assert not unsupported.scored
    with ProgramScorer(1, settings=EngineSettings(starts=13), score_cache=path) as scorer:
        assert scorer.score(LEVEL, task).seconds < 100
