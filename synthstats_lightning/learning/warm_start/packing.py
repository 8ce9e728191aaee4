"""Batches of examples of like length, as many as a number of tokens takes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from synthstats_lightning.learning.warm_start.encoding import EncodedExample
from synthstats_lightning.replay import Trajectory, TrajectoryBatch, collate


def packed(examples: Sequence[EncodedExample], rows: int, tokens: int | None) -> list[list[int]]:
    """Which examples go through together.

    Rows of like length, prompt and answers together, share a batch, so that little of what a policy reads is
    padding. No two examples share a row: in models with states instead of attention one would see the other.

    Args:
        examples: At least one.
        rows: Examples of a batch at most.
        tokens: Padded tokens of a batch at most: its rows times the longest of them, prompt and answers;
            `None` for no limit. An example that has more is a batch by itself.
    """
    lengths = [len(example) for example in examples]
    order = sorted(range(len(examples)), key=lambda place: (lengths[place], place))
    batches: list[list[int]] = []
    for place in order:  # each is the longest so far
        full = not batches or len(batches[-1]) >= rows
        if full or (tokens is not None and (len(batches[-1]) + 1) * lengths[place] > tokens):
            batches.append([])
        batches[-1].append(place)
    return batches


class ExampleLoader:
    """Batches of given examples: an iterable with a length and a state, as `ReplayLoader` is.

    Every rank has equally many batches, its share of all; where they do not come out even, some ranks see a
    batch a second time.

    Args:
        examples: What is imitated.
        rows: Examples of a batch at most.
        tokens: Padded tokens of a batch at most; `None` for no limit.
        seed: Seeds the order of the batches, another in each epoch; `None` keeps that of their lengths.
        rank: The rank of this process.
        size: Number of processes.
    """

    def __init__(
        self,
        examples: Sequence[EncodedExample],
        rows: int,
        tokens: int | None,
        seed: int | None,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.examples = examples
        self.batches = packed(examples, rows, tokens)
        self.seed = seed
        self._rank, self._size = rank, size
        self._epoch, self._position = -1, 0
        self._resumed = False

    def __len__(self) -> int:
        return -(-len(self.batches) // self._size)

    def __iter__(self) -> Iterator[TrajectoryBatch]:
        # as in `ReplayLoader`: a restored position belongs to the first epoch after the restore
        if not self._resumed:
            self._epoch, self._position = self._epoch + 1, 0
        self._resumed = False
        order = list(range(len(self.batches)))
        if self.seed is not None:
            random.Random(self.seed + self._epoch).shuffle(order)  # noqa: S311 - no secret
        while self._position < len(self):
            place = self._position * self._size + self._rank
            self._position += 1
            yield self._collated(self.batches[order[place % len(order)]])

    def _collated(self, places: Sequence[int]) -> TrajectoryBatch:
        rows = [self.examples[place] for place in places]
        given = [Trajectory(row, each.answers, 0.0, 0.0, runs=each.runs) for row, each in enumerate(rows)]
        batch = collate(given, {row: each.prompt for row, each in enumerate(rows)})
        batch.task_index.zero_()  # they belong to no task, and the first one always is
        return batch

    @property
    def padding(self) -> float:
        """Share of the tokens that a policy reads for the batches that belong to no example."""
        padded = sum(
            len(places) * max(len(self.examples[place]) for place in places) for places in self.batches
        )
        return 1 - sum(map(len, self.examples)) / padded

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position in it."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` saved."""
        self._epoch, self._position = state["epoch"], state["position"]
        self._resumed = self._position < len(self)
