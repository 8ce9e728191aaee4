"""The one loop of all searchers: it holds the budget, waits for scores and passes them on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from synthstats_lightning.pool.program_budget import ProgramBudget
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.searchers.proposal import Proposal, Scored
from synthstats_lightning.searchers.searcher import Searcher

SPENT = "the budget of programs is used"
TIME = "its time is up"
OVER = "the method has come to its end"
REPEATS = "what it proposes has all been scored before"
INTERRUPTED = "it was interrupted"


@dataclass
class Progress:
    """How far a search has come.

    Attributes:
        rounds: Rounds of proposals whose scores have been told.
        proposals: Proposals that were taken, repeats and those without a stop token among them.
        programs: Distinct programs that were scored, or failed to be; after an end in the middle of a round
            they are fewer than the budget has paid for.
        ended: Why the search is over; empty while it is not.
    """

    rounds: int = 0
    proposals: int = 0
    programs: int = 0
    ended: str = ""


def search(
    searcher: Searcher,
    score: Callable[[Proposal], Future[Score]],
    budget: ProgramBudget,
    take: Callable[[int, Scored], None],
    *,
    task_index: int = 0,
    deadline: float = math.inf,
    most_proposals: int | None = None,
    first: Sequence[Proposal] = (),
    show: Callable[[Progress], None] | None = None,
) -> Progress:
    """Asks, scores and tells until the budget is used, the time is up, or there is nothing new.

    Proposals are taken in order; from the first one on that the budget does not pay for, those of a round are
    dropped. Proposals without a stop token fail without a scorer and cost nothing.

    Args:
        searcher: It has been started.
        score: Starts scoring a proposal, known ones at no cost.
        budget: Counts distinct programs.
        take: Gets every proposal with its score, in order, and the number of its round from 0.
        task_index: Position of the task, for the budget.
        deadline: When to end, on the clock of `time.monotonic`; scores that are still missing are left out.
        most_proposals: Proposals after which the search ends whatever it has found; by default twenty for
            each program of the budget, and no bound without one.
        first: Programs of others that are taken before the searcher is asked; it is told of them as of what
            it has not asked for.
        show: Is told how far the search has come, after every round.

    Returns:
        How far it came and why it ended, also after Ctrl-C: what had a score by then was taken.
    """
    progress = Progress()
    if most_proposals is None and budget.left is not None:
        most_proposals = 20 * max(1, budget.left)
    waiting: list[tuple[Proposal, Future[Score]]] = []
    known: set[str] = set()

    def keep(proposal: Proposal, future: Future[Score]) -> Scored:
        scored = Scored(proposal, future.result())
        progress.proposals += 1
        if proposal.stopped:
            known.add(proposal.source)
        take(progress.rounds, scored)
        return scored

    def scored(asked: Sequence[Proposal]) -> list[Scored]:
        for proposal in asked:
            if proposal.stopped and not budget.admits(task_index, proposal.source):
                progress.ended = SPENT
                break
            waiting.append((proposal, score(proposal) if proposal.stopped else _truncated(proposal)))
        found: list[Scored] = []
        while waiting:
            proposal, future = waiting[0]
            if not _comes(future, deadline):
                progress.ended = TIME
                break
            waiting.pop(0)
            found.append(keep(proposal, future))
        return found

    try:
        if first:
            searcher.learn(scored(first))
        while not progress.ended:
            asked = searcher.ask()
            if not asked:
                progress.ended = OVER
                break
            searcher.tell(scored(asked))
            progress.rounds += 1
            progress.programs = len(known)
            if show is not None:
                show(progress)
            if not progress.ended:
                progress.ended = _end(budget, progress.proposals, most_proposals, deadline)
    except KeyboardInterrupt:
        progress.ended = INTERRUPTED
    for proposal, future in waiting:
        if future.done() and not future.cancelled() and future.exception() is None:
            keep(proposal, future)
    progress.programs = len(known)
    return progress


def _end(budget: ProgramBudget, proposals: int, most: int | None, deadline: float) -> str:
    if budget.spent:
        return SPENT
    if most is not None and proposals >= most:
        return REPEATS
    return TIME if time.monotonic() >= deadline else ""


def _comes(future: Future[Score], deadline: float) -> bool:
    """Waits for a score, and wakes every second so that Ctrl-C is heard."""
    while not future.done():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        wait([future], min(left, 1.0))
    return True


def _truncated(proposal: Proposal) -> Future[Score]:
    future: Future[Score] = Future()
    message = f"no stop token within {len(proposal.program_ids)} tokens"
    future.set_result(Score.failed(FailureCategory.TRUNCATED, message))
    return future
