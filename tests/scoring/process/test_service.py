"""What a scoring process answers, without the process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from synthstats_lightning.pool.program_worker import task_message
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.process import worker
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import get_task

PROGRAM = """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    pm.Normal("y", a, {scale}, observed=length)
"""


def test_a_graph_that_was_identified_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    task = get_task("dugongs")
    with Sandbox() as sandbox:
        graphs = [
            sandbox.build(PROGRAM.format(scale=scale), task.schema, task.covariates) for scale in (0.5, 0.6)
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
    service = worker.ScoringService(EngineSettings(), 8)
    message = task_message(task)
    service.answer({"kind": "task", "task": message.to_json()})

    def ask(kind: str, graph: str) -> dict[str, Any]:
        return service.answer({"kind": kind, "fingerprint": message.fingerprint, "graph": graph})

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
    service = worker.ScoringService(EngineSettings(), 8)
    message = task_message(task)
    service.answer({"kind": "task", "task": message.to_json()})
    for _ in range(2):
        answer = service.answer({"kind": "score", "fingerprint": message.fingerprint, "graph": "{}"})
        assert answer["status"] == "bad_graph"
