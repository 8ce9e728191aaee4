"""The trainer's end of a scoring process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.runtime.child_process import ChildProcess, StartError
from synthstats_lightning.runtime.frames import ConnectionLost, DeadlinePassed, pack, unpack
from synthstats_lightning.runtime.process_clock import ComputedTooLong, Patience
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain
from synthstats_lightning.scoring.process.confinement import scorer_environment
from synthstats_lightning.scoring.process.messages import Identity, TaskMessage
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import OVERRUN, EngineSettings

WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    # glibc otherwise gives memory back between calls and pays for it in page faults
    "MALLOC_TRIM_THRESHOLD_": str(2**29),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    # huge pages for its heap: a tenth less time
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
MAX_ANSWER = 1 << 28
"""Bytes of the largest answer (scores have one number a row)."""
START_SECONDS = 120.0
"""A scoring process that has not imported torch by then never will."""
SLACK_SECONDS = 10.0
"""The engine keeps its own time limit; this covers one call that cannot be interrupted."""
SILENT_SECONDS = 10.0
"""A process that neither computes nor waits for a processor for so long has stopped answering."""
_WORDS = 200
RESULTS: dict[str, Callable[[Any], Any]] = {
    "identify": lambda fields: Identity(**fields),
    "score": Score.from_dict,
    "predict": np.asarray,
    "draws": lambda fields: PosteriorDraws(**fields),
    "forecast": lambda fields: Forecast(**fields),
    "gain": lambda fields: InformationGain(**fields),
}
"""What can be asked of a graph (`worker.OPERATIONS`), and what is made of the answer."""


class ScoringClient:
    """A scoring process, replaced when it dies or overruns its limit. Callers in several threads take turns.

    Its limit is processor time. One that neither computes nor waits for a processor is replaced, and asked
    once more before that is believed.

    Args:
        settings: How much work the engine spends on a program, and what it accepts.
        memory_bytes: Limit of the process's private memory, in bytes; `None` for no limit.
        confined: Whether the kernel confines the process (see `scoring.process.confinement`).

    Attributes:
        restarts: How often the process died, or was ended, and had to be replaced.
    """

    def __init__(
        self,
        settings: EngineSettings | None = None,
        memory_bytes: int | None = 6 * 2**30,
        confined: bool = True,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.memory_bytes = memory_bytes
        self.confined = confined
        self.restarts = 0
        self._child: ChildProcess | None = None
        self._told: set[str] = set()
        self._closed = False
        self._lock = threading.RLock()

    @property
    def pid(self) -> int | None:
        """Process id of the scoring process, if one runs."""
        return None if self._child is None else self._child.pid

    def start(self) -> ChildProcess:
        """The process, started if need be: it answers when this returns.

        Raises:
            StartError: If it does not come up, or this client is closed.
        """
        with self._lock:
            if self._child is not None and self._child.usable:
                return self._child
            if self._child is not None:
                self._replace()
            environment = {**scorer_environment(), **WORKER_ENVIRONMENT}
            module = "synthstats_lightning.scoring.process.worker"
            child = self._child = ChildProcess("scoring process", ["-m", module], environment)
            self._told.clear()
            try:
                if self._closed:
                    raise StartError("the scoring process was closed")
                engine = asdict(self.settings)
                settings = {"engine": engine, "memory_bytes": self.memory_bytes, "confined": self.confined}
                with suppress(ConnectionLost):  # `wait_ready` tells why
                    child.send(pack(settings), START_SECONDS)
                child.wait_ready(START_SECONDS)
            except BaseException as error:
                self._discard()
                if isinstance(error, StartError) and error.killed:
                    self.restarts += 1
                raise
            return child

    def ask(self, kind: str, graph: str, task: TaskMessage, **details: Any) -> Any:
        """What is known of a model graph: a score, predictions, draws.

        Args:
            kind: A key of `RESULTS`, which says what is returned.
            graph: The graph's document.
            task: What it is a model of.
            **details: What that operation of `scoring.process.worker` takes beside these.

        Raises:
            ProgramFailure: If the graph has no such thing, is too expensive, or twice killed the process.
            StartError: If no process comes up.
        """
        request = {"kind": kind, "fingerprint": task.fingerprint, "graph": graph, "details": details}
        limit = (1 + OVERRUN) * self.settings.time_limit + SLACK_SECONDS
        with self._lock:
            try:
                try:
                    answer = self._exchange(request, task, limit)
                except ComputedTooLong:
                    raise
                except (ConnectionLost, DeadlinePassed):
                    # its death or silence may be no fault of the graph's: one more try
                    self._replace()
                    answer = self._exchange(request, task, limit)
            except ConnectionLost:
                said = self._replace()
                message = f"the scoring process died twice on this program{': ' + said if said else ''}"
                raise ProgramFailure(FailureCategory.KILLED, message) from None
            except ComputedTooLong:
                self._replace()
                message = f"the scorer was ended after {limit:.0f} seconds of processor time"
                raise ProgramFailure(FailureCategory.CPU, message) from None
            except DeadlinePassed:
                self._replace()
                raise ProgramFailure(
                    FailureCategory.TIMEOUT, "the scoring process stopped answering twice"
                ) from None
            except BaseException:
                # interrupted in the middle of an exchange: what comes next would be the old answer
                self._discard()
                raise
        if "failure" in answer:
            raise ProgramFailure(FailureCategory(answer["failure"]), answer["message"])
        return RESULTS[kind](answer["value"])

    def close(self) -> None:
        """Ends the process for good; who waits for an answer gets a failure."""
        self._closed = True
        child = self._child
        if child is not None:
            child.interrupt()
        with self._lock:
            self._discard()

    def _exchange(self, request: dict[str, Any], task: TaskMessage, limit: float) -> dict[str, Any]:
        try:
            child = self.start()
        except StartError as error:
            if error.killed or self._closed:
                raise ConnectionLost(str(error)) from None
            raise
        patience = Patience(child.pid, SILENT_SECONDS, limit)
        if task.fingerprint not in self._told:
            child.send(pack({"kind": "task", "task": task.to_json()}), patience)
            told: dict[str, Any] = unpack(child.receive(MAX_ANSWER, patience))
            if "failure" in told:
                return told
            self._told.add(task.fingerprint)
        child.send(pack(request), patience)
        answer: dict[str, Any] = unpack(child.receive(MAX_ANSWER, patience))
        return answer

    def _replace(self) -> str:
        """Ends the process, which has failed, and tells its last words; the next call starts another."""
        said = ""
        if self._child is not None:
            self.restarts += 1
            said = " ".join(self._child.last_words().split())[:_WORDS]
        self._discard()
        return said

    def _discard(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
