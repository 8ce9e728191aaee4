"""The section `regressions` of a run: what an analyst would write first joins what the policy learns from."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from synthstats_lightning.callbacks.proposals.given_programs import GivenPrograms
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.policy import Environment
from synthstats_lightning.pretraining.wide.regressions import MOST_FAMILIES, regressions
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.runtime.interrupts import interruptible
from synthstats_lightning.tasks.proposal import rows_that_count

MOST_OF_BUDGET = 4
"""Of the programs that may be scored, regressions are one in so many at most."""
ORIGIN = "first regressions"
"""Where these programs come from, in records."""


class FirstRegressions(Callback):
    """Has the regressions that an analyst would write first scored, and adds them to replay.

    Of every task, see `pretraining.wide.regressions`: slopes of all columns, of those alone that are clear,
    and of logarithms, with effects of categories and groups, in a few families each. On a table of many
    columns and hundreds of rows a policy may not write any of these within a run, though the data prefer
    them by hundreds of nats. The target does not change: their log-probabilities are computed here, as of
    any program that is given, and they weigh their prior probability times their evidence.

    Their scores are waited for with `scoring.synchronous` alone; they count towards
    `scoring.max_programs`, of which they take a quarter at most. Objectives on policy learn from their own
    programs alone, and tasks of several turns have no such programs: with either nothing is written.

    Args:
        families: Families of the response that regressions are written of, from 0, for none, to 3.

    Raises:
        ValueError: If `families` is out of range.
    """

    def __init__(self, families: int = 0) -> None:
        if not 0 <= families <= MOST_FAMILIES:
            raise ValueError(f"regressions.families must be from 0 to {MOST_FAMILIES}, got {families}")
        self.families = families
        self.given = GivenPrograms()
        self.written = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Hands what the run has no score of to the workers, before the warm-up's programs."""
        scoring, module = scoring_and_module(trainer, pl_module, self)
        if module.objective.on_policy:
            return
        rank, size = rank_and_size()
        left = scoring.scorer.budget.left
        most = math.inf if left is None else left // MOST_OF_BUDGET
        for index, task in enumerate(scoring.scorer.tasks):
            if isinstance(task, Environment) or not rows_that_count(task):
                continue
            for source in regressions(task, self.families)[rank::size]:
                if len(self.given) < most and not scoring.journal.holds(task.name, source):
                    self.written += 1
                    self.given.submit(scoring, module, None, index, source, "a regression", ORIGIN)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Stores those that have a score by now."""
        if len(self.given):
            scoring, module = scoring_and_module(trainer, pl_module, self)
            self.given.take(trainer, scoring, module, scoring.synchronous)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stores those that have a score, before the run is reported, and says what became of all."""
        if trainer.interrupted:
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        self.given.take(trainer, scoring, module, False)
        left = self.given.withdraw(scoring)
        own = Counter(written=self.written, added=self.given.added, left=left)
        counts = sum(gather_objects(own), Counter())
        failures = sum(gather_objects(self.given.failures), Counter())
        if not counts["written"]:
            return
        failed = ", ".join(f"{name} {number}" for name, number in failures.most_common())
        rank_zero_info(
            f"first regressions: {counts['written']} written, {counts['added']} added,"
            f" {counts['left']} without a score yet; not taken: {failed or 'none'}"
        )

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Writes those that have a score by then, also of a warm-up that is interrupted."""
        if not len(self.given):
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        try:
            with interruptible("what the run has of the first regressions' scores"):
                self.given.take(trainer, scoring, module, False)
        except Exception as error:  # that the run failed is what is told
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            print(
                f"error: scores of first regressions may be missing in the run's folder: {text}",
                file=sys.stderr,
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Drops what is waited for."""
        self.given.forget()
