"""A program has the same score, bit for bit, whether it was built or filled in."""

import contextlib
from dataclasses import replace

import pytest

from synthstats_lightning.pool.program_worker import ProgramWorker, task_message
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.tasks import get_task

pytestmark = pytest.mark.long

SOURCE = """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, {})
    sigma = pm.HalfNormal("sigma", {})
    pm.Normal("y", a, sigma, observed=length)
"""


def test_scores_do_not_depend_on_the_programs_before():
    message = task_message(get_task("dugongs"))
    sources = [SOURCE.format(*each) for each in (("1.0", "0.5"), ("2", "0.25"), ("1.5", "1"), ("0.7", "0.7"))]
    with contextlib.closing(ProgramWorker(WorkerSettings())) as worker:
        together = [worker.score(source, message) for source in sources]
        assert worker.templates.filled == 2
    with contextlib.closing(ProgramWorker(WorkerSettings())) as worker:
        alone = [worker.score(source, message) for source in sources[:1:-1]]
        assert worker.templates.filled == 0
    found, expected = ([undated(score) for score in scores] for scores in (together[:1:-1], alone))
    assert all(score.scored for score in found)
    assert found == expected


def undated(score):
    diagnostics = {name: replace(each, seconds=0.0) for name, each in score.diagnostics.items()}
    return replace(score, seconds=0.0, diagnostics=diagnostics)
