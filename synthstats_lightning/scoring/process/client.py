"""The trainer's end of a scoring process."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain
from synthstats_lightning.scoring.process.confinement import scorer_environment
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings

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
ENDING_SECONDS = 5.0
"""A scoring process that fails to start has hung up before it ends, and its exit status tells why."""


@dataclass(frozen=True)
class TaskMessage:
    """What a scoring process is told of a task.

    Attributes:
        schema: Names, dtypes and number of rows.
        covariates: Column name to values.
        response: Values of the response.
        shown_rows: Rows that only condition.
        fingerprint: Hash of all of these.
        rounding: Spacing of the values that the response was recorded to, if it was rounded.
        held_out: Last rows, that evidence and elpd do not count.
        quantities: Names that a program must declare by `pm.Deterministic`.
    """

    schema: DataSchema
    covariates: Mapping[str, Any]
    response: Any
    shown_rows: int
    fingerprint: str
    rounding: float | None = None
    held_out: int = 0
    quantities: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return {
            "schema": {**asdict(self.schema), "columns": dict(self.schema.columns)},
            "covariates": {name: np.asarray(values).tolist() for name, values in self.covariates.items()},
            "response": np.asarray(self.response).tolist(),
            "shown_rows": self.shown_rows,
            "fingerprint": self.fingerprint,
            "rounding": self.rounding,
            "held_out": self.held_out,
            "quantities": list(self.quantities),
        }


class Identity(NamedTuple):
    """What a model graph is.

    Attributes:
        canonical: Hash of its canonical form.
        literal_copies: Values of the response that it holds as constants.
    """

    canonical: str
    literal_copies: int


class WorkerLostError(RuntimeError):
    """The scoring process died while it had a request."""


class ScoringStartError(RuntimeError):
    """A scoring process ended, or hung, before it could take a request: the installation is at fault."""


class _OverrunError(Exception):
    """The scoring process overran its limit and was ended."""


class ScoringClient:
    """A scoring process, restarted when it dies or overruns its limit. Not thread-safe: one caller at a time.

    Args:
        settings: Of the engine.
        memory_bytes: Limit of the process's private memory, in bytes; `None` for no limit.
        cache_entries: Scores that the process keeps by canonical form and task.
        confined: Whether the kernel confines the process (see `scoring.confinement`).
    """

    def __init__(
        self,
        settings: EngineSettings | None = None,
        memory_bytes: int | None = 6 * 2**30,
        cache_entries: int = 50_000,
        confined: bool = True,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.memory_bytes = memory_bytes
        self.cache_entries = cache_entries
        self.confined = confined
        self.restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._known: set[str] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the scoring process, if one runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the process and waits until it answers; does nothing if one runs.

        Raises:
            ScoringStartError: If it does not come up.
            WorkerLostError: If it is killed while it starts, or this client is closed.
        """
        if self._closed:
            raise WorkerLostError("the scoring client is closed")
        if self._process is not None:
            return
        ours, theirs = socket.socketpair()
        # A session of its own: Ctrl-C in a terminal must reach the trainer only, which then ends its workers.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "synthstats_lightning.scoring.process.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**scorer_environment(), **WORKER_ENVIRONMENT},
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._known = set()
        engine = asdict(self.settings)
        greeting = {
            "engine": engine,
            "memory_bytes": self.memory_bytes,
            "cache_entries": self.cache_entries,
            "confined": self.confined,
        }
        process = self._process
        try:
            self._exchange(greeting, START_SECONDS, ENDING_SECONDS)
        except (WorkerLostError, _OverrunError) as error:
            if isinstance(error, WorkerLostError) and process.returncode == -signal.SIGKILL:
                # from outside, such as for lack of memory: no fault of the installation
                raise WorkerLostError("the scoring process was killed while it started") from error
            raise ScoringStartError(
                "the scoring process did not start; its error is on standard error"
            ) from error

    def score(self, graph: str, task: TaskMessage) -> Score:
        """Scores a model graph.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
        """
        answer = self._request({"kind": "score", "fingerprint": task.fingerprint, "graph": graph}, task)
        return Score.from_dict(answer)

    def identify(self, graph: str, task: TaskMessage) -> Identity | None:
        """What a model graph is, without scoring it; `None` if it is not valid.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
        """
        request = {"kind": "identify", "fingerprint": task.fingerprint, "graph": graph}
        answer = self._request(request, task)
        return Identity(**answer) if "status" not in answer else None

    def predict(
        self, graph: str, task: TaskMessage, quantiles: list[float]
    ) -> Float[np.ndarray, "quantiles rows"]:
        """Posterior predictive quantiles of the response at every row.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
            ValueError: If the graph has no score.
        """
        request = {"kind": "predict", "fingerprint": task.fingerprint, "graph": graph, "quantiles": quantiles}
        answer = self._request(request, task)
        if "quantiles" not in answer:
            raise ValueError(f"no predictions: {answer['status']}: {answer['message']}")
        return np.array(answer["quantiles"])

    def draws(self, graph: str, task: TaskMessage, chains: int, draws: int, seed: int) -> PosteriorDraws:
        """Posterior and posterior predictive draws.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
            ValueError: If the graph has no score.
        """
        request = {"kind": "draws", "fingerprint": task.fingerprint, "graph": graph}
        answer = self._request({**request, "chains": chains, "draws": draws, "seed": seed}, task)
        if "draws" not in answer:
            raise ValueError(f"no posterior draws: {answer['status']}: {answer['message']}")
        return PosteriorDraws.from_json(answer["draws"])

    def forecast(self, graph: str, task: TaskMessage, draws: int, leave_one_out: bool = False) -> Forecast:
        """Predictions of the held-out rows, given the others; see `scoring.forecast.forecast`.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
            ProgramFailure: If the graph has no predictions.
            ValueError: If the task holds no rows out.
        """
        if task.held_out < 1:
            raise ValueError("held_out must be at least 1 for predictions of held-out rows, got 0")
        request = {"kind": "forecast", "fingerprint": task.fingerprint, "graph": graph}
        answer = self._request({**request, "draws": draws, "leave_one_out": leave_one_out}, task)
        if "forecast" not in answer:
            raise ProgramFailure(FailureCategory(answer["status"]), answer["message"])
        return Forecast.from_json(answer["forecast"])

    def information_gain(
        self, graph: str, task: TaskMessage, rows_per_design: int, outer: int, inner: int
    ) -> InformationGain:
        """Expected information gains of the designs in the held-out rows; see `scoring.design_gain`.

        Raises:
            WorkerLostError: If the process died; the next call starts another.
            ProgramFailure: If the graph has none.
            ValueError: If the held-out rows are no whole number of designs.
        """
        if task.held_out < 1 or task.held_out % rows_per_design:
            raise ValueError(f"held_out must be designs of {rows_per_design} rows, got {task.held_out} rows")
        request = {"kind": "gain", "fingerprint": task.fingerprint, "graph": graph}
        samples = {"rows_per_design": rows_per_design, "outer": outer, "inner": inner}
        answer = self._request({**request, **samples}, task)
        if "gain" not in answer:
            raise ProgramFailure(FailureCategory(answer["status"]), answer["message"])
        return InformationGain(**{name: np.array(values) for name, values in answer["gain"].items()})

    def close(self) -> None:
        """Ends the process for good."""
        self._closed = True
        self._stop()

    def _stop(self, patience: float = 0.0) -> None:
        """Ends the process; one that has hung up may end by itself first, in so many seconds."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            if patience:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _request(self, request: dict[str, Any], task: TaskMessage) -> dict[str, Any]:
        self.start()
        if task.fingerprint not in self._known:
            self._exchange({"kind": "task", "task": task.to_json()}, START_SECONDS)
            self._known.add(task.fingerprint)
        # The engine keeps its own time limit; the slack covers one call that cannot be interrupted.
        limit = 2 * self.settings.time_limit + 10.0
        try:
            return self._exchange(request, limit)
        except _OverrunError:
            self.restarts += 1
            message = f"the scorer was ended after {limit:.0f} seconds"
            return Score.failed(FailureCategory.SCORER_LIMIT, message, limit).to_dict()

    def _exchange(self, request: dict[str, Any], limit: float, patience: float = 0.0) -> dict[str, Any]:
        if self._connection is None:
            raise WorkerLostError("the scoring process does not run")
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            if not self._connection.poll(limit):
                self._stop()
                raise _OverrunError
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes(MAX_ANSWER))
        except (EOFError, OSError) as error:
            self._stop(patience)
            self.restarts += 1
            raise WorkerLostError("the scoring process died") from error
        return answer
