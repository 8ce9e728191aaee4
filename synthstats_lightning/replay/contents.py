"""What one buffer, or the shards of several processes together, hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from synthstats_lightning.metrics.diversity import effective_number
from synthstats_lightning.replay.entries import Entries


class Contents(NamedTuple):
    """Counts of one buffer, which add up over buffers.

    Attributes:
        entries: Stored programs.
        pinned: Of them, those that never make room.
        structures: Task and structure to the number of stored programs.
        added: Samples that came in.
        duplicates: Of them, those that were known.
        age_sum: Training steps since each stored program was sampled last, summed.
        age_max: The largest of them.
    """

    entries: int
    pinned: int
    structures: Mapping[tuple[int, str], int]
    added: int
    duplicates: int
    age_sum: int
    age_max: int


def count_contents(entries: Entries, step: int, added: int, duplicates: int) -> Contents:
    """Counts of one table.

    Args:
        entries: The table.
        step: The training step, from which ages are counted.
        added: Samples that came in.
        duplicates: Of them, those that were known.
    """
    age = step - entries.step
    valid = [bool(name) for name in entries.structure]
    names = [
        (task, name)
        for task, name, known in zip(entries.task.tolist(), entries.structure, valid, strict=True)
        if known
    ]
    return Contents(
        entries=len(entries),
        pinned=int(entries.pinned.sum()),
        structures=dict(Counter(names)),
        added=added,
        duplicates=duplicates,
        age_sum=int(age.sum()),
        age_max=int(age.max()) if len(entries) else 0,
    )


def composition(buffers: Sequence[Contents]) -> dict[str, float]:
    """What buffers of one or several processes hold together.

    Args:
        buffers: Counts of each.

    Returns:
        `entries` and `pinned` (programs), `failed` (share without a structure), `duplicates` (share of what
        was added), `structures` and `effective_structures` (exponential of their entropy over stored
        programs), `age_mean` and `age_max` (training steps since a program was sampled last). Nothing but
        `entries` of empty buffers.
    """
    entries = sum(part.entries for part in buffers)
    if not entries:
        return {"entries": 0.0}
    structures: Counter[tuple[int, str]] = Counter()
    for part in buffers:
        structures.update(part.structures)
    counts = np.array(list(structures.values()), dtype=np.int64)
    return {
        "entries": float(entries),
        "pinned": float(sum(part.pinned for part in buffers)),
        "failed": 1 - float(counts.sum()) / entries,
        "duplicates": sum(part.duplicates for part in buffers) / max(1, sum(part.added for part in buffers)),
        "structures": float(len(counts)),
        "effective_structures": effective_number(counts),
        "age_mean": sum(part.age_sum for part in buffers) / entries,
        "age_max": float(max(part.age_max for part in buffers)),
    }
