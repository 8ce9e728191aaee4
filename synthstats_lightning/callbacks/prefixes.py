"""Prefixes of good programs, for the policy to write other ends."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.policy.sampling import stream_seed
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.runtime.streams import Stream

Prefix = tuple[int, tuple[int, ...]]
"""Task index and first tokens."""


def draw_prefixes(
    buffer: ReplayBuffer,
    num_tasks: int,
    number: int,
    module: SamplingModule,
    settings: SamplingSettings,
    place: int,
) -> list[Prefix]:
    """Draws stored programs by reward priority and cuts each at a uniformly drawn token.

    Args:
        buffer: What programs come from; those that failed are left out.
        num_tasks: Number of tasks of the run.
        number: Per task; fewer where the drawn programs are too short to cut.
        module: Which writes the other ends, and no stop before its `min_new_tokens`: a prefix has as many;
            at least one token is kept, and at least one is cut off.
        settings: How the other ends are sampled; no prefix reaches their `max_new_tokens`.
        place: Number of the sampling round.
    """
    stream = Stream.PREFIX_RESAMPLING.at(place)
    generator = np.random.default_rng(stream_seed(module.seed, module.global_rank, stream))
    prefixes: list[Prefix] = []
    shortest = max(1, module.sampling.min_new_tokens)
    for task_index in range(num_tasks):
        for item in buffer.draw_valid(task_index, number, generator):
            if len(item.program_ids) > shortest:
                cut = int(generator.integers(shortest, len(item.program_ids)))
                prefixes.append((task_index, item.program_ids[:cut]))
    return [prefix for prefix in prefixes if len(prefix[1]) < settings.max_new_tokens]
