"""Terms beside scores: every model once, in order, and what follows where there is no value."""

import threading
import time
from concurrent.futures import Future

import pytest

from synthstats_lightning import LLMVerifier, RewardTerm, get_task
from synthstats_lightning.pool.term_scorer import TermScorer
from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.terms import TermUnavailableError
from tests.programs.models import log_linear
from tests.support.chat_server import mark, serving

TASK = get_task("dugongs")


def scored(number):
    graph = canonicalise(log_linear(intercept=float(number)).graph())
    return Score(evidence=float(number), canonical=f"{number:032x}", graph=graph.to_record())


def done(score):
    future = Future()
    future.set_result(score)
    return future


@pytest.fixture
def scorer_of():
    made = []

    def make(*terms):
        made.append(TermScorer(terms))
        return made[-1]

    yield make
    for scorer in made:
        scorer.close()


class Gained(RewardTerm):
    """Counts how often it is asked."""

    calls = 0

    def value(self, program):
        self.calls += 1
        return program.gained


def test_without_terms_nothing_is_added(scorer_of):
    future = Future()
    assert scorer_of().add(future, TASK, lambda score: 0.0) is future


def test_every_model_is_asked_for_once_whoever_asks(scorer_of):
    term = Gained()
    scorer = scorer_of(term)
    found = [scorer.add(done(scored(n % 3)), TASK, lambda score: score.evidence + 10) for n in range(12)]
    assert [each.result(60).terms for each in found] == [{"Gained": 10.0 + n % 3} for n in range(12)]
    assert term.calls == 3


def test_values_of_an_earlier_run_are_taken(scorer_of):
    term = Gained()
    scorer = scorer_of(term)
    known = Score(**{**{"evidence": 1.0, "canonical": f"{1:032x}"}, "terms": {"Gained": 7.0, "gone": 1.0}})
    scorer.remember(TASK, known)
    assert scorer.add(done(scored(1)), TASK, lambda score: 0.0).result(60).terms == {"Gained": 7.0}
    assert scorer.add(done(known), TASK, lambda score: 0.0).result(60) is known
    assert term.calls == 0


def test_failures_withdrawals_and_errors_pass_through(scorer_of):
    scorer = scorer_of(Gained())
    failed = Score.failed(FailureCategory.SYNTAX, "")
    assert scorer.add(done(failed), TASK, lambda score: 0.0).result(60) is failed
    withdrawn = Future()
    found = scorer.add(withdrawn, TASK, lambda score: 0.0)
    withdrawn.cancel()
    assert found.cancelled()
    broken = Future()
    broken.set_exception(OSError("gone"))
    assert isinstance(scorer.add(broken, TASK, lambda score: 0.0).exception(60), OSError)


def test_a_value_that_is_no_number_is_the_terms_fault(scorer_of):
    found = scorer_of(Gained()).add(done(scored(1)), TASK, lambda score: float("nan"))
    with pytest.raises(ValueError, match="Gained must give finite values, got nan"):
        found.result(60)


def test_no_more_requests_at_once_than_allowed_and_answers_go_to_their_programs(scorer_of):
    def answer(number, body):
        time.sleep(0.1)
        question = body["messages"][1]["content"]
        return 200, mark(next(n for n in range(11) if f"mu={n}.0, sigma=1.0" in question))

    with serving(answer) as server:
        judge = LLMVerifier(server.url, "judge", max_concurrency=3)
        scorer = scorer_of(judge)
        found = [scorer.add(done(scored(n)), TASK, lambda score: 0.0) for n in range(11)]
        assert [each.result(60).terms[judge.key] for each in found] == [n / 10 for n in range(11)]
    assert 1 < server.most_at_once <= 3
    assert len(server.bodies) == 11


@pytest.mark.parametrize("action", ["zero", "fail", "stop"])
def test_what_follows_where_there_is_no_value_is_the_terms_to_say(action, scorer_of, caplog):
    answers = threading.Event()

    def answer(number, body):
        return (200, mark(6)) if answers.is_set() else (404, "")

    with serving(answer) as server:
        judge = LLMVerifier(server.url, "judge", on_failure=action)
        scorer = scorer_of(judge)
        bare = scored(1)
        if action == "stop":
            with pytest.raises(TermUnavailableError, match="status 404"):
                scorer.add(done(bare), TASK, lambda score: 0.0).result(60)
        else:
            found = scorer.add(done(bare), TASK, lambda score: 0.0).result(60)
            assert (found == bare) if action == "zero" else (found.failure is FailureCategory.UNJUDGED)
            assert action == "zero" or not found.settled
            assert "status 404" in caplog.text
        answers.set()
        # what was not there is not remembered
        assert scorer.add(done(bare), TASK, lambda score: 0.0).result(60).terms == {judge.key: 0.6}
