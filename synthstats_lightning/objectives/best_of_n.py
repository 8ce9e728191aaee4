"""Best of N: imitate the best program of each group of N."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.objectives.supervised import Supervised


def best_of_n(
    log_reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"], n: int
) -> Bool[Tensor, " batch"]:
    """Which rows are the best of their N.

    The rows of a group are taken N at a time in the order of the batch; the rest of a group, if there is one,
    is a smaller N. Of equal rewards the first counts.

    Args:
        log_reward: Log reward of each program, in nats.
        group: Task of each program.
        n: N, at least 1.

    Returns:
        True once for each N rows.
    """
    same = group[:, None] == group
    earlier = torch.ones_like(same).tril(-1)
    block = (same & earlier).sum(1) // n
    together = same & (block[:, None] == block)
    better = (log_reward > log_reward[:, None]) | ((log_reward == log_reward[:, None]) & earlier)
    return ~(together & better).any(1)


class BestOfN(Supervised):
    """Fine-tuning on the best of every N programs (RAFT; Dong et al. 2023, arXiv:2304.06767).

    A baseline: every round moves the policy towards the distribution of the best of N of its own programs,
    and in the limit to the best program alone.

    Args:
        n: Programs of a task that compete, at least 1.

    Raises:
        ValueError: If `n` is less than 1.
    """

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        self.n = n

    def imitated(
        self, log_reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"]
    ) -> Bool[Tensor, " batch"]:
        """The best of every `n` programs of a task."""
        return best_of_n(log_reward, group, self.n)
