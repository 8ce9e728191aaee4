"""From source to score: sandbox and scoring engine behind one pool."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.inference_data import to_inference_data
from synthstats_lightning.priorities import lower_priority
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.literals import literal_copies, source_literals
from synthstats_lightning.reference.client import score_with_reference
from synthstats_lightning.reference.settings import Sampler
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.sandbox.self_check import require_confinement
from synthstats_lightning.scoring.cache import CacheKey
from synthstats_lightning.scoring.client import Identity, ScoringClient, TaskMessage, WorkerLostError
from synthstats_lightning.scoring.draws import PosteriorDraws
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.scoring.store import ScoreStore
from synthstats_lightning.tasks import Task, get_task


def default_num_workers() -> int:
    """Workers that leave the trainer one core, at least one."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def task_message(task: Task) -> TaskMessage:
    """A task as a scoring process sees it."""
    return TaskMessage(
        task.schema,
        task.covariates,
        task.data[task.response],
        task.shown_rows,
        task.fingerprint,
        task.rounding,
    )


class _Worker:
    """One sandbox worker and one scoring process, used by one thread."""

    def __init__(
        self, limits: SandboxLimits, settings: EngineSettings, sandbox: Level, store: ScoreStore | None
    ) -> None:
        self.store = store
        self.sandbox = Sandbox(limits, level=sandbox)
        self.scoring = ScoringClient(settings, confined=sandbox != "none")
        self._lowered: set[int] = set()

    def score(self, source: str, task: Task) -> Score:
        score = self._score(source, task)
        copies = literal_copies(source_literals(source), task.data[task.response])
        return replace(score, literal_copies=max(copies, score.literal_copies))

    def _score(self, source: str, task: Task) -> Score:
        try:
            graph = self.sandbox.build(source, task.schema, task.covariates)
        except ProgramFailure as failure:
            return Score.failed(failure.category, failure.message)
        message = task_message(task)
        self.yield_to_trainer()
        identity = self._identify(graph, message)
        if self.store is None or identity is None:
            return self._score_graph(graph, message)
        key = CacheKey(identity.canonical, message.fingerprint, self.scoring.settings)
        score = self.store.get(key)
        if score is None:
            score = self._score_graph(graph, message)
            self.store.put(key, replace(score, literal_copies=0))
        # of the program, not of its canonical form
        return replace(score, literal_copies=identity.literal_copies)

    def _identify(self, graph: str, message: TaskMessage) -> Identity | None:
        """What a graph is, where there is a store to look it up in."""
        if self.store is None:
            return None
        try:
            return self.scoring.identify(graph, message)
        except WorkerLostError:
            return None  # it may not be the graph's fault; scoring tries again

    def _score_graph(self, graph: str, message: TaskMessage) -> Score:
        try:
            return self.scoring.score(graph, message)
        except WorkerLostError:
            pass  # its death may be no fault of the program's: one more try, counted in `restarts`
        try:
            return self.scoring.score(graph, message)
        except WorkerLostError:
            return Score.failed(FailureCategory.KILLED, "the scoring process died twice on this program")

    def yield_to_trainer(self) -> None:
        """Lowers the priority of both processes, once each: they take the time that the trainer leaves."""
        for pid in (self.sandbox.pid, self.scoring.pid):
            if pid is None or pid in self._lowered:
                continue
            with contextlib.suppress(ProcessLookupError):  # it just died; its next call reports that
                lower_priority(pid)
                self._lowered.add(pid)

    def close(self) -> None:
        self.sandbox.close()
        self.scoring.close()


class ProgramScorer:
    """A pool of workers that score programs; every distinct source of a task is scored once.

    Scores are deterministic, so neither the number of workers nor the order of programs changes them.

    Args:
        num_workers: Sandbox workers, each with a single-threaded scoring process; by default one less than
            the
            cores this process may use.
        limits: Of the sandbox.
        settings: Of the scoring engine.
        sandbox: How strictly the kernel confines programs: `"strict"`, `"standard"`, `"plus"` or `"none"`.
        score_cache: File of scores that outlives this pool and that several processes may share, see
            `scoring.store`; none by default.
    """

    def __init__(
        self,
        num_workers: int | None = None,
        limits: SandboxLimits | None = None,
        settings: EngineSettings | None = None,
        sandbox: Level = "strict",
        score_cache: str | Path | None = None,
    ) -> None:
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        self.num_workers = num_workers or default_num_workers()
        self.limits = limits or SandboxLimits()
        self.settings = settings or EngineSettings()
        self.sandbox = check_level(sandbox)
        self.store = None if score_cache is None else ScoreStore(score_cache)
        self.failures: Counter[FailureCategory] = Counter()
        self.scored = 0
        self.repeated = 0
        self._known: dict[tuple[str, str], Future[Score]] = {}
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._local = threading.local()
        self._executor = ThreadPoolExecutor(self.num_workers, thread_name_prefix="program-scorer")

    @property
    def worker_restarts(self) -> int:
        """How often a sandbox worker or scoring process died, or was ended, and was replaced."""
        return sum(worker.sandbox.restarts + worker.scoring.restarts for worker in list(self._workers))

    @property
    def sandbox_pids(self) -> list[int]:
        """Process ids of the sandbox workers that run."""
        return [worker.sandbox.pid for worker in list(self._workers) if worker.sandbox.pid is not None]

    def start(self) -> None:
        """Starts every worker now, in parallel, instead of with its first program, and proves confinement.

        Raises:
            SandboxError: If a worker does not start, or a confined process can do what it must not.
        """
        barrier = threading.Barrier(self.num_workers)

        def prepare() -> None:
            barrier.wait()
            worker = self._worker()
            worker.sandbox.start()
            worker.scoring.start()
            worker.yield_to_trainer()

        for future in [self._executor.submit(prepare) for _ in range(self.num_workers)]:
            future.result()
        require_confinement(self._workers[0].sandbox)

    def submit(self, source: str, task: Task) -> Future[Score]:
        """Starts scoring a program and returns at once; an equal source shares its future."""
        key = (task.fingerprint, source)
        with self._lock:
            if key in self._known:
                self.repeated += 1
                return self._known[key]
            future = self._executor.submit(self._score, key, task)
            self._known[key] = future
            return future

    def score(self, source: str, task: Task) -> Score:
        """Scores a program and waits for it."""
        return self.submit(source, task).result()

    def remember(self, source: str, task: Task, score: Score) -> None:
        """Takes a score that an earlier run has computed, so that it is not computed again."""
        future: Future[Score] = Future()
        future.set_result(score)
        with self._lock:
            self._known.setdefault((task.fingerprint, source), future)

    def predict(self, source: str, task: Task, quantiles: list[float]) -> Float[np.ndarray, "quantiles rows"]:
        """Posterior predictive quantiles of a program's response at every row.

        Raises:
            ProgramFailure: If the program does not build.
            ValueError: If it has no score.
        """

        def run() -> Float[np.ndarray, "quantiles rows"]:
            worker = self._worker()
            graph = worker.sandbox.build(source, task.schema, task.covariates)
            return worker.scoring.predict(graph, task_message(task), quantiles)

        return self._executor.submit(run).result()

    def posterior(
        self, source: str, task: Task, chains: int = 4, draws: int = 1000, seed: int = 0
    ) -> PosteriorDraws:
        """Posterior and posterior predictive draws of a program.

        Args:
            source: The program.
            task: Its task.
            chains: Chains to arrange the draws in.
            draws: Draws of each chain.
            seed: Of all randomness.

        Raises:
            ProgramFailure: If the program does not build.
            ValueError: If it has no score, or `chains` or `draws` is below 1.
        """
        for name, value in (("chains", chains), ("draws", draws)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

        def run() -> PosteriorDraws:
            worker = self._worker()
            graph = worker.sandbox.build(source, task.schema, task.covariates)
            return worker.scoring.draws(graph, task_message(task), chains, draws, seed)

        return self._executor.submit(run).result()

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
        self._executor.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()
        self._executor.shutdown(wait=True)
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> ProgramScorer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            worker = _Worker(self.limits, self.settings, self.sandbox, self.store)
            self._local.worker = worker
            self._workers.append(worker)
        return worker

    def _score(self, key: tuple[str, str], task: Task) -> Score:
        score = self._worker().score(key[1], task)
        with self._lock:
            if score.failure is None:
                self.scored += 1
            else:
                self.failures[score.failure] += 1
            if score.failure is FailureCategory.KILLED:
                del self._known[
                    key
                ]  # it may have been killed from outside: the next such program is tried anew
        return score


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
        limits: Of the sandbox.
        settings: Of the scoring engine.
        sandbox: How strictly the kernel confines the program: `"strict"`, `"standard"`, `"plus"` or `"none"`.
        scorer: A running pool to use; otherwise one is started for this call, which takes seconds.
        reference: Score by PyMC's own samplers instead, `"nutpie"` or `"pymc"`: for checks, and for models
            that the engine declines. See `reference.client.score_with_reference`; a rounded response is
            scored by its density.

    Returns:
        The score, or the failure and its reason.

    Raises:
        ValueError: If the task is unknown, or shows rows and a reference is asked for.
    """
    task = get_task(task)
    if reference is not None:
        if task.shown_rows:
            raise ValueError(f"reference scores all rows, but task {task.name!r} shows {task.shown_rows}")
        return score_with_reference(source, task.data, task.response, reference, sandbox=sandbox)
    if scorer is not None:
        return scorer.score(source, task)
    with ProgramScorer(1, limits, settings, sandbox) as own:
        return own.score(source, task)
