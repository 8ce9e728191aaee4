"""Running a corpus of hostile and honest programs, and what they did, seen from outside."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sandbox_parts.sandbox_canaries import TOKENS, Canaries, kernel_objects

from synthstats_lightning.pool.scorer import task_message
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.runtime.frames import ConnectionLost, DeadlinePassed
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.sandbox.outcome import interpret
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.scoring.process.client import ScoringClient
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

Case = dict[str, Any]

TASK = Task(
    "corpus",
    "the data that the corpus's programs hold",
    {"x": np.arange(1.0, 9.0), "y": np.array([2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8, 16.1])},
    "y",
)
HONEST = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 10)
    b = pm.Normal("b", 0, 10)
    s = pm.HalfNormal("s", 2)
    pm.Normal("obs", a + b * x, s, observed=y)
"""
SLACK_SECONDS, BOMB_BYTES, GROWTH_BYTES = 8.0, 2.8e9, 150e6
LATE_SECONDS = 4.0


def read_cases(*paths: Path) -> list[Case]:
    """The cases of several files."""
    return [case for path in paths for case in json.loads(path.read_text(encoding="utf-8"))]


@dataclass
class Report:
    """What became of the cases.

    Attributes:
        effects: Hostile programs that had their effect, with what was seen.
        honest: Honest programs that ran, and those that were accepted.
        hacks: Programs that attack their score, and those that gained.
        leaked: Processes, files, memory segments, keys and queues left behind.
    """

    cases: int = 0
    effects: dict[str, list[str]] = field(default_factory=dict)
    honest: list[str] = field(default_factory=list)
    honest_accepted: list[str] = field(default_factory=list)
    hacks: list[str] = field(default_factory=list)
    hacks_with_gain: list[str] = field(default_factory=list)
    leaked: int = 0


class CorpusRunner:
    """Runs cases one after the other in one sandbox.

    Args:
        sandbox: Whose limits should be short; dying and hanging programs use all of them.
        canaries: What the programs may not reach.
        scoring: Scores the programs that attack their score; `None` leaves their scores out.
    """

    def __init__(self, sandbox: Sandbox, canaries: Canaries, scoring: ScoringClient | None = None) -> None:
        self.sandbox = sandbox.start()
        self.canaries = canaries
        self.scoring = scoring
        self.report = Report()
        self.honest_graph = self._honest()
        self._honest_score = self._score(self.honest_graph) if scoring else None
        self._late: list[tuple[str, float]] = []
        self._objects = kernel_objects()

    def run(self, cases: Sequence[Case]) -> Report:
        """Runs cases, then waits for late effects."""
        for case in cases:
            self._run_case(case)
        if self._late:
            time.sleep(max(0.0, self._late[-1][1] + LATE_SECONDS - time.monotonic()))
            for name in self.canaries.dropped():
                self.report.effects.setdefault("late", []).append(name)
        objects = kernel_objects()
        self.report.leaked += sum(max(0, objects[name] - self._objects[name]) for name in objects)
        return self.report

    def _honest(self) -> str:
        """The honest program's graph; a machine busy with other things may need several attempts."""
        for _ in range(9):
            try:
                return self.sandbox.build(HONEST, TASK.schema, TASK.covariates)
            except ProgramFailure as failure:
                if failure.category is not FailureCategory.TIMEOUT:
                    return str(failure)
        return "timeout"

    def _run_case(self, case: Case) -> None:
        report, kind = self.report, case["effect"]["kind"]
        report.cases += 1
        seen: list[str] = []
        before, restarts, worker = _resident(os.getpid()), self.sandbox.restarts, self.sandbox.pid
        source = self.canaries.fill(case["code"], case["id"])
        build = bool(case.get("scoring"))
        started = time.monotonic()
        with _largest_child(worker) as largest:
            try:
                raw, document, failure = self._execute(source, build)
            except Exception as error:  # the harness stands for the trainer: nothing may get here
                raw, document, failure = b"", None, f"{type(error).__name__}: {error}"
                seen.append(f"the trainer's side raised {failure}")
        if time.monotonic() - started > self.sandbox.limits.wall_seconds + SLACK_SECONDS:
            seen.append("over its time")
        if largest[0] > BOMB_BYTES:
            seen.append(f"{largest[0] / 1e9:.1f} GB")
        if _resident(os.getpid()) - before > GROWTH_BYTES:
            seen.append("the trainer's memory grew")
        if self.sandbox.restarts != restarts or self.sandbox.pid != worker:
            seen.append("the worker died")
        seen += self._outside(case, raw)
        if kind == "benign":
            report.honest.append(case["id"])
            if failure is None:
                report.honest_accepted.append(case["id"])
        elif kind == "false_success" and failure is None:
            seen.append("taken for a success")
        if build:
            report.hacks.append(case["id"])
            if document is not None and self.scoring is not None and self._gains(document):
                report.hacks_with_gain.append(case["id"])
        if kind == "late_file":
            self._late.append((case["id"], time.monotonic()))
        honest = self._honest()
        if honest != self.honest_graph:
            what = "ran out of time, nine times" if honest == "timeout" else "gave another graph"
            seen.append(f"the next honest program {what}")
        if seen:
            report.effects[case["id"]] = seen

    def _execute(self, source: str, build: bool) -> tuple[bytes, str | None, str | None]:
        """What the program's process wrote, the document taken from it, and why none was."""
        schema, covariates = (TASK.schema, TASK.covariates) if build else (None, {})
        worker = self.sandbox.start()._worker
        assert worker is not None
        try:
            size = len(source.encode("utf-8", "surrogatepass"))
            if size > self.sandbox.limits.source_bytes:
                return b"", None, "too long"
            outcome, document, log = worker.run(Job(source, build, schema, covariates).encode())
        except (ConnectionLost, DeadlinePassed) as error:
            self.sandbox.close()
            return b"", None, f"worker lost: {type(error).__name__}"
        raw = document + log
        try:
            return raw, interpret(outcome, document, self.sandbox.limits), None
        except ProgramFailure as failure:
            return raw + str(failure).encode("utf-8", "surrogatepass"), None, str(failure)

    def _outside(self, case: Case, raw: bytes) -> list[str]:
        seen = [f"changed {name}" for name in self.canaries.tampered()]
        seen += [f"left {name}" for name in self.canaries.dropped()]
        if self.canaries.reached():
            seen.append("reached a listener")
        if self.canaries.hurt():
            seen.append("changed another process")
        named = f"CANARY-{case['effect'].get('token')}-OK"
        seen += [f"leaked {token}" for token in (*TOKENS.values(), named) if token.encode() in raw]
        children = Path(f"/proc/{self.sandbox.pid}/task/{self.sandbox.pid}/children")
        left = len(children.read_text().split()) if children.exists() else 0
        self.report.leaked += left
        return seen

    def _score(self, graph: str) -> Any:
        assert self.scoring is not None
        try:
            return self.scoring.ask("score", graph, task_message(TASK))
        except ProgramFailure as failure:
            return Score.failed(failure.category, failure.message)

    def _gains(self, document: str) -> bool:
        score = self._score(document)
        honest = self._honest_score
        if not score.scored:
            return False
        return bool(score.evidence > honest.evidence + 0.5 or score.elpd > honest.elpd + 0.5)


@contextmanager
def _largest_child(worker: int | None) -> Iterator[list[int]]:
    """Watches how much memory the children of a process hold, in a thread."""
    largest, done = [0], threading.Event()

    def watch() -> None:
        path = Path(f"/proc/{worker}/task/{worker}/children")
        while not done.wait(0.05):
            try:
                for child in path.read_text().split():
                    largest[0] = max(largest[0], _resident(int(child)))
            except OSError:
                continue

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield largest
    finally:
        done.set()
        thread.join()


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
