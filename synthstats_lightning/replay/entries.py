"""Stored trajectories as columns, so that a hundred thousand of them are ranked, drawn and saved at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from synthstats_lightning.replay.trajectory import Trajectory

Key = tuple[int, bytes]
"""Task index and token ids, as int32."""
_FIRST_ROWS = 1024
_COLUMNS = (
    "_log_reward",
    "_log_probs",
    "_parts",
    "_task",
    "_group",
    "_step",
    "_serial",
    "_pinned",
    "_settled",
)


def key_of(trajectory: Trajectory) -> Key:
    """What tells one text of a task from another."""
    return trajectory.task_index, np.asarray(trajectory.program_ids, dtype=np.int32).tobytes()


class Entries:
    """A table of trajectories: a row is written once and overwritten when its entry makes room.

    Attributes:
        keys: Task and token ids of each row.
        canonical: Hash of each row's canonical form, or an empty string.
        structure: Hash of each row's structure, or an empty string.
        runs: What the policy and its environment wrote of each row, see `Trajectory`.
        gains: What each turn of each row was expected to tell, see `Trajectory`.
        num_parts: Parts of each log reward.
    """

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.canonical: list[str] = []
        self.structure: list[str] = []
        self.runs: list[tuple[int, ...]] = []
        self.gains: list[tuple[float, ...]] = []
        self.num_parts = 0
        self._groups: dict[tuple[int, str], int] = {}
        self._members = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._group_task = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._log_reward = np.empty(_FIRST_ROWS)
        self._log_probs = np.empty((_FIRST_ROWS, 2))
        self._parts = np.empty((_FIRST_ROWS, 0))
        self._task = np.empty(_FIRST_ROWS, dtype=np.int32)
        self._group = np.empty(_FIRST_ROWS, dtype=np.int64)
        self._step = np.empty(_FIRST_ROWS, dtype=np.int64)
        self._serial = np.empty(_FIRST_ROWS, dtype=np.int64)
        self._pinned = np.empty(_FIRST_ROWS, dtype=np.bool_)
        self._settled = np.empty(_FIRST_ROWS, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def log_reward(self) -> Float[np.ndarray, " entries"]:
        """Log rewards, in nats."""
        return self._log_reward[: len(self)]

    @property
    def log_probs(self) -> Float[np.ndarray, "entries 2"]:
        """Log-probabilities under the reference and under the policy that sampled, in nats."""
        return self._log_probs[: len(self)]

    @property
    def parts(self) -> Float[np.ndarray, "entries parts"]:
        """Untempered parts of the log rewards, in nats."""
        return self._parts[: len(self)]

    @property
    def task(self) -> Int[np.ndarray, " entries"]:
        """Task indices."""
        return self._task[: len(self)]

    @property
    def group(self) -> Int[np.ndarray, " entries"]:
        """Numbers of the (task, structure) pairs, whose tasks are `group_task`."""
        return self._group[: len(self)]

    @property
    def members(self) -> Int[np.ndarray, " groups"]:
        """Entries of each (task, structure) pair."""
        return self._members[: len(self._groups)]

    @property
    def group_task(self) -> Int[np.ndarray, " groups"]:
        """Task of each (task, structure) pair."""
        return self._group_task[: len(self._groups)]

    @property
    def step(self) -> Int[np.ndarray, " entries"]:
        """Training steps at which the programs were sampled last."""
        return self._step[: len(self)]

    @property
    def serial(self) -> Int[np.ndarray, " entries"]:
        """Numbers that rise in the order of insertion."""
        return self._serial[: len(self)]

    @property
    def pinned(self) -> Bool[np.ndarray, " entries"]:
        """Which entries never make room."""
        return self._pinned[: len(self)]

    @property
    def settled(self) -> Bool[np.ndarray, " entries"]:
        """Which entries have a score that is that of their text."""
        return self._settled[: len(self)]

    @classmethod
    def from_columns(
        cls,
        keys: list[Key],
        canonical: list[str],
        structure: list[str],
        numbers: Float[np.ndarray, "entries 3"],
        parts: Float[np.ndarray, "entries parts"],
        step: Int[np.ndarray, " entries"],
        serial: Int[np.ndarray, " entries"],
        pinned: Bool[np.ndarray, " entries"],
        runs: list[tuple[int, ...]],
        settled: Bool[np.ndarray, " entries"],
        gains: list[tuple[float, ...]],
    ) -> Entries:
        """A table from its columns.

        Args:
            keys: Task and token ids.
            canonical: Hashes of canonical forms.
            structure: Hashes of structures.
            numbers: Log reward, reference log-probability and behaviour log-probability, in nats.
            parts: Untempered parts of the log rewards, in nats.
            step: Training steps at which the programs were sampled.
            serial: Order of insertion.
            pinned: What never makes room.
            runs: What the policy and its environment wrote.
            settled: Which scores are those of the texts.
            gains: What turns were expected to tell.
        """
        table = cls()
        while len(table._task) < len(keys):
            table._grow()
        rows = slice(0, len(keys))
        table.keys, table.canonical, table.structure = keys, canonical, structure
        table.runs, table.gains = runs, gains
        table.num_parts = parts.shape[1]
        table._parts = np.empty((len(table._task), table.num_parts))
        table._log_reward[rows], table._log_probs[rows] = numbers[:, 0], numbers[:, 1:]
        table._parts[rows], table._step[rows] = parts, step
        table._serial[rows], table._pinned[rows] = serial, pinned
        table._settled[rows] = settled
        table._task[rows] = [task for task, _ in keys]
        names = zip(table._task[rows].tolist(), structure, strict=True)
        table._group[rows] = [table._group_of(task, name) for task, name in names]
        table._members[: len(table._groups)] = np.bincount(table._group[rows], minlength=len(table._groups))
        return table

    def append(self, trajectory: Trajectory, serial: int, pinned: bool) -> int:
        """Writes a new row and returns its number."""
        row = len(self)
        if row == 0:
            self.num_parts = len(trajectory.parts)
            self._parts = np.empty((len(self._task), self.num_parts))
        if row == len(self._task):
            self._grow()
        self.keys.append((-1, b""))
        self.canonical.append("")
        self.structure.append("")
        self.runs.append(())
        self.gains.append(())
        self._write(row, trajectory, serial, pinned)
        return row

    def put(self, row: int, trajectory: Trajectory, serial: int, pinned: bool) -> None:
        """Overwrites a row."""
        self._members[self._group[row]] -= 1
        self._write(row, trajectory, serial, pinned)

    def _write(self, row: int, trajectory: Trajectory, serial: int, pinned: bool) -> None:
        self.keys[row] = key_of(trajectory)
        self.canonical[row] = trajectory.canonical
        self.structure[row] = trajectory.structure
        self.runs[row] = trajectory.runs
        self.gains[row] = trajectory.gains
        self._log_reward[row] = trajectory.log_reward
        self._log_probs[row] = trajectory.reference_log_prob, trajectory.log_prob
        self._parts[row] = trajectory.parts
        self._task[row] = trajectory.task_index
        group = self._group_of(trajectory.task_index, trajectory.structure)
        self._group[row] = group
        self._members[group] += 1
        self._step[row] = trajectory.step
        self._serial[row] = serial
        self._pinned[row] = pinned
        self._settled[row] = trajectory.settled

    def lowest(self, task: int | None = None) -> int | None:
        """The row whose entry makes room for another, or `None` where all are pinned.

        It is that of the lowest log reward, and of the oldest entry among equals.

        Args:
            task: The task whose entry is to make room; any task by default.
        """
        kept = self.pinned if task is None else self.pinned | (self.task != task)
        rewards = np.where(kept, np.inf, self.log_reward)
        rows = np.flatnonzero((rewards == rewards.min(initial=np.inf)) & ~kept)
        return int(rows[self.serial[rows].argmin()]) if len(rows) else None

    def get(self, rows: Sequence[int]) -> list[Trajectory]:
        """The trajectories of some rows."""
        index = np.asarray(rows, dtype=np.int64)
        columns = (
            self._log_reward[index].tolist(),
            self._log_probs[index].tolist(),
            self._parts[index].tolist(),
            self._step[index].tolist(),
            self._settled[index].tolist(),
        )
        trajectories = []
        for row, log_reward, (reference, own), parts, step, settled in zip(rows, *columns, strict=True):
            task, ids = self.keys[row]
            tokens = tuple(memoryview(ids).cast("i").tolist())
            form, graph = self.canonical[row], self.structure[row]
            more = form, graph, step, self.runs[row], (), settled, self.gains[row]
            trajectories.append(Trajectory(task, tokens, log_reward, reference, own, tuple(parts), *more))
        return trajectories

    def _group_of(self, task_index: int, structure: str) -> int:
        group = self._groups.get((task_index, structure))
        if group is None:
            group = self._groups[task_index, structure] = len(self._groups)
            if group == len(self._members):
                self._members = np.concatenate([self._members, np.zeros_like(self._members)])
                self._group_task = np.concatenate([self._group_task, np.zeros_like(self._group_task)])
            self._group_task[group] = task_index
        return group

    def _grow(self) -> None:
        for name in _COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty_like(old)]))
