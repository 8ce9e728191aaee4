"""The warm-up's programs as a checkpoint of the run keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score

CALLBACK = "ProgramScoring"
"""The callback whose state has them."""


class Draw(NamedTuple):
    """A program that the warm-up drew.

    Attributes:
        source: Source text of the program.
        program_ids: Its tokens, stop token included.
        reference_log_prob: Log-probability with the adapter off, in nats.
        proposal_log_prob: Log-probability with which it was drawn, in nats.
        score: What it scored.
    """

    source: str
    program_ids: list[int]
    reference_log_prob: float
    proposal_log_prob: float
    score: Score


class RunWarmup:
    """What a run's first round drew, with one known distribution.

    Args:
        checkpoint: A whole checkpoint of the run; one without a warm-up has no draws.
        records: The run's programs, with their scores.

    Attributes:
        drawing: How they were drawn.
    """

    def __init__(self, checkpoint: Path, records: Iterable[ProgramRecord]) -> None:
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        states = [
            rank["warmup"]
            for name, state in (saved.get("callbacks") or {}).items()
            if name.startswith(CALLBACK)
            for rank in state.get("ranks", ())
            if "warmup" in rank
        ]
        self.drawing = SamplingSettings(**states[0][0]) if states else SamplingSettings()
        self._rows: list[Any] = [row for _, rows in states for row in rows]
        self._scores = {(record.task, record.source): record.score for record in records}

    def draws(self, index: int, task: str) -> list[Draw]:
        """What it drew of one task, one entry a sample.

        Args:
            index: Position of the task among the run's.
            task: Name of the task.

        Raises:
            LookupError: If the run's programs have no score of one of them (any more).
        """
        found = []
        for number, source, ids, _, prior, _, proposal, _, _, truncated in self._rows:
            if number != index:
                continue
            if truncated:  # its text might be a whole program
                score = Score.failed(FailureCategory.TRUNCATED, f"no stop token in {len(ids)} tokens")
            elif (task, source) in self._scores:
                score = self._scores[task, source]
            else:
                raise LookupError("not all of them have a score among the run's programs")
            found.append(Draw(source, list(ids), prior, proposal, score))
        return found
