"""Equal chances for every structure."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def structure_probabilities(
    group: Int[np.ndarray, " entries"],
    group_task: Int[np.ndarray, " groups"],
    members: Int[np.ndarray, " groups"],
) -> Float[np.ndarray, " entries"]:
    """Draws a task, then one of its structures, then one of its programs, each time uniformly.

    A structure that the policy has written a thousand times and one that it has written once are drawn
    equally often. Programs without a structure (they failed) are one group of their task.

    Args:
        group: Number of each entry's (task, structure) pair.
        group_task: Task of each such pair.
        members: Entries of each such pair, possibly none.

    Returns:
        Probabilities that sum to 1.
    """
    structures = np.bincount(group_task[members > 0], minlength=int(group_task.max()) + 1)
    # groups without members may be of tasks without structures; nothing is drawn from them
    shares = np.count_nonzero(structures) * np.maximum(structures[group_task], 1) * np.maximum(members, 1)
    weight = 1.0 / shares
    probabilities: Float[np.ndarray, " entries"] = weight[group]
    return probabilities
