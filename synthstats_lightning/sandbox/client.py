"""The trusted side of the sandbox."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.runtime.frames import ConnectionLost, DeadlinePassed
from synthstats_lightning.sandbox.hidden import without_limits
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.outcome import fail, interpret, worth_another_try
from synthstats_lightning.sandbox.process import SandboxError, WorkerProcess
from synthstats_lightning.sandbox.protocol import Job

_PROGRAMS_BETWEEN_CHECKS = 50
CLOSED = "the sandbox was closed while the program ran"


class UnconfinedWarning(UserWarning):
    """Programs run without the kernel's confinement."""


class Sandbox:
    """One worker process with PyMC imported, in which untrusted programs run one at a time.

    Each program runs in a fork of the worker that is killed afterwards with everything it started. Programs
    never run in this process, and the response's values have no way to reach them. One sandbox runs one
    program at a time; for more at once use several. Methods may be called from several threads; calls then
    wait for each other.

    Example:
        >>> with Sandbox() as sandbox:  # doctest: +SKIP
        ...     graph = sandbox.build(source, task.schema, task.covariates)

    Args:
        limits: What each program may use.
        start_timeout: Seconds that a worker may take to import PyMC and warm up.
        level: How strictly the kernel confines programs: `"strict"`, `"standard"`, `"plus"` or `"none"` (see
            `confinement.levels`). With `"none"`, an `UnconfinedWarning` says so.
        max_age: Seconds after which a worker is replaced by a fresh one.
        max_growth: Share by which a worker's memory may grow before it is replaced.
        without: Layers and argument rules left out; for the tests that show each to matter.

    Attributes:
        restarts: How often a worker was replaced because it died or hung.
        recycled: How often one was replaced because of its age or its memory.

    Raises:
        ValueError: If a number is not positive, or there is no such level.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        start_timeout: float = 180.0,
        level: Level = "strict",
        max_age: float = 3600.0,
        max_growth: float = 0.05,
        *,
        without: Collection[str] = (),
    ) -> None:
        numbers = {"start_timeout": start_timeout, "max_age": max_age, "max_growth": max_growth}
        units = {"max_growth": "share"}
        for name, value in numbers.items():
            if not value > 0:
                unit = units.get(name, "number of seconds")
                raise ValueError(f"{name} must be a positive {unit}, got {value!r}")
        self.limits = SandboxLimits() if limits is None else limits
        self.start_timeout = start_timeout
        self.level = check_level(level)
        self.max_age = max_age
        self.max_growth = max_growth
        self.restarts = 0
        self.recycled = 0
        self._without = frozenset(without)
        self._worker: WorkerProcess | None = None
        self._successor: WorkerProcess | None = None
        self._programs = 0
        self._ended = threading.Event()
        self._lock = threading.RLock()
        if level == "none":
            warnings.warn(
                "sandbox: none: programs run without the kernel's confinement, and can read and change what"
                " this user can",
                UnconfinedWarning,
                stacklevel=2,
            )

    @property
    def pid(self) -> int | None:
        """Process id of the worker, `None` where there is none."""
        worker = self._worker
        return worker.pid if worker is not None and worker.usable else None

    @property
    def missing(self) -> dict[str, str]:
        """Layer to the reason why it is off, for a worker that is ready.

        Raises:
            SandboxError: If none is.
        """
        worker = self._worker
        if worker is None or worker.greeting is None:
            raise SandboxError("no worker is ready")
        return dict(worker.greeting["missing"])

    def start(self, wait: bool = True) -> Sandbox:
        """Starts the worker now rather than at the first program.

        Args:
            wait: Whether to wait until it is warm (some seconds). `False` lets several start at the same
                time.

        Raises:
            SandboxError: If the worker died or did not become ready.
        """
        with self._lock:
            worker = self._worker
            if worker is None or not worker.usable:
                if worker is not None:
                    self._discard()
                    self.restarts += 1
                worker = self._worker = self._new_worker()
            if wait:
                try:
                    worker.wait_ready(self.start_timeout)
                except BaseException:
                    self._discard()
                    raise
        return self

    def build(self, source: str, schema: DataSchema, covariates: Mapping[str, NDArray[Any]]) -> str:
        """Runs a program and extracts its model graph.

        Args:
            source: Python source of any origin.
            schema: Names, dtypes and rows of the columns and the response.
            covariates: Column name to values of shape `(num_rows,)`, exactly the columns of `schema`.

        Returns:
            JSON text of the model graph. It comes from the program's process: treat it as hostile and give
            it to `programs.validation.parse_graph`.

        Raises:
            ProgramFailure: If the program failed in any way.
            ValueError: If `covariates` are not those of `schema`.
            SandboxError: If no worker can be started.
        """
        if set(covariates) != set(schema.columns):
            raise ValueError(f"covariates must be {sorted(schema.columns)}, got {sorted(covariates)}")
        for name, values in covariates.items():
            if values.shape != (schema.num_rows,) or str(values.dtype) != schema.columns[name]:
                raise ValueError(
                    f"covariate {name!r} must be {schema.columns[name]} of shape ({schema.num_rows},), got"
                    f" {values.dtype} of shape {values.shape}"
                )
        hidden = without_limits(schema, covariates)
        ordered = {name: np.asarray(hidden[name]) for name in schema.columns}
        return self._run(Job(source, build=True, schema=schema, covariates=ordered))[0]

    def execute(self, source: str) -> str:
        """Runs a program that has no task's data and need not leave a model.

        Args:
            source: Python source of any origin.

        Returns:
            What it printed: hostile text of at most `limits.log_bytes` bytes.

        Raises:
            ProgramFailure: If the program failed in any way.
            SandboxError: If no worker can be started.
        """
        return self._run(Job(source, build=False, schema=None, covariates={}))[1].decode("utf-8", "replace")

    def close(self) -> None:
        """Ends the worker; the next program starts a new one. May be called twice."""
        with self._lock:
            self._programs = 0
            if self._successor is not None:
                successor, self._successor = self._successor, None
                successor.kill()
            if self._worker is not None:
                worker, self._worker = self._worker, None
                worker.stop()

    def end(self) -> None:
        """Closes it for good, at once: the program that another thread runs fails, and none begins."""
        self._ended.set()
        worker = self._worker
        if worker is not None:
            worker.interrupt()
        self.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, job: Job) -> tuple[str, bytes]:
        size = len(job.source.encode("utf-8", "surrogatepass"))
        if size > self.limits.source_bytes:
            fail(FailureCategory.SYNTAX, f"{size} bytes of source, more than {self.limits.source_bytes}")
        request = job.encode()
        with self._lock:
            for attempt in (1, 2):
                if self._ended.is_set():
                    fail(FailureCategory.KILLED, CLOSED)
                try:
                    self.start()
                    worker = self._worker
                    if worker is None:
                        raise SandboxError("the sandbox was closed while a program waited for it")
                    outcome, document, log = worker.run(request)
                    self._recycle(worker)
                except (ConnectionLost, SandboxError) as error:
                    if isinstance(error, SandboxError) and not error.killed:
                        self._discard()
                        raise
                    # killed from outside, or by this program: the second loss tells which
                    if self._ended.is_set():
                        self._discard()
                        continue
                    self._replace()
                    if attempt == 2:
                        fail(FailureCategory.KILLED, "the worker died twice while the program ran")
                except DeadlinePassed:
                    self._replace()
                    if attempt == 2:
                        fail(FailureCategory.TIMEOUT, "the worker hung twice and was replaced")
                except BaseException:
                    # interrupted in the middle of an exchange: what the worker sends next would be the old
                    # reply
                    self._discard()
                    raise
                else:
                    if attempt == 1 and worth_another_try(outcome, self.limits):
                        continue
                    return interpret(outcome, document, self.limits), log
        fail(FailureCategory.KILLED, CLOSED)

    def _new_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self.limits, self.level, self._without)
        weakref.finalize(self, worker.kill)
        return worker

    def _recycle(self, worker: WorkerProcess) -> None:
        """Replaces a worker that is old or has grown, once a fresh one is warm; programs do not wait."""
        if self._successor is None:
            self._programs += 1
            if self._programs % _PROGRAMS_BETWEEN_CHECKS:
                return
            grown = worker.resident() > (1.0 + self.max_growth) * worker.memory
            if grown or time.monotonic() - worker.started > self.max_age:
                self._successor = self._new_worker()
        elif self._successor.answers:
            successor, self._successor = self._successor, None
            successor.wait_ready(self.start_timeout)
            self._worker = successor
            self.recycled += 1
            worker.stop()

    def _replace(self) -> None:
        self._discard()
        self.restarts += 1
        self.start(wait=False)

    def _discard(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.kill()
