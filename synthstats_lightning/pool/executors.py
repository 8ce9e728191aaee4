"""Scoring on other machines: workers behind a `concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.pool.program_worker import ProgramWorker
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.runtime.frames import ConnectionLost
from synthstats_lightning.sandbox.self_check import require_confinement
from synthstats_lightning.scoring.process.store import ScoreStore

T = TypeVar("T")


class Answer(NamedTuple):
    """What comes back from the far side.

    Attributes:
        value: What the call returned.
        restarts: Processes of the worker that were replaced meanwhile.
    """

    value: Any
    restarts: int


class _FarWorker:
    """The worker of one thread of one process on the far side."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.open = True
        self.store = None if settings.score_cache is None else ScoreStore(settings.score_cache)
        self.worker = ProgramWorker(settings, self.store)
        try:
            self.worker.start()
            require_confinement(self.worker.sandbox)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.open = False
        self.worker.close()
        if self.store is not None:
            self.store.close()


_own = threading.local()
_all: list[_FarWorker] = []
_lock = threading.Lock()


def _far_worker(settings: WorkerSettings) -> ProgramWorker:
    """This thread's worker; another one than before takes its place, so that runs do not pile up."""
    held: _FarWorker | None = getattr(_own, "held", None)
    if held is not None and held.open and held.settings == settings:
        return held.worker
    if held is not None and held.open:
        held.close()
        with _lock:
            _all.remove(held)
    made = _FarWorker(settings)
    with _lock:
        if not _all:
            atexit.register(close_far_workers)
        _all.append(made)
    _own.held = made
    return made.worker


def close_far_workers() -> None:
    """Ends the workers of this process, which must be idle; threads that go on make new ones."""
    with _lock:
        for held in _all:
            held.close()
        _all.clear()


def call_far(settings: WorkerSettings, call: Callable[..., Any], *arguments: Any) -> Answer:
    """Runs on the far side: a method of `ProgramWorker` on this thread's worker.

    Programs run in a sandbox there as they do here, proved by the same self-check before the first one.

    Args:
        settings: What the worker is made from.
        call: The method to call.
        *arguments: What the method takes.

    Raises:
        SandboxError: If programs cannot be confined on this machine.
    """
    worker = _far_worker(settings)
    before = worker.restarts
    return Answer(call(worker, *arguments), worker.restarts - before)


def far_version(worker: ProgramWorker) -> str:
    """The version of this package on the far side, whose worker is up then."""
    return __version__ if worker.sandbox.pid is not None else ""


def check_far_side(executor: Executor, settings: WorkerSettings, timeout: float) -> None:
    """Proves that the far side can score: it is there, of this version, and confines programs.

    Args:
        executor: The way there.
        settings: What the workers are made from.
        timeout: Seconds that are waited at most.

    Raises:
        RuntimeError: If it has another version of this package, which may score differently.
        TimeoutError: If there is no answer in time.
        SandboxError: If programs cannot be confined there.
    """
    future = executor.submit(call_far, settings, far_version)
    try:
        version = future.result(timeout).value
    except TimeoutError:
        raise TimeoutError(
            f"no scoring worker answered through {executor!r} in {timeout:g} seconds"
        ) from None
    if version != __version__:
        raise RuntimeError(
            f"scoring workers must have synthstats-lightning {__version__}, as this process has, but have"
            f" {version!r}"
        )


class DaskExecutor(Executor):
    """Scoring workers on a Dask cluster, one for each thread of each Dask worker.

    In YAML, under `ProgramScoring`:

        executor:
          class_path: synthstats_lightning.pool.executors.DaskExecutor
          init_args: {address: "tcp://scheduler:8786"}

    Start Dask workers with one thread each (`dask worker ADDRESS --nthreads 1 --nworkers N`). It needs the
    extra `dask`, here and there.

    Args:
        address: Where the scheduler listens, as `tcp://host:port`.
        timeout: Seconds that connecting may take.

    Raises:
        ValueError: If `timeout` is not positive.
    """

    def __init__(self, address: str, timeout: float = 30.0) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
        self.address = address
        self.timeout = timeout
        self._client: Any = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"DaskExecutor({self.address!r})"

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Starts a call on the cluster, and connects to it with the first one.

        Raises:
            ImportError: If Dask is not installed.
            ConnectionError: If no scheduler answers at the address.
        """
        inner = self._connected().submit(fn, *args, **kwargs)
        outer: Future[T] = Future()
        outer.add_done_callback(lambda done: done.cancelled() and inner.cancel())
        inner.add_done_callback(lambda done: _pass_on(done, outer))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Closes the connection; the cluster stays.

        Args:
            wait: Whether calls in flight are waited for.
            cancel_futures: Has no effect: without waiting, whatever has not begun is cancelled.
        """
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            executor, connection = client
            executor.shutdown(wait=wait)
            connection.close()

    def _connected(self) -> Executor:
        with self._lock:
            if self._client is None:
                try:
                    from distributed import Client
                except ImportError as error:
                    raise ImportError(
                        "DaskExecutor needs the extra `dask`: pip install 'synthstats-lightning[dask]'"
                    ) from error
                try:
                    connection = Client(self.address, timeout=self.timeout, set_as_default=False)
                except (OSError, TimeoutError) as error:
                    raise ConnectionError(f"no Dask scheduler answers at {self.address}: {error}") from error
                # equal calls must run again: whether to is decided here, where scores are remembered
                self._client = connection.get_executor(pure=False), connection
            executor: Executor = self._client[0]
            return executor


def _pass_on(done: Future[T], outer: Future[T]) -> None:
    """From a Dask call to what it came to; its worker's loss is no fault of the call's."""
    if not outer.set_running_or_notify_cancel():
        return
    if done.cancelled():
        outer.set_exception(ConnectionLost("the call was cancelled: its worker, or the connection, is gone"))
        return
    error = done.exception()
    if error is None:
        outer.set_result(done.result())
    elif type(error).__name__ == "KilledWorker":
        outer.set_exception(ConnectionLost(f"Dask lost its workers: {error}"))
    else:
        outer.set_exception(error)
