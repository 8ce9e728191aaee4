"""Priorities by which stored programs are replayed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def rank_priorities(
    log_rewards: Float[np.ndarray, " entries"], task_index: Int[np.ndarray, " entries"], exponent: float
) -> Float[np.ndarray, " entries"]:
    """Rank-based priorities, each task having the same total (Schaul et al. 2016, arXiv 1511.05952, 3.3).

    The entry of rank r within its task (1 = highest log reward) has priority r ** -exponent. Ranks rather
    than rewards, because log rewards of one task may span hundreds of nats.

    Args:
        log_rewards: Log reward of each entry, in nats.
        task_index: The task that each entry belongs to.
        exponent: 0 is uniform within a task.

    Returns:
        Probabilities that sum to 1.
    """
    priorities = np.empty(len(log_rewards))
    tasks = np.unique(task_index)
    for task in tasks:
        members = np.flatnonzero(task_index == task)
        ranks = np.empty(len(members))
        ranks[np.argsort(-log_rewards[members], kind="stable")] = np.arange(1, len(members) + 1)
        weights = ranks**-exponent
        priorities[members] = weights / weights.sum() / len(tasks)
    return priorities
