"""From source to score: sandbox and scoring engine behind one pool."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from synthstats_lightning.confinement import Level
from synthstats_lightning.pool.executors import Answer, call_far, check_far_side
from synthstats_lightning.pool.inference_data import to_inference_data
from synthstats_lightning.pool.new_rows import Array, with_new_rows
from synthstats_lightning.pool.program_worker import ProgramWorker, task_message
from synthstats_lightning.pool.reference.client import score_with_reference
from synthstats_lightning.pool.reference.settings import Sampler
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.programs.demands.censoring import censored_graph
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.runtime.cores import scoring_workers
from synthstats_lightning.runtime.frames import ConnectionLost
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.sandbox.self_check import require_confinement
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain
from synthstats_lightning.scoring.process.cache import ScoreCache
from synthstats_lightning.scoring.process.store import ScoreStore
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task, get_task

FAR_START_SECONDS = 300.0
"""What an executor's machines may take until the first worker is up: they import PyMC first."""
MAX_KNOWN = 50_000
T = TypeVar("T")


def default_num_workers() -> int:
    """Workers that leave the trainer one core, at least one."""
    return scoring_workers(len(os.sched_getaffinity(0)))


@dataclass
class _Pending:
    """A program on its way: what its callers wait for, the worker's call, and how many callers there are."""

    score: Future[Score]
    call: Future[Score]
    asked: int = 1


class ProgramScorer:
    """A pool of workers that score programs; every distinct source of a task is scored once.

    Scores are deterministic, so neither the number of workers nor the order of programs changes them.

    Args:
        num_workers: Sandbox workers, each with a single-threaded scoring process; by default one less than
            the cores this process may use.
        limits: What each program may use of the machine.
        settings: How much work the engine spends on a program, and what it accepts.
        sandbox: How strictly the kernel confines programs: `"strict"`, `"standard"`, `"plus"` or `"none"`.
        score_cache: File of scores that outlives this pool and that several processes may share, see
            `scoring.process.store`; none by default.
        executor: Where programs are scored instead of on this machine, such as `executors.DaskExecutor`; it
            decides how many workers there are, and outlives this pool. A score cache is then a file on each
            of its machines.
        max_known: Scores that the pool remembers, about 4 kB each; the longest unused go first, and are
            computed again if need be.

    Raises:
        ValueError: If a number is below 1, or there is no such level.
    """

    def __init__(
        self,
        num_workers: int | None = None,
        limits: SandboxLimits | None = None,
        settings: EngineSettings | None = None,
        sandbox: Level = "strict",
        score_cache: str | Path | None = None,
        executor: Executor | None = None,
        max_known: int = MAX_KNOWN,
    ) -> None:
        for name, value in (("num_workers", num_workers), ("max_known", max_known)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_workers = num_workers or default_num_workers()
        self.settings = WorkerSettings(
            limits or SandboxLimits(),
            settings or EngineSettings(),
            sandbox,
            None if score_cache is None else str(score_cache),
        )
        self.executor = executor
        self.store = None if score_cache is None or executor is not None else ScoreStore(score_cache)
        self.failures: Counter[FailureCategory] = Counter()
        self.scored = 0
        self.repeated = 0
        # no futures: their locks and queues, all over the heap, would keep its freed memory in pieces
        self._known: ScoreCache[tuple[str, str]] = ScoreCache(max_known)
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._lock = threading.RLock()  # an executor may answer within `submit`
        self._workers: list[ProgramWorker] = []
        self._far_calls: set[Future[Answer]] = set()
        self._far_restarts = 0
        self._local = threading.local()
        self._threads = ThreadPoolExecutor(self.num_workers, thread_name_prefix="program-scorer")

    @property
    def worker_restarts(self) -> int:
        """How often a sandbox worker or scoring process died, or was ended, and was replaced."""
        return self._far_restarts + sum(worker.restarts for worker in list(self._workers))

    @property
    def sandbox_pids(self) -> list[int]:
        """Process ids of the sandbox workers that run."""
        return [worker.sandbox.pid for worker in list(self._workers) if worker.sandbox.pid is not None]

    def start(self) -> None:
        """Starts every worker now, in parallel, instead of with its first program, and proves confinement.

        Raises:
            SandboxError: If a worker does not start, or a confined process can do what it must not.
            RuntimeError: If the executor's machines have another version of this package.
            TimeoutError: If they do not answer.
        """
        if self.executor is not None:
            check_far_side(self.executor, self.settings, FAR_START_SECONDS)
            return
        barrier = threading.Barrier(self.num_workers)

        def prepare() -> None:
            barrier.wait()
            self._worker().start()

        for future in [self._threads.submit(prepare) for _ in range(self.num_workers)]:
            future.result()
        require_confinement(self._workers[0].sandbox)

    def submit(self, source: str, task: Task) -> Future[Score]:
        """Starts scoring a program and returns at once; an equal source shares its future."""
        key = (task.fingerprint, source)
        with self._lock:
            pending, known = self._pending.get(key), self._known.get(key)
            if pending is not None:
                pending.asked += 1
                self.repeated += 1
                return pending.score
            future: Future[Score] = Future()
            if known is not None:
                self.repeated += 1
                future.set_result(known)
                return future
            call = self._run(ProgramWorker.score, source, task_message(task))
            self._pending[key] = _Pending(future, call)
        call.add_done_callback(lambda done: self._take(key, done, future))
        return future

    def withdraw(self, source: str, task: Task) -> bool:
        """Takes back one `submit`; once all of a program are taken back, workers pass over it.

        The future of a program that is passed over is cancelled. With an executor, its machines score it all
        the same.

        Args:
            source: Source text of the program.
            task: The task whose data it models.

        Returns:
            Whether the program is passed over: nobody else waits for it, and no worker has begun.
        """
        key = (task.fingerprint, source)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                return False
            pending.asked -= 1
            return pending.asked < 1 and self.executor is None and pending.call.cancel()

    def score(self, source: str, task: Task) -> Score:
        """Scores a program and waits for it."""
        return self.submit(source, task).result()

    def whole_score(self, source: str, task: Task) -> Future[Score]:
        """Starts computing every score of a program, whatever `last_score` says, and returns at once.

        Args:
            source: Source text of the program.
            task: The task whose data it models.

        Returns:
            The score to come, maybe a failed one; its `result` raises `ProgramFailure` where the program
            does not build.
        """
        if self.settings.engine.last_score is None:
            return self.submit(source, task)
        return self._ask("score", source, task, whole=True)

    def remember(self, source: str, task: Task, score: Score) -> None:
        """Takes a score that an earlier run has computed, so that it is not computed again."""
        key = (task.fingerprint, source)
        with self._lock:
            if self._known.get(key) is None:
                self._known.put(key, score)

    def predict(
        self, source: str, task: Task, quantiles: list[float], seconds: float | None = None
    ) -> Float[np.ndarray, "quantiles rows"]:
        """Posterior predictive quantiles of a program's response at every row.

        Args:
            source: Source text of the program.
            task: The task that the program is about.
            quantiles: Each from 0 to 1.
            seconds: How long to wait at most; `None` is as long as it takes.

        Raises:
            TimeoutError: If they are not there in time.
            ProgramFailure: If the program does not build, or has no score.
        """
        found: np.ndarray = self._ask("predict", source, task, quantiles=quantiles).result(seconds)
        return found

    def posterior(
        self,
        source: str,
        task: Task,
        chains: int = 4,
        draws: int = 1000,
        seed: int = 0,
        seconds: float | None = None,
        rows: Mapping[str, Array] | None = None,
    ) -> PosteriorDraws:
        """Posterior and posterior predictive draws of a program.

        Args:
            source: Source text of the program.
            task: The task whose data it models.
            chains: Chains to arrange the draws in.
            draws: Draws of each chain.
            seed: Seed of all random numbers.
            seconds: How long to wait at most; `None` is as long as it takes.
            rows: Column name to values of further rows, which the posterior does not know: predictions and
                log-likelihoods of them, at the task's smallest response, come after those of its own rows.

        Raises:
            TimeoutError: If they are not there in time.
            ProgramFailure: If the program does not build, has no score, or is another model with `rows`.
            ValueError: If `chains` or `draws` is below 1, or `rows` lack a covariate.
        """
        for name, value in (("chains", chains), ("draws", draws)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        details = {"chains": chains, "draws": draws, "seed": seed}
        if rows is None:
            found: PosteriorDraws = self._ask("draws", source, task, **details).result(seconds)
            return found
        fitted, extended = with_new_rows(task, rows)
        return self._run(ProgramWorker.posterior_rows, source, fitted, extended, details).result(seconds)

    def forecast(
        self, source: str, task: Task, draws: int = 500, leave_one_out: bool = False
    ) -> Future[Forecast]:
        """Starts predicting the held-out rows of a task from the others, and returns at once.

        The task's declared quantities come along. Without other rows the prior predicts.

        Args:
            source: Source text of the program.
            task: The task whose data it models, with `held_out` rows.
            draws: Predictive draws of each row.
            leave_one_out: Whether leave-one-out densities of the other rows are wanted.

        Returns:
            The predictions to come; their `result` raises `ProgramFailure` where the program has none.

        Raises:
            ValueError: If the task holds no rows out.
        """
        if task.held_out < 1:
            raise ValueError(f"task {task.name!r} holds no rows out that could be predicted")
        return self._ask("forecast", source, task, draws=draws, leave_one_out=leave_one_out)

    def forecast_rows(
        self, source: str, task: Task, rows: Mapping[str, Array], draws: int = 1000
    ) -> Future[tuple[Forecast, bool]]:
        """Starts predicting rows that a task does not have, and returns at once.

        The program is the one that was fitted to the task's rows: a mean or a scale that it takes from a
        column is that of the fitted rows.

        Args:
            source: Source text of the program.
            task: The task whose data it models.
            rows: Column name to values of the new rows: the task's covariates, encoded as it encodes them.
            draws: Predictive draws of each new row.

        Returns:
            The forecast to come, of the task's held-out rows and then the new ones, and whether the program
            means the same with the new rows as without; its `result` raises `ProgramFailure` where the
            program predicts nothing.

        Raises:
            ValueError: If the rows lack a covariate, or differ in length.
        """
        fitted, extended = with_new_rows(task, rows)
        return self._run(ProgramWorker.forecast_rows, source, fitted, extended, draws)

    def graph(self, source: str, task: Task) -> ModelGraph:
        """The model graph of a program under its own names.

        Args:
            source: Source text of the program.
            task: The task whose data it models.

        Raises:
            ProgramFailure: If the program does not build.
        """
        document = self._run(ProgramWorker.graph, source, task_message(task)).result()
        response = task.data[task.response]
        return censored_graph(parse_graph(document, task.schema), task.censoring, task.covariates, response)

    def information_gain(
        self, source: str, task: Task, rows_per_design: int = 1, outer: int = 500, inner: int = 20
    ) -> Future[InformationGain]:
        """Starts estimating what experiments would tell of a program's parameters, and returns at once.

        Args:
            source: Source text of the program.
            task: Its held-out rows are the designs to judge, whatever their responses are; its other rows are
                the experiments so far.
            rows_per_design: Consecutive rows of one design.
            outer: Simulated responses of each estimate.
            inner: Parameter draws for the marginal density of each.

        Returns:
            The gains to come, one a design; their `result` raises `ProgramFailure` where the program has
            none.

        Raises:
            ValueError: If the held-out rows are no whole number of designs.
        """
        if rows_per_design < 1 or task.held_out < 1 or task.held_out % rows_per_design:
            raise ValueError(
                f"task {task.name!r} holds {task.held_out} rows out, which are no designs of"
                f" {rows_per_design} rows"
            )
        samples = {"rows_per_design": rows_per_design, "outer": outer, "inner": inner}
        return self._ask("gain", source, task, **samples)

    def inference_data(
        self, source: str, task: Task, chains: int = 4, draws: int = 1000, seed: int = 0
    ) -> Any:
        """Posterior and posterior predictive draws of a program as ArviZ data; see `posterior`.

        Returns:
            `arviz.InferenceData` with ArviZ 0.x, `xarray.DataTree` with ArviZ 1.x.
        """
        found = self.posterior(source, task, chains, draws, seed)
        return to_inference_data(found, task.response, task.data[task.response], task.covariates)

    def close(self) -> None:
        """Ends every worker; what was not scored yet is cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for far in list(self._far_calls):
            far.cancel()
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> ProgramScorer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _worker(self) -> ProgramWorker:
        worker: ProgramWorker | None = getattr(self._local, "worker", None)
        if worker is None:
            worker = ProgramWorker(self.settings, self.store)
            self._local.worker = worker
            self._workers.append(worker)
        return worker

    def _ask(self, kind: str, source: str, task: Task, **details: Any) -> Future[Any]:
        """Starts asking a worker anything but a score, which is not remembered; see `ScoringClient.ask`."""
        return self._run(ProgramWorker.ask, kind, source, task_message(task), details)

    def _run(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Starts a method of `ProgramWorker` on the next worker that is free, here or on the far side."""
        if self.executor is None:
            return self._threads.submit(lambda: call(self._worker(), *arguments))
        result: Future[T] = Future()
        far = self.executor.submit(call_far, self.settings, call, *arguments)
        self._far_calls.add(far)
        far.add_done_callback(lambda done: self._unpack(done, result))
        return result

    def _unpack(self, done: Future[Answer], result: Future[T]) -> None:
        self._far_calls.discard(done)
        if not result.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        try:
            answer = done.result()
        except BaseException as error:
            result.set_exception(error)
            return
        with self._lock:
            self._far_restarts += answer.restarts
        result.set_result(answer.value)

    def _take(self, key: tuple[str, str], done: Future[Score], future: Future[Score]) -> None:
        """From a worker's score, or what went wrong there, to what the caller waits for."""
        try:
            score = done.result().finite()
        except ConnectionLost as error:
            score = Score.failed(FailureCategory.KILLED, str(error))
        except BaseException as error:
            # no score came of it: the next such program is tried anew
            with self._lock:
                self._pending.pop(key, None)
            if isinstance(error, CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
            return
        with self._lock:
            self._pending.pop(key, None)
            if score.failure is None:
                self.scored += 1
            else:
                self.failures[score.failure] += 1
            if score.settled:
                # one that was killed, from outside perhaps, is tried anew when it comes again
                self._known.put(key, score)
        future.set_result(score)


def score_program(
    source: str,
    task: str | Task,
    *,
    limits: SandboxLimits | None = None,
    settings: EngineSettings | None = None,
    sandbox: Level = "strict",
    scorer: ProgramScorer | None = None,
    reference: Sampler | None = None,
) -> Score:
    """Scores one program on one task.

    Args:
        source: Python source that builds one PyMC model of the task's response.
        task: A task or the name of a bundled one.
        limits: What the program may use of the machine.
        settings: How much work the engine spends on it, and what it accepts.
        sandbox: How strictly the kernel confines the program: `"strict"`, `"standard"`, `"plus"` or `"none"`.
        scorer: A running pool to use; otherwise one is started for this call, which takes seconds.
        reference: Score by PyMC's own samplers instead, `"nutpie"` or `"pymc"`: for checks, and for models
            that the engine declines. See `reference.client.score_with_reference`; a rounded response is
            scored by its density.

    Returns:
        The score, or the failure and its reason.

    Raises:
        ValueError: If the task is unknown, or shows or holds out rows and a reference is asked for.
    """
    task = get_task(task)
    if reference is not None:
        if task.shown_rows or task.held_out:
            raise ValueError(
                f"reference scores all rows, but task {task.name!r} shows {task.shown_rows} and holds out"
                f" {task.held_out}"
            )
        names: Any = {"views": task.views, "words": task.words, "own_names": task.own_names}
        return score_with_reference(source, task.data, task.response, reference, sandbox=sandbox, **names)
    if scorer is not None:
        return scorer.score(source, task)
    with ProgramScorer(1, limits, settings, sandbox) as own:
        return own.score(source, task)
