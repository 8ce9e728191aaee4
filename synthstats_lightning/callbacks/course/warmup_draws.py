"""The programs of a run's warm-up, which its report weighs together with the fresh ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, NamedTuple

from lightning.pytorch import Trainer

from synthstats_lightning.callbacks.program_queue import plain_row
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.learning.warmup_weights import warmup_weights
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.runtime.distributed import own_share
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Prompt


class Weighed(NamedTuple):
    """Draws with what each of the parts of their mixture draws them with.

    Attributes:
        early: The warm-up's programs, `log_prob` that of the policy as it is now.
        fresh: The given programs, in order, with their `warmup_log_prob`, as the first have.
    """

    early: list[PendingProgram]
    fresh: list[PendingProgram]


class WarmupDraws:
    """Programs that the untrained policy drew with one known distribution, the same for all.

    They have cost as much as fresh ones, and cover what the trained policy may have unlearned. As draws of a
    mixture of both (the balance heuristic of Veach and Guibas 1995; the deterministic mixture of Owen and
    Zhou 2000) each weighs target over the mean of both densities, and no estimate is worse than that of the
    better part alone by more than its share of the draws.

    Attributes:
        programs: In the order in which they were drawn; none where their distribution is not known.
        drawing: How they were drawn.
    """

    def __init__(self) -> None:
        self.programs: list[PendingProgram] = []
        self.drawing = SamplingSettings()
        self._restored: list[Sequence[Any]] = []

    def take(self, programs: Iterable[PendingProgram], drawing: SamplingSettings) -> None:
        """Keeps the first round's programs, if what drew them can be evaluated.

        Args:
            programs: All that the round drew.
            drawing: How they were drawn.
        """
        found = [program._replace(token_log_probs=()) for program in programs]
        known = all(program.episode is None and math.isfinite(program.proposal_log_prob) for program in found)
        if not self.programs and known and drawing.temperature_high is None:
            self.programs, self.drawing = found, drawing

    def weighed(
        self, trainer: Trainer, module: SamplingModule, prompts: Sequence[Prompt], drawn: list[PendingProgram]
    ) -> Weighed | None:
        """The warm-up's and the given programs as draws of one mixture.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy wrote them.
            prompts: Of the tasks, as they are now.
            drawn: The fresh programs that the policy and the prior wrote.

        Returns:
            `None` where there are no draws of the warm-up, or they are not all scored, or something else than
            the reference policy, given these prompts, has drawn them: a policy that began elsewhere.
        """
        early = self.programs
        if not early or not all(program.has_score for program in early):
            return None
        asked = [program.task_index for program in (*early, *drawn)]
        programs = [program.program_ids for program in (*early, *drawn)]
        told = [program.proposal_log_prob for program in early]
        with trainer.precision_plugin.forward_context():
            found = warmup_weights(module, prompts, asked, programs, told, self.drawing)
        if found is None:
            return None
        return Weighed(
            [
                program._replace(log_prob=float(here), warmup_log_prob=then)
                for program, here, then in zip(early, found.own, told, strict=True)
            ],
            [
                program._replace(warmup_log_prob=float(then))
                for program, then in zip(drawn, found.first, strict=True)
            ],
        )

    def state(self) -> tuple[dict[str, Any], list[Sequence[Any]]]:
        """How they were drawn, and the programs, in primitive types."""
        rows = [(*plain_row(program), _is_truncated(program)) for program in self.programs]
        return asdict(self.drawing), [*self._restored, *rows]

    def restore(self, ranks: Sequence[Sequence[Any]]) -> None:
        """Takes what `state` returned; the programs have their scores again after `resubmit`.

        Args:
            ranks: What it returned on every process, which may have been more or fewer.
        """
        self.drawing, self.programs = SamplingSettings(**ranks[0][0]), []
        self._restored = own_share([rows for _, rows in ranks])

    def resubmit(self, scorer: SampleScorer) -> None:
        """Asks for the scores of an interrupted run's programs, which the workers remember.

        Args:
            scorer: That knows the records of the interrupted run.
        """
        rows, self._restored, self.programs = self._restored, [], []
        for *row, truncated in rows:
            if not truncated:
                self.programs.append(scorer.resubmit(*row))
                continue
            task, source, ids, log_prob, prior, step, proposal, _, looking = row
            score: Future[Score] = Future()
            score.set_result(Score.failed(FailureCategory.TRUNCATED, f"no stop token in {len(ids)} tokens"))
            given = task, source, tuple(ids), log_prob, prior, score, step
            self.programs.append(PendingProgram(*given, proposal_log_prob=proposal, looking=looking))


def _is_truncated(program: PendingProgram) -> bool:
    return program.has_score and program.score.result().failure is FailureCategory.TRUNCATED
