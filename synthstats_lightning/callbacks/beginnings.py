"""Beginnings of good programs, for the policy to write other ends."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.replay import ReplayBuffer

Beginning = tuple[int, tuple[int, ...]]
"""Task index and first tokens."""


def draw_beginnings(
    buffer: ReplayBuffer, num_tasks: int, number: int, min_tokens: int, generator: np.random.Generator
) -> list[Beginning]:
    """Draws stored programs by reward priority and cuts each at a uniformly drawn token.

    Args:
        buffer: What programs come from; those that failed are left out.
        num_tasks: Of the run.
        number: Per task; fewer where the drawn programs are too short to cut.
        min_tokens: Fewest tokens of a beginning; at least one is kept, and at least one is cut off.
        generator: Source of randomness.
    """
    beginnings: list[Beginning] = []
    shortest = max(1, min_tokens)
    for task_index in range(num_tasks):
        for item in buffer.draw_valid(task_index, number, generator):
            if len(item.program_ids) > shortest:
                cut = int(generator.integers(shortest, len(item.program_ids)))
                beginnings.append((task_index, item.program_ids[:cut]))
    return beginnings
