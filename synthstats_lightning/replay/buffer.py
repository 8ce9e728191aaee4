"""A replay buffer of trajectories: deduplicating, drawing from four sources, exact to save and restore."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from synthstats_lightning.replay.balance import structure_probabilities
from synthstats_lightning.replay.contents import Contents, composition, count_contents
from synthstats_lightning.replay.edit_distance import NearCopies
from synthstats_lightning.replay.entries import Entries, key_of
from synthstats_lightning.replay.priority import rank_priorities
from synthstats_lightning.replay.prompt_table import PromptTable
from synthstats_lightning.replay.recent import correct_scores, even_draw
from synthstats_lightning.replay.state import FORMAT, check_format, pack, unpack
from synthstats_lightning.replay.trajectory import Trajectory, check_trajectory, same_score, with_score

Form = tuple[int, str]


class ReplayBuffer(PromptTable):
    """Holds each distinct program of a task once and draws batches from four sources.

    A share of a batch comes from all stored programs by reward priority, one by balanced structures, one
    uniformly, and the rest from the most recently sampled ones, repeated as often as the policy sampled
    them. GFlowNet objectives are off-policy: all sources train towards the same target.

    Multiplicity. With `"text"` every text of a program has the program's whole reward, so that a program
    that can be written in many ways gets the mass of all its texts, and log Z sums over texts. With
    `"program"` a text's reward is divided by the number of stored texts of the same canonical form, so that
    a program's mass is its reward however it is written, and log Z estimates the sum over programs. The
    number grows during a run: the target moves until the common texts have been seen, then settles;
    texts that never were sampled, or made room, do not count, and programs without a canonical form
    (they failed) share nothing. Priorities ignore the division.

    Args:
        capacity: Distinct programs kept over all tasks. When full, the lowest log rewards go first.
        recent: Length of the queue of recent samples.
        replay_fraction: Share of a batch drawn by priority, from 0 (recent only) to 1.
        priority: Exponent α of the rank-based priority; 0 draws uniformly.
        structure_fraction: Share of a batch drawn by balanced structures, from 0 to 1.
        uniform_fraction: Share of a batch drawn uniformly from all stored programs, from 0 to 1.
        capacity_per_task: Distinct programs kept of one task; `None` is no limit of its own.
        deduplicate: Of texts of one canonical form keep all (`"text"`) or the one of the highest log reward
            (`"program"`), which then is the only one that is replayed.
        min_edit_distance: Of programs of a task nearer than this share of their tokens, keep the one of the
            highest log reward; 0 keeps all. See `NearCopies`.
        multiplicity: Whether texts (`"text"`) or programs (`"program"`) are what rewards belong to.

    Raises:
        ValueError: If an argument is out of its range, or rewards are to be shared among texts that
            `deduplicate` does not keep.
        ImportError: If `min_edit_distance` is asked for without rapidfuzz.

    Attributes:
        on_policy: Whether batches are made of the recent samples alone, each as often as any other, for
            objectives that say so of themselves; `ProgramScoring` sets it.
    """

    def __init__(
        self,
        capacity: int = 20_000,
        recent: int = 512,
        replay_fraction: float = 0.5,
        priority: float = 0.5,
        structure_fraction: float = 0.0,
        uniform_fraction: float = 0.0,
        capacity_per_task: int | None = None,
        deduplicate: Literal["text", "program"] = "text",
        min_edit_distance: float = 0.0,
        multiplicity: Literal["text", "program"] = "text",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 program, got {capacity}")
        if not 1 <= recent <= capacity:
            raise ValueError(f"recent must be from 1 to capacity ({capacity}) programs, got {recent}")
        fractions = {
            "replay_fraction": replay_fraction,
            "structure_fraction": structure_fraction,
            "uniform_fraction": uniform_fraction,
        }
        for name, value in {**fractions, "min_edit_distance": min_edit_distance}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {value}")
        if sum(fractions.values()) > 1 + 1e-9:
            raise ValueError(f"{', '.join(fractions)} must sum to at most 1, got {sum(fractions.values())}")
        if not priority >= 0:
            raise ValueError(f"priority must not be negative, got {priority}")
        if capacity_per_task is not None and capacity_per_task < 1:
            raise ValueError(f"capacity_per_task must be at least 1 program, got {capacity_per_task}")
        for name, option in {"deduplicate": deduplicate, "multiplicity": multiplicity}.items():
            if option not in ("text", "program"):
                raise ValueError(f"{name} must be 'text' or 'program', got {option!r}")
        if deduplicate == multiplicity == "program":
            raise ValueError(
                "multiplicity='program' shares rewards among a program's texts, of which"
                " deduplicate='program' keeps one: choose one of the two"
            )
        self.capacity = capacity
        self.replay_fraction = replay_fraction
        self.priority = priority
        self.structure_fraction = structure_fraction
        self.uniform_fraction = uniform_fraction
        self.capacity_per_task = capacity_per_task
        self.deduplicate = deduplicate
        self.min_edit_distance = min_edit_distance
        self.multiplicity = multiplicity
        self.prompts, self.prior_prompts = {}, {}
        self.task_weights: dict[int, float] = {}
        self.on_policy = False
        self.added = 0
        self.duplicates = 0
        self._entries = Entries()
        self._recent: deque[Trajectory] = deque(maxlen=recent)
        self._serial = 0
        self._prioritised: Float[np.ndarray, " entries"] | None = None
        self._balanced: Float[np.ndarray, " entries"] | None = None
        self._index()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, item: Trajectory) -> bool:
        return key_of(item) in self._rows

    @property
    def trajectories(self) -> list[Trajectory]:
        """Every stored trajectory, in the order of insertion."""
        return self._entries.get(np.argsort(self._entries.serial).tolist())

    def weigh_tasks(self, weights: Mapping[int, float]) -> None:
        """Sets how often tasks are drawn by priority and by structure, relative to the others.

        Uniform and recent draws follow what was sampled.

        Args:
            weights: Task index to weight; 1 for all others.

        Raises:
            ValueError: If a weight is not above 0.
        """
        for index, weight in weights.items():
            if not 0 < weight < math.inf:
                raise ValueError(f"weights must be above 0 and finite, got {weight} for task {index}")
        self.task_weights = dict(weights)
        self._prioritised = self._balanced = None

    def add(self, trajectory: Trajectory, pinned: bool = False) -> bool:
        """Adds a trajectory.

        Args:
            trajectory: The program, of a registered task.
            pinned: It never makes room for others and is no recent sample: a demonstration.

        Returns:
            Whether it was new. A known text joins the recent samples again, and the newest score that is
            settled holds wherever the text is. A program that `deduplicate` or `min_edit_distance` takes for
            a known one replaces it if its log reward is higher.

        Raises:
            ValueError: If its task has no prompt, it has no token, a number is not finite, or it is pinned
                and the buffer is full of pinned ones.
        """
        check_trajectory(trajectory, self.prompts, self._entries.num_parts if len(self) else None)
        if not pinned:
            self.added += 1
            self._recent.append(self._best_known(trajectory))
        new = self._insert(trajectory, pinned)
        self.duplicates += not (new or pinned)
        return new

    def merge(self, trajectories: Iterable[Trajectory]) -> None:
        """Stores programs that other processes sampled; they are neither samples nor recent ones of this one.

        Args:
            trajectories: The programs, of registered tasks.

        Raises:
            ValueError: As `add`.
        """
        for trajectory in trajectories:
            check_trajectory(trajectory, self.prompts, self._entries.num_parts if len(self) else None)
            self._insert(trajectory, pinned=False)

    def since(self, serial: int) -> list[Trajectory]:
        """Stored programs that came in when `serial` was the next number, or later, but no pinned ones.

        Args:
            serial: What `next_serial` was.
        """
        rows = np.flatnonzero((self._entries.serial >= serial) & ~self._entries.pinned)
        return self._entries.get(rows[np.argsort(self._entries.serial[rows])].tolist())

    @property
    def next_serial(self) -> int:
        """Number of the next program that is stored; numbers rise in the order of insertion."""
        return self._serial

    @property
    def recent(self) -> list[Trajectory]:
        """The most recent samples, the oldest first."""
        return list(self._recent)

    def begin(self, recent: Iterable[Trajectory] = (), added: int = 0, duplicates: int = 0) -> None:
        """Empties the buffer, but for prompts, and sets its recent samples and counts; numbering goes on.

        Args:
            recent: The most recent samples, the oldest first.
            added: Samples so far.
            duplicates: How many of these samples were known.
        """
        self._entries = Entries()
        self._recent = deque(recent, maxlen=self._recent.maxlen)
        self.added, self.duplicates = added, duplicates
        self._index()

    def start_round(self) -> None:
        """Forgets which samples were recent, so that the next ones to come in are the only recent ones."""
        self._recent.clear()

    def sample(self, size: int, generator: np.random.Generator) -> list[Trajectory]:
        """Draws a batch with replacement; with `on_policy` recent samples, each as often as any other.

        Args:
            size: Number of trajectories.
            generator: Source of randomness; nothing else is used.

        Raises:
            LookupError: If the buffer is empty.
        """
        if not len(self):
            raise LookupError(
                "the replay buffer is empty: ProgramScoring fills it before training starts, but not for"
                " Lightning's Tuner, which runs without callbacks; fill it first, by fit or by add"
            )
        if self.on_policy:
            return self._seen(even_draw(self._recent, size, generator))
        counts = generator.multinomial(size, self._mixture())
        rows: list[int] = []
        if counts[0]:
            rows += generator.choice(len(self), counts[0], p=self._by_priority()).tolist()
        if counts[1]:
            rows += generator.choice(len(self), counts[1], p=self._by_structure()).tolist()
        if counts[2]:
            rows += generator.integers(len(self), size=counts[2]).tolist()
        recent = generator.integers(len(self._recent), size=counts[3]).tolist() if counts[3] else []
        return self._seen(self._entries.get(rows) + [self._recent[i] for i in recent])

    def draw_valid(self, task_index: int, number: int, generator: np.random.Generator) -> list[Trajectory]:
        """Draws programs of one task by reward priority among those that have a structure.

        Args:
            task_index: Which task the programs are of.
            number: How many programs are drawn, with replacement.
            generator: Source of randomness; not used if there is no such program.
        """
        entries = self._entries
        valid = np.array([bool(name) for name in entries.structure], dtype=np.bool_)
        rows = np.flatnonzero(valid & (entries.task == task_index))
        if not len(rows):
            return []
        priorities = rank_priorities(entries.log_reward[rows], entries.task[rows], self.priority)
        return entries.get(generator.choice(rows, number, p=priorities).tolist())

    def log_num_texts(self, task_index: int, canonical: str) -> float:
        """Log of the number of stored texts of a program, 0 if rewards belong to texts or none is stored."""
        if self.multiplicity == "text" or not canonical:
            return 0.0
        return math.log(max(1, self._num_texts[task_index, canonical]))

    def update_rewards(
        self,
        blend: Callable[
            [Float[np.ndarray, "entries parts"], Float[np.ndarray, " entries"], Int[np.ndarray, " entries"]],
            Float[np.ndarray, " entries"],
        ],
    ) -> None:
        """Blends every log reward anew from its untempered parts.

        Args:
            blend: From parts, reference log-probabilities and tasks to log rewards, in nats.
        """
        entries, recent = self._entries, list(self._recent)
        if len(entries):
            entries.log_reward[:] = blend(entries.parts, entries.log_probs[:, 0], entries.task)
        if recent:
            parts = np.array([item.parts for item in recent], dtype=np.float64).reshape(len(recent), -1)
            tasks = np.array([item.task_index for item in recent])
            values = blend(parts, np.array([item.reference_log_prob for item in recent]), tasks)
            pairs = zip(recent, values.tolist(), strict=True)
            self._recent.clear()
            self._recent.extend(item._replace(log_reward=value) for item, value in pairs)
        self._prioritised = None

    def contents(self, step: int) -> Contents:
        """Counts of what is stored, for `composition`.

        Args:
            step: The training step, from which ages are counted.
        """
        return count_contents(self._entries, step, self.added, self.duplicates)

    def composition(self, step: int) -> dict[str, float]:
        """What is stored; see `replay.contents.composition`.

        Args:
            step: The training step, from which ages are counted.
        """
        return composition([self.contents(step)])

    def state_dict(self) -> dict[str, Any]:
        """Everything in tensors and primitive types, so that `torch.load(weights_only=True)` reads it."""
        return {
            "format": FORMAT,
            **pack(self._entries, list(self._recent)),
            **self.prompts_state(),
            "added": self.added,
            "duplicates": self.duplicates,
            "next_serial": self._serial,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` saved.

        Raises:
            ValueError: If the state is of another format, or holds more programs than the capacity.
        """
        check_format(state)
        if state["entries"] > self.capacity:
            raise ValueError(
                f"capacity must be at least the {state['entries']} programs of the state, got {self.capacity}"
            )
        self._entries, recent = unpack(state)
        self.prompts, self.prior_prompts = {}, {}
        self.take_prompts(state)
        self._recent = deque(recent, maxlen=self._recent.maxlen)
        self.added = state["added"]
        self.duplicates = state["duplicates"]
        self._serial = state["next_serial"]
        self._index()

    # --- what is derived from the entries

    def _index(self) -> None:
        entries = self._entries
        self._rows = {key: row for row, key in enumerate(entries.keys)}
        self._num_texts: Counter[Form] = Counter()
        self._forms_row: dict[Form, int] = {}
        self._near = NearCopies(self.min_edit_distance) if self.min_edit_distance > 0 else None
        self._stored_of: Counter[int] = Counter()
        self._prioritised = self._balanced = None
        for row in range(len(entries)):
            self._note(row)

    def _note(self, row: int) -> None:
        """Takes a row into what finds it again."""
        key, canonical = self._entries.keys[row], self._entries.canonical[row]
        self._rows[key] = row
        self._stored_of[key[0]] += 1
        if canonical:
            self._num_texts[key[0], canonical] += 1
            self._forms_row[key[0], canonical] = row
        if self._near is not None:
            self._near.put(row, key)

    def _unnote(self, row: int) -> None:
        """The inverse of `_note`."""
        key, canonical = self._entries.keys[row], self._entries.canonical[row]
        del self._rows[key]
        self._stored_of[key[0]] -= 1
        if canonical:
            self._num_texts[key[0], canonical] -= 1
            if self._forms_row.get((key[0], canonical)) == row:
                del self._forms_row[key[0], canonical]
            if not self._num_texts[key[0], canonical]:
                del self._num_texts[key[0], canonical]
        if self._near is not None:
            self._near.remove(row, key)

    # --- adding

    def _insert(self, trajectory: Trajectory, pinned: bool) -> bool:
        key = key_of(trajectory)
        row = self._rows.get(key)
        if trajectory.settled:
            correct_scores(self._recent, trajectory)
        if row is not None:
            self._entries.step[row] = max(int(self._entries.step[row]), trajectory.step)
            self._entries.pinned[row] |= pinned
            (known,) = self._entries.get([row])
            if trajectory.settled and not (known.settled and same_score(known, trajectory)):
                pinned = bool(self._entries.pinned[row])
                self._overwrite(row, trajectory._replace(step=known.step), pinned)
            return False
        if self.deduplicate == "program" and trajectory.canonical:
            row = self._forms_row.get((trajectory.task_index, trajectory.canonical))
        if row is None and self._near is not None:
            row = self._near.nearest(key)
        if row is not None:
            self._settle(row, trajectory, pinned)
            return False
        self._store(trajectory, pinned)
        return True

    def _best_known(self, trajectory: Trajectory) -> Trajectory:
        """A sample, with the score of its text where its own was the machine's doing."""
        row = None if trajectory.settled else self._rows.get(key_of(trajectory))
        if row is None or not self._entries.settled[row]:
            return trajectory
        return with_score(trajectory, self._entries.get([row])[0])

    def _settle(self, row: int, trajectory: Trajectory, pinned: bool) -> None:
        """Of a stored program and a new one that counts as the same, keeps the better."""
        kept = bool(self._entries.pinned[row])
        if (pinned and not kept) or (
            pinned == kept and trajectory.log_reward > self._entries.log_reward[row]
        ):
            self._overwrite(row, trajectory, pinned)

    def _store(self, trajectory: Trajectory, pinned: bool) -> None:
        task = trajectory.task_index
        if self.capacity_per_task is not None and self._stored_of[task] >= self.capacity_per_task:
            row = self._entries.lowest(task)
        elif len(self) >= self.capacity:
            row = self._entries.lowest()
        else:
            row = self._entries.append(trajectory, self._serial, pinned)
            self._stored(row)
            return
        if row is not None and (pinned or trajectory.log_reward >= self._entries.log_reward[row]):
            self._overwrite(row, trajectory, pinned)
        elif pinned:
            raise ValueError("capacity must exceed the number of pinned programs: there is no room for more")

    def _overwrite(self, row: int, trajectory: Trajectory, pinned: bool) -> None:
        self._unnote(row)
        self._entries.put(row, trajectory, self._serial, pinned)
        self._stored(row)

    def _stored(self, row: int) -> None:
        self._serial += 1
        self._note(row)
        self._prioritised = self._balanced = None

    # --- drawing

    def _mixture(self) -> list[float]:
        """Shares of priority, structure, uniform and recent draws."""
        stored = [self.replay_fraction, self.structure_fraction, self.uniform_fraction]
        rest = max(0.0, 1 - sum(stored))
        if rest and not self._recent:
            return [stored[0] + rest, *stored[1:], 0.0]
        return [*stored, rest]

    def _by_priority(self) -> Float[np.ndarray, " entries"]:
        if self._prioritised is None:
            entries = self._entries
            # sorted anew: with 100,000 entries 10 ms a round, 0.4 % of its two steps
            self._prioritised = self._weighted(
                rank_priorities(entries.log_reward, entries.task, self.priority)
            )
        return self._prioritised

    def _by_structure(self) -> Float[np.ndarray, " entries"]:
        if self._balanced is None:
            entries = self._entries
            self._balanced = self._weighted(
                structure_probabilities(entries.group, entries.group_task, entries.members)
            )
        return self._balanced

    def _weighted(self, probabilities: Float[np.ndarray, " entries"]) -> Float[np.ndarray, " entries"]:
        """Probabilities from equal shares of the tasks, times their weights."""
        if not self.task_weights:
            return probabilities
        task = self._entries.task
        weights = np.ones(int(task.max()) + 1)
        for index, weight in self.task_weights.items():
            if index < len(weights):
                weights[index] = weight
        weighted: Float[np.ndarray, " entries"] = probabilities * weights[task]
        weighted /= weighted.sum()
        return weighted

    def _seen(self, drawn: list[Trajectory]) -> list[Trajectory]:
        """What an objective sees of drawn trajectories: shared rewards, where programs have them."""
        return drawn if self.multiplicity == "text" else [self._shared(item) for item in drawn]

    def _shared(self, item: Trajectory) -> Trajectory:
        shared = item.log_reward - self.log_num_texts(item.task_index, item.canonical)
        return item._replace(log_reward=shared)
