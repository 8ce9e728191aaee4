"""Scoring behind an executor: the same scores, and what becomes of workers and clusters that are lost."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import pytest

from synthstats_lightning.pool import executors
from synthstats_lightning.pool.executors import Answer, DaskExecutor, call_far
from synthstats_lightning.pool.program_worker import ProgramWorker
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.runtime.frames import ConnectionLost
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.tasks import baseline_program, get_task
from synthstats_lightning.testing.fakes import FakeExecutor, fake_score
from tests.ranks.processes import alive, finish, start, wait_until

ROOT = Path(__file__).resolve().parents[2]
TASK = get_task("dugongs")
GOOD = """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    b = pm.Normal("b", 0.0, 1.0)
    s = pm.HalfNormal("s", 0.5)
    pm.Normal("y", a + b * np.log(age), s, observed=length)
"""
BAD = "raise ValueError('no model')"


class Scripted(Executor):
    """Answers each call with what a test says, or leaves it open."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.closed = False

    def submit(self, fn, /, *arguments):
        self.calls.append(arguments)
        future = Future()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.closed = True


def version_answer(version):
    return Answer(version, 0)


def test_scores_come_back_once_for_equal_programs_and_count():
    pool = ProgramScorer(executor=FakeExecutor())
    pool.start()
    assert pool.score("a program", TASK) == fake_score("a program")
    assert pool.submit("a program", TASK).result() is pool.submit("a program", TASK).result()
    assert (pool.scored + sum(pool.failures.values()), pool.repeated) == (1, 2)
    assert pool.sandbox_pids == []
    pool.close()


def test_what_is_sent_is_the_method_and_the_task_as_a_worker_sees_it():
    settings = EngineSettings(time_limit=3.0)
    executor = Scripted(Answer(Score(evidence=1.0), restarts=2), Answer(Score(evidence=2.0), restarts=1))
    pool = ProgramScorer(settings=settings, sandbox="standard", score_cache="far.sqlite", executor=executor)
    assert pool.score("x", TASK).evidence == 1.0
    assert pool.score("y", TASK).evidence == 2.0
    far, method, source, message = executor.calls[0]
    assert far == WorkerSettings(engine=settings, sandbox="standard", score_cache="far.sqlite")
    assert (method, source) == (ProgramWorker.score, "x")
    assert message.fingerprint == TASK.fingerprint
    assert pool.worker_restarts == 3
    assert not Path("far.sqlite").exists(), "the cache is on the far side"
    open_call = Future()
    executor.submit = lambda *arguments: open_call
    left = pool.submit("z", TASK)
    pool.close()
    with pytest.raises(CancelledError):
        left.result(0)
    assert open_call.cancelled()
    assert not executor.closed, "it may serve others"


def test_a_lost_worker_is_a_failure_of_this_once_and_a_lost_cluster_an_error():
    answers = ConnectionLost("gone"), Answer(Score(evidence=1.0), 0), BrokenExecutor("no cluster")
    pool = ProgramScorer(executor=Scripted(*answers, Answer(Score(evidence=3.0), 0)))
    lost = pool.score("x", TASK)
    assert (lost.failure, lost.message) == (FailureCategory.KILLED, "gone")
    assert pool.score("x", TASK).evidence == 1.0, "it is tried anew"
    with pytest.raises(BrokenExecutor, match="no cluster"):
        pool.score("y", TASK)
    assert pool.score("y", TASK).evidence == 3.0
    pool.close()


@pytest.mark.parametrize("category", ["timeout", "killed", "cpu", "scorer_limit"])
def test_a_failure_that_load_may_have_caused_is_never_remembered(category):
    with pytest.raises(ProgramFailure) as over:
        Deadline(-1.0).check("annealing")
    failed, scored = Score.failed(FailureCategory(category), over.value.message), Score(evidence=1.0)
    pool = ProgramScorer(executor=Scripted(*(Answer(each, 0) for each in (failed, failed, scored))))
    assert pool.score("x", TASK).failure == category
    assert pool.score("x", TASK).failure == category
    assert pool.score("x", TASK) == scored
    assert pool.score("x", TASK) == scored, "and that is"
    pool.close()
    known = ProgramRecord("level", "x", failed, -9.0, -1.0, -2.0)
    records = ProgramRecords([known])
    records.add(replace(known, score=scored, log_reward=0.5))
    records.add(replace(known, score=failed))
    assert (records.get("level", "x").score, records.get("level", "x").log_reward) == (scored, 0.5)


def test_another_version_or_no_answer_is_an_error_at_start():
    with pytest.raises(RuntimeError, match=r"must have synthstats-lightning .*'0\.0\.0'"):
        ProgramScorer(executor=Scripted(version_answer("0.0.0"))).start()

    class Silent(Executor):
        def submit(self, fn, /, *arguments):
            return Future()

    settings = WorkerSettings()
    with pytest.raises(TimeoutError, match=r"no scoring worker answered through .* in 0\.1 seconds"):
        executors.check_far_side(Silent(), settings, 0.1)


class StubFarWorker(executors._FarWorker):
    """What the far side keeps a thread, with a worker that does nothing."""

    def __init__(self, settings):
        self.settings, self.open, self.store = settings, True, None
        self.worker = mock.Mock(spec=ProgramWorker, restarts=5)


def restart(worker, number):
    worker.restarts += number
    return worker


def test_a_far_thread_keeps_its_worker_until_settings_change(monkeypatch):
    monkeypatch.setattr(executors, "_FarWorker", StubFarWorker)
    monkeypatch.setattr(executors, "_all", [])
    monkeypatch.setattr(executors, "_own", threading.local())
    one = WorkerSettings()
    other = replace(one, sandbox="standard")
    first, restarts = call_far(one, restart, 2)
    assert restarts == 2
    assert call_far(one, restart, 0) == (first, 0)
    second = call_far(other, restart, 0).value
    assert second is not first
    assert first.close.call_count == 1
    executors.close_far_workers()
    assert (first.close.call_count, second.close.call_count) == (1, 1)
    third = call_far(other, restart, 0).value
    assert third is not second, "a thread that goes on makes a new one"
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(call_far, other, restart, 0).result().value is not third


def test_a_dask_executor_needs_dask_and_a_scheduler(monkeypatch):
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
        DaskExecutor("tcp://127.0.0.1:1", timeout=0.0)
    monkeypatch.setitem(sys.modules, "distributed", None)
    executor = DaskExecutor("tcp://127.0.0.1:1")
    with pytest.raises(
        ImportError, match=r"needs the extra `dask`: pip install 'synthstats-lightning\[dask\]'"
    ):
        executor.submit(print)
    executor.shutdown()


def same(one: Score, other: Score) -> bool:
    """Bit for bit, but for the time it took."""
    fields = [score.to_dict() | {"seconds": 0} for score in (one, other)]
    for each in fields[0], fields[1]:
        for diagnostics in each["diagnostics"].values():
            diagnostics["seconds"] = 0
    return fields[0] == fields[1]


@pytest.fixture(scope="module")
def at_home():
    """Scores of this machine's own workers."""
    with ProgramScorer(1) as pool:
        return {source: pool.score(source, TASK) for source in (GOOD, BAD, baseline_program(TASK))}


@pytest.mark.slow
def test_another_process_gives_the_same_scores_and_predictions(at_home):
    executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with ProgramScorer(executor=executor) as pool:
        pool.start()
        for source, score in at_home.items():
            assert same(pool.score(source, TASK), score)
        quantiles = pool.predict(GOOD, TASK, [0.1, 0.9])
        assert (quantiles[0] < quantiles[1]).all()
        assert pool.posterior(GOOD, TASK, chains=2, draws=5).parameters["a"].shape == (2, 5)
    executor.shutdown(wait=True)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_real_dask_cluster_of_two_worker_processes(at_home, tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed (the extra `dask`)")
    cluster = tmp_path / "cluster.py"
    cluster.write_text(CLUSTER)
    process = start(cluster, str(tmp_path))
    try:
        address = wait_until(
            lambda: (tmp_path / "address").exists() and (tmp_path / "address").read_text(), 90, "the cluster"
        )
        pool = ProgramScorer(executor=DaskExecutor(address))
        pool.start()
        variants = [GOOD.replace("0.5", f"0.5{number}") for number in range(8)]
        futures = [pool.submit(source, TASK) for source in [*at_home, *variants]]
        scores = [future.result(timeout=200) for future in futures]
        for found, expected in zip(scores, at_home.values(), strict=False):
            assert same(found, expected)
        assert all(score.scored for score in scores[3:])
        where = pool.executor.submit(os.getpid)
        assert where.result(30) != os.getpid()
        used = [pool.executor.submit(_far_pids).result(30) for _ in range(2)]
        assert all(used), "sandbox and scoring process run on the far side"
        pool.close()
        pool.executor.shutdown()
        assert alive(process.pid), "the cluster outlives the pool"
        far = [pid for pids in used for pid in pids]
    finally:
        (tmp_path / "stop").touch()
        finish(process, 60)
    wait_until(lambda: not any(alive(pid) for pid in far), 30, "the end of all far workers")


def _far_pids():
    """Processes of this thread's worker; on the far side."""
    held = executors._own.held.worker
    return [held.sandbox.pid, held.scoring.pid]


CLUSTER = """
import sys, time
from pathlib import Path
from distributed import LocalCluster

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        (folder / "new").write_text(cluster.scheduler_address)
        (folder / "new").rename(folder / "address")
        while not (folder / "stop").exists():
            time.sleep(0.1)
"""
