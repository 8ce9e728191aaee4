"""Prefixes of good programs, for the policy to write other ends."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.replay import ReplayBuffer

Prefix = tuple[int, tuple[int, ...]]
"""Task index and first tokens."""


def draw_prefixes(
    buffer: ReplayBuffer,
    num_tasks: int,
    number: int,
    min_tokens: int,
    max_tokens: int,
    seed: int,
) -> list[Prefix]:
    """Draws stored programs by reward priority and cuts each at a uniformly drawn token.

    Args:
        buffer: What programs come from; those that failed are left out.
        num_tasks: Number of tasks of the run.
        number: Per task; fewer where the drawn programs are too short to cut.
        min_tokens: Fewest tokens of a prefix; at least one is kept, and at least one is cut off.
        max_tokens: Tokens that no prefix reaches.
        seed: Of what is drawn and where it is cut.
    """
    generator = np.random.default_rng(seed)
    prefixes: list[Prefix] = []
    shortest = max(1, min_tokens)
    for task_index in range(num_tasks):
        for item in buffer.draw_valid(task_index, number, generator):
            if len(item.program_ids) > shortest:
                cut = int(generator.integers(shortest, len(item.program_ids)))
                prefixes.append((task_index, item.program_ids[:cut]))
    return [prefix for prefix in prefixes if len(prefix[1]) < max_tokens]
