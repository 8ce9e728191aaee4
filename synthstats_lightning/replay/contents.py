"""What one buffer, or the shards of several processes together, hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from synthstats_lightning.metrics.diversity import effective_number
from synthstats_lightning.replay.entries import Entries
from synthstats_lightning.runtime.distributed import added_up


class Contents(NamedTuple):
    """Counts of one buffer, which add up over buffers.

    Attributes:
        entries: How many programs are stored.
        pinned: Of them, those that never make room.
        structures: Task and structure to the number of stored programs.
        added: Samples that came in.
        duplicates: How many of these samples were known.
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
        entries: The table of stored programs.
        step: The training step, from which ages are counted.
        added: Samples that came in.
        duplicates: How many of these samples were known.
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
    total = added_up(buffers)
    if not total.entries:
        return {"entries": 0.0}
    counts = np.array(list(total.structures.values()), dtype=np.int64)
    return {
        "entries": float(total.entries),
        "pinned": float(total.pinned),
        "failed": 1 - float(counts.sum()) / total.entries,
        "duplicates": total.duplicates / max(1, total.added),
        "structures": float(len(counts)),
        "effective_structures": effective_number(counts),
        "age_mean": total.age_sum / total.entries,
        "age_max": float(max(part.age_max for part in buffers)),
    }
