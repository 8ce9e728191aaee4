"""The training loader: fixed-size batches drawn from the replay buffer when they are needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from synthstats_lightning.replay.buffer import ReplayBuffer
from synthstats_lightning.replay.trajectory import TrajectoryBatch, collate, empty_batch


class ReplayLoader:
    """An iterable with a length and a state.

    Lightning prefetches a batch from loaders without a length, which would make every batch one step stale;
    and
    it saves and restores the position of a loader that has a state, which makes a resumed run draw the same
    batches.

    Args:
        buffer: Where trajectories come from.
        batch_size: Trajectories a batch (per process).
        num_batches: Batches an epoch.
        seed: Seeds a stream of the loader's own.
        gather: From this rank's value to those of all ranks: only one rank writes checkpoints. By default
            there is one rank.
        rank: The rank of this process.
        allow_empty: Whether batches of an empty buffer are empty instead of an error, as on several ranks,
            which must take equally many steps.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        batch_size: int,
        num_batches: int,
        seed: int,
        gather: Callable[[Any], list[Any]] = lambda value: [value],
        rank: int = 0,
        allow_empty: bool = False,
    ) -> None:
        self.buffer = buffer
        self.batch_size = batch_size
        self.num_batches = num_batches
        self._gather = gather
        self._rank = rank
        self._allow_empty = allow_empty
        self._stream = np.random.PCG64(seed)
        self._generator = np.random.Generator(self._stream)
        self._position = 0
        self._resumed = False

    def go_on_from(self, other: ReplayLoader) -> None:
        """Draws from the stream of another loader of this process, which draws no more."""
        self._stream, self._generator = other._stream, other._generator

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[TrajectoryBatch]:
        # A restored position belongs to the first epoch after the restore; every later one starts afresh.
        self._position = self._position if self._resumed else 0
        self._resumed = False
        while self._position < self.num_batches:
            self._position += 1
            if self._allow_empty and not len(self.buffer):
                yield empty_batch()
                continue
            buffer = self.buffer
            rows = buffer.sample(self.batch_size, self._generator)
            yield collate(rows, buffer.prompts, prior_prompts=buffer.prior_prompts)

    def state_dict(self) -> dict[str, Any]:
        """Position in the epoch and, of every rank, state of the random stream."""
        generators = self._gather(copy.deepcopy(self._stream.state))
        return {"position": self._position, "generators": generators}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` saved.

        On another number of ranks than saved it, each takes the stream of a rank that there was, and ranks
        that share one continue it at places that never meet.
        """
        saved, size = state["generators"], len(self._gather(None))
        self._position = state["position"] % self.num_batches
        self._resumed = True
        self._stream.state = saved[self._rank % len(saved)]
        if len(saved) != size:
            self._stream = self._stream.jumped(self._rank // len(saved))
            self._generator = np.random.Generator(self._stream)
