"""What a term of a reward is: a number for every scored program, with a weight in nats."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.rendering.pymc_model import pymc_lines
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task


class TermUnavailableError(RuntimeError):
    """A term has no value now: what it asks does not answer, or its budget is spent."""


@dataclass(frozen=True)
class ScoredProgram:
    """What a term may know of a program: what it means, never how it is written.

    Attributes:
        task: The task whose data the program models.
        score: The program's score.
        gained: The score that counts, in nats above the task's baseline program.
    """

    task: Task
    score: Score
    gained: float

    @cached_property
    def graph(self) -> ModelGraph:
        """The canonical model graph, whose names are none of the author's.

        Raises:
            TermUnavailableError: If the score came without one.
        """
        if self.score.graph is None:
            raise TermUnavailableError("the score came without a model graph")
        return ModelGraph.from_record(self.score.graph)

    @cached_property
    def model(self) -> str:
        """The model as PyMC statements that are written anew from the graph."""
        return "\n".join(pymc_lines(self.graph, self.task.response))


class RewardTerm(ABC):
    """A term of a reward; a subclass says what a program's value is.

    Args:
        weight: Nats for each unit of the value; 0 only logs it, and below 0 it is a loss.
        name: What logs and records call the term; the name of its class by default.
        max_concurrency: Most values that are computed at once.

    Raises:
        ValueError: If a number is out of range or the name is not one word.
    """

    def __init__(self, weight: float = 1.0, name: str | None = None, max_concurrency: int = 1) -> None:
        if not math.isfinite(weight):
            raise ValueError(f"weight must be finite, got {weight}")
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, got {max_concurrency}")
        self.weight = weight
        self.name = type(self).__name__ if name is None else name
        if not self.name.isidentifier():
            raise ValueError(f"name must be one word of letters, digits and underscores, got {self.name!r}")
        self.max_concurrency = max_concurrency

    @property
    def key(self) -> str:
        """Under which values are kept; another key asks anew."""
        return self.name

    @abstractmethod
    def value(self, program: ScoredProgram) -> float:
        """The program's value, which `weight` turns into nats; called once for every distinct model.

        Args:
            program: A program that has a score.

        Raises:
            TermUnavailableError: If there is none now; `on_failure` says what follows.
        """

    def on_failure(self, error: TermUnavailableError) -> str:
        """What becomes of a program without a value: `"zero"`, `"fail"` or `"stop"`.

        Args:
            error: Why there is no value.
        """
        return "stop"

    def ready(self) -> str:
        """What a trial before a run finds out of the term; raises if it would fail."""
        return f"weight {self.weight:g} nats"
