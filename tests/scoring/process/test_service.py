"""What a scoring process answers, without the process."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import pytest

from synthstats_lightning.pool.program_worker import task_message
from synthstats_lightning.scoring.process import worker
from synthstats_lightning.scoring.process.messages import TaskMessage
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import get_task
from tests.support.warm import warm_sandbox

PROGRAM = """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    pm.Normal("y", a, {scale}, observed=length)
"""


def test_a_graph_that_was_identified_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    task = get_task("dugongs")
    graphs = [
        warm_sandbox().build(PROGRAM.format(scale=scale), task.schema, task.covariates)
        for scale in (0.5, 0.6)
    ]
    read: Counter[str] = Counter()

    def count(name: str) -> None:
        function = getattr(worker, name)

        def counted(*given: Any) -> Any:
            read[name] += 1
            return function(*given)

        monkeypatch.setattr(worker, name, counted)

    count("parse_graph")
    count("canonical_model")
    service = worker.ScoringService(EngineSettings())
    message = task_message(task)
    service.answer({"kind": "task", "task": message.to_json()})

    def ask(kind: str, graph: str) -> dict[str, Any]:
        request = {"kind": kind, "fingerprint": message.fingerprint, "graph": graph, "details": {}}
        value: dict[str, Any] = service.answer(request)["value"]
        return value

    first = ask("identify", graphs[0])
    score = ask("score", graphs[0])
    assert score["canonical"] == first["canonical"]
    assert read == {"parse_graph": 1, "canonical_model": 1}
    other = ask("score", graphs[1])
    assert other["canonical"] != first["canonical"]
    assert other["evidence"] != score["evidence"]
    assert read == {"parse_graph": 2, "canonical_model": 2}


def test_a_graph_that_is_not_valid_is_not_kept() -> None:
    task = get_task("dugongs")
    service = worker.ScoringService(EngineSettings())
    message = task_message(task)
    service.answer({"kind": "task", "task": message.to_json()})
    for _ in range(2):
        request = {"kind": "score", "fingerprint": message.fingerprint, "graph": "{}", "details": {}}
        assert service.answer(request)["failure"] == "bad_graph"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IndexError("shape (3,)\n does not fit"), "the scorer failed: IndexError: shape (3,) does not fit"),
        (MemoryError(), "the scorer ran out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "the scorer ran out of memory"),
    ],
)
def test_whatever_a_graph_brings_about_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*given: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(worker, "score_graph", fail)

    class Received(worker.ReceivedGraph):
        def __init__(self, text: str, task: TaskMessage) -> None:
            self.source, self.model, self.literal_copies = (text, task.fingerprint), mock.Mock(hash="x"), 0

    monkeypatch.setattr(worker, "ReceivedGraph", Received)
    service = worker.ScoringService(EngineSettings())
    message = task_message(get_task("dugongs"))
    service.answer({"kind": "task", "task": message.to_json()})
    request = {"kind": "score", "fingerprint": message.fingerprint, "graph": "{}", "details": {}}
    assert service.answer(request) == {"failure": "scorer_limit", "message": said}
