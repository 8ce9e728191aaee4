"""A replay buffer of trajectories: deduplicating, reward-prioritised, exact to save and restore."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from synthstats_lightning.replay.priority import rank_priorities
from synthstats_lightning.replay.trajectory import Trajectory

_FORMAT = 1


class ReplayBuffer:
    """Holds each distinct program of a task once and draws batches from two sources.

    A share `replay_fraction` of a batch comes from all stored programs by reward priority, the rest from the
    most recently sampled ones, repeated as often as the policy sampled them. GFlowNet objectives are
    off-policy: both sources train towards the same target.

    Args:
        capacity: Distinct programs kept over all tasks. When full, the lowest log rewards go first.
        recent: Length of the queue of recent samples.
        replay_fraction: Share of a batch drawn by priority, from 0 (recent only) to 1.
        priority: Exponent of the rank-based priority; 0 draws uniformly.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(
        self, capacity: int = 20_000, recent: int = 512, replay_fraction: float = 0.5, priority: float = 0.5
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 program, got {capacity}")
        if not 1 <= recent <= capacity:
            raise ValueError(f"recent must be from 1 to capacity ({capacity}) programs, got {recent}")
        if not 0 <= replay_fraction <= 1:
            raise ValueError(f"replay_fraction must be from 0 to 1, got {replay_fraction}")
        if not priority >= 0:
            raise ValueError(f"priority must not be negative, got {priority}")
        self.capacity = capacity
        self.replay_fraction = replay_fraction
        self.priority = priority
        self.prompts: dict[int, tuple[int, ...]] = {}
        self.added = 0
        self.duplicates = 0
        self._items: dict[tuple[int, tuple[int, ...]], Trajectory] = {}
        self._recent: deque[Trajectory] = deque(maxlen=recent)
        self._order: tuple[list[Trajectory], Float[np.ndarray, " entries"]] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: Trajectory) -> bool:
        return (item.task_index, item.program_ids) in self._items

    @property
    def trajectories(self) -> list[Trajectory]:
        """Every stored trajectory, in the order of insertion."""
        return list(self._items.values())

    def register_prompt(self, task_index: int, prompt_ids: Iterable[int]) -> None:
        """States a task's prompt in token ids, which batches of its programs begin with."""
        self.prompts[task_index] = tuple(int(token) for token in prompt_ids)

    def add(self, trajectory: Trajectory) -> bool:
        """Adds a trajectory.

        Returns:
            Whether it was new. A known program only joins the recent samples again.

        Raises:
            ValueError: If its task has no prompt, it has no token, or a number is not finite.
        """
        if trajectory.task_index not in self.prompts:
            raise ValueError(
                f"task_index {trajectory.task_index} has no prompt; known: {sorted(self.prompts)}"
            )
        if not trajectory.program_ids:
            raise ValueError("program_ids must hold at least one token")
        if not (np.isfinite(trajectory.log_reward) and np.isfinite(trajectory.reference_log_prob)):
            raise ValueError(
                f"log_reward and reference_log_prob must be finite, got {trajectory.log_reward}"
                f" and {trajectory.reference_log_prob}"
            )
        key = (trajectory.task_index, trajectory.program_ids)
        self.added += 1
        self._recent.append(trajectory)
        if key in self._items:
            self.duplicates += 1
            return False
        self._items[key] = trajectory
        self._order = None
        if len(self._items) > self.capacity:
            self._evict()
        return True

    def sample(self, size: int, generator: np.random.Generator) -> list[Trajectory]:
        """Draws a batch with replacement.

        Args:
            size: Number of trajectories.
            generator: Source of randomness; nothing else is used.

        Raises:
            LookupError: If the buffer is empty.
        """
        if not self._items:
            raise LookupError(
                "the replay buffer is empty: something must add trajectories before training starts"
            )
        replayed = int(generator.binomial(size, self.replay_fraction))
        items, cumulative = self._ranked()
        drawn = np.searchsorted(cumulative, generator.random(replayed), side="right")
        recent = generator.integers(len(self._recent), size=size - replayed)
        return [items[i] for i in drawn] + [self._recent[i] for i in recent]

    def state_dict(self) -> dict[str, Any]:
        """Everything in tensors and primitive types, so that `torch.load(weights_only=True)` reads it."""
        keys = {key: i for i, key in enumerate(self._items)}
        recent = list(self._recent)
        items = list(self._items.values())
        lengths = [len(item.program_ids) for item in [*items, *recent]]
        tokens = [token for item in [*items, *recent] for token in item.program_ids]
        numbers = [(item.log_reward, item.reference_log_prob, item.log_prob) for item in [*items, *recent]]
        return {
            "format": _FORMAT,
            "entries": len(keys),
            "lengths": torch.tensor(lengths, dtype=torch.int32),
            "tokens": torch.tensor(tokens, dtype=torch.int32),
            "task_index": torch.tensor([item.task_index for item in [*items, *recent]], dtype=torch.int32),
            "numbers": torch.tensor(numbers, dtype=torch.float64).reshape(-1, 3),
            "prompts": {index: list(ids) for index, ids in self.prompts.items()},
            "added": self.added,
            "duplicates": self.duplicates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` saved.

        Raises:
            ValueError: If the state is of another format.
        """
        if state.get("format") != _FORMAT:
            raise ValueError(
                f"replay buffer state of format {state.get('format')!r}; this version reads {_FORMAT}"
            )
        ends = np.cumsum(state["lengths"].numpy())
        tokens = state["tokens"].tolist()
        items = [
            Trajectory(task_index, tuple(tokens[end - length : end]), *numbers)
            for end, length, task_index, numbers in zip(
                ends.tolist(),
                state["lengths"].tolist(),
                state["task_index"].tolist(),
                state["numbers"].tolist(),
                strict=True,
            )
        ]
        self.prompts = {int(index): tuple(ids) for index, ids in state["prompts"].items()}
        self._items = {(item.task_index, item.program_ids): item for item in items[: state["entries"]]}
        self._recent = deque(items[state["entries"] :], maxlen=self._recent.maxlen)
        self._order = None
        self.added = state["added"]
        self.duplicates = state["duplicates"]

    def _ranked(self) -> tuple[list[Trajectory], Float[np.ndarray, " entries"]]:
        if self._order is None:
            items = list(self._items.values())
            rewards = np.array([item.log_reward for item in items], dtype=np.float64)
            tasks = np.array([item.task_index for item in items])
            cumulative = np.cumsum(rank_priorities(rewards, tasks, self.priority))
            cumulative[-1] = 1.0  # rounding must not leave a gap at the end
            self._order = (items, cumulative)
        return self._order

    def _evict(self) -> None:
        worst = min(self._items, key=lambda key: self._items[key].log_reward)
        del self._items[worst]
