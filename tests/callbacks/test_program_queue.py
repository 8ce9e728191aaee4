"""The queue of programs in flight: bounded, aged, timed, and the same after a restart."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from synthstats_lightning.callbacks.program_queue import ProgramQueue, QueueSums, queue_metrics
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.runtime.distributed import added_up
from synthstats_lightning.scoring.score import Score

SCORE = Score(evidence=-1.0)


def program(name: str, step: int = 0, done: bool = False) -> PendingProgram:
    score: Future[Score] = Future()
    if done:
        score.set_result(SCORE)
    return PendingProgram(0, name, (1, 2, 3), -1.5, -2.5, score, step)


class Scorer(SampleScorer):
    """Only what the queue asks of one; it starts no workers."""

    def __init__(self):
        self.withdrawn = []

    def withdraw(self, item):
        self.withdrawn.append(item.source)

    def resubmit(self, *fields):
        task, source, ids, log_prob, reference_log_prob, step, drawn, tokens, looking = fields
        given = log_prob, reference_log_prob, Future(), step
        more = {"proposal_log_prob": drawn, "token_log_probs": tuple(tokens), "looking": looking}
        return PendingProgram(task, source, tuple(ids), *given, **more)


def names(items):
    return [item.source for item in items]


def test_programs_leave_in_the_order_in_which_they_came():
    queue, programs = ProgramQueue(8), [program(name) for name in "abcd"]
    queue.add(programs)
    for index in (3, 1):
        programs[index].score.set_result(SCORE)
    assert names(queue.take()) == ["b", "d"]
    assert len(queue) == 2
    assert names(queue.take()) == []


def test_an_interruption_loses_no_program():
    queue = ProgramQueue(8)
    queue.add([program("a", done=True), program("b"), program("c", done=True)])
    for item in queue.take():
        assert item.source == "a"
        break
    assert [row[1] for row in queue.state()] == ["a", "c", "b"]
    assert len(queue) == 3


def test_a_full_queue_costs_rounds():
    queue = ProgramQueue(max_in_flight=3)
    for number in range(6):
        if queue.has_room():
            queue.add([program(f"{number}a"), program(f"{number}b")])
    assert len(queue) == 4  # the bound and less than one more round
    assert queue.sums().skipped_rounds == 4


def test_what_is_waited_for():
    queue = ProgramQueue(8)
    first, second = program("a"), program("b")
    begun = time.perf_counter()
    queue.add([first, program("known", done=True), second])
    answered = []
    # noted here before the queue notes it: on a full machine both are late
    first.score.add_done_callback(lambda _: answered.append(time.perf_counter() - begun))
    threading.Timer(0.2, first.score.set_result, [SCORE]).start()
    asked = time.perf_counter()
    assert names(queue.take(0.4)) == ["a", "known"]
    waited = time.perf_counter() - asked
    sums = queue.sums()
    assert 0.4 - 1e-3 <= sums.waiting_seconds <= waited
    assert sums.waiting_seconds == pytest.approx(waited, abs=0.15)
    assert sums.scores == 1, "a score that was known took no time"
    assert sums.latency_seconds >= 0.2 - 1e-3
    assert sums.latency_seconds == pytest.approx(answered[0], abs=0.15)
    threading.Timer(0.1, second.score.set_result, [SCORE]).start()
    assert names(queue.take(None)) == ["b"]
    assert queue.sums()._replace(latency_seconds=0, waiting_seconds=0) == QueueSums(scores=1)
    assert names(queue.take(None)) == []
    assert queue.sums() == QueueSums(), "nothing to wait for"


@pytest.mark.parametrize(("stale", "left"), [("drop", ["new"]), ("store", ["old", "new", "older"])])
def test_stale_programs(stale, left):
    queue, scorer = ProgramQueue(8, max_age=3, stale=stale), Scorer()
    queue.add([program("old", step=1), program("new", step=2), program("older", step=0)])
    queue.drop_stale(5, scorer)
    assert [row[1] for row in queue.state()] == left
    assert sorted(scorer.withdrawn) == (["old", "older"] if stale == "drop" else [])
    assert queue.stale_programs == len(scorer.withdrawn)
    assert queue.is_stale(program("done", step=1, done=True), 5)
    assert not queue.is_stale(program("done", step=2, done=True), 5)
    assert queue.stale_programs == len(scorer.withdrawn) + 1


def test_nothing_is_stale_without_a_limit():
    queue = ProgramQueue(8, stale="drop")
    queue.add([program("a")])
    queue.drop_stale(10**9, Scorer())
    assert len(queue) == 1


def test_the_state_is_what_resubmits():
    queue, again = ProgramQueue(8), ProgramQueue(8)
    seen = program("b", step=5)._replace(looking=0.75, token_log_probs=(-0.5, -0.5, -0.5))
    queue.add([program("a", step=4), seen])
    again.restore(queue.state())
    assert again.state() == queue.state(), "a checkpoint before training starts holds them too"
    again.resubmit(Scorer())
    assert again.state() == queue.state()
    assert len(again) == 2


def test_metrics_of_several_ranks():
    ranks = [QueueSums(1.0, 3, 0.6, 2, 1), QueueSums(0.0, 1, 0.6, 0, 4)]
    assert queue_metrics(added_up(ranks), elapsed=20.0) == {
        "perf/waiting_share": 0.05,
        "perf/skipped_rounds": 2.0,
        "perf/stale_programs": 5.0,
        "perf/score_latency": pytest.approx(0.3),
    }
    assert "perf/score_latency" not in queue_metrics(QueueSums(), 1.0)


@pytest.mark.parametrize(
    "wrong", [{"max_in_flight": 0}, {"max_age": -1}], ids=lambda wrong: next(iter(wrong))
)
def test_settings_out_of_range(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ProgramQueue(**{"max_in_flight": 4, **wrong})
