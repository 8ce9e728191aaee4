"""`ProgramScoring` with workers that all runs share: starting them takes longer than a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from synthstats_lightning.callbacks import ProgramScoring
from synthstats_lightning.callbacks.sample_scorer import SampleScorer
from synthstats_lightning.scoring.reward import Reward
from tests.support.warm import warm_evidence_pool, warm_pool


class SharedScoring(ProgramScoring):
    """Leaves its workers to the next run."""

    workers: ClassVar[dict[bool, SampleScorer]] = {}

    @property
    def state_key(self) -> str:
        """That of the callback whose checkpoints it reads."""
        return ProgramScoring.__qualname__

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        only = self.reward.score == "evidence"
        if only not in SharedScoring.workers:
            pool = warm_evidence_pool() if only else warm_pool()
            SharedScoring.workers[only] = SampleScorer([], Reward(), pool)
        self._scorer = SharedScoring.workers[only].for_tasks(trainer.datamodule.tasks)
        self._scorer.reward = self.reward
        super().setup(trainer, pl_module, stage)

    def close(self, *arguments: Any) -> None:
        self._scorer = None
        super().close(*arguments)


@contextmanager
def sharing_scoring() -> Iterator[None]:
    """What the command line runs meanwhile shares its workers with other runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synthstats_lightning.cli.sections.ProgramScoring", SharedScoring)
        yield
