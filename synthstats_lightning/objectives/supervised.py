"""Supervised objective: imitate given programs."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.log_variance import log_variance_loss


def supervised_loss(
    token_log_probs: Float[Tensor, "batch time"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, ""]:
    r"""Mean negative log-likelihood per program token.

    $$ -\frac{\sum_{b,t} m_{bt} \log p(y_{bt} \mid y_{b,<t}, x_b)}{\sum_{b,t} m_{bt}} $$

    Args:
        token_log_probs: Log-probability of each token in nats; masked entries may hold anything, NaN too.
        mask: True where a token counts (program tokens and the stop token).

    Returns:
        The loss in nats per token; zero, with zero gradient, where no token counts.
    """
    counted = token_log_probs.masked_fill(~mask, 0.0)
    return -counted.sum() / mask.sum().clamp(min=1)


class Supervised(Objective):
    """Supervised fine-tuning (SFT): imitates the batch's programs, whatever their reward.

    Meant for demonstrations. On the policy's own samples it has no target but what was sampled, unless
    `min_log_reward` leaves the good ones only.

    Args:
        min_log_reward: Programs below it are not imitated, in nats; `None` imitates all.
    """

    learns_log_z = False
    groups_span_ranks = True

    def __init__(self, min_log_reward: float | None = None) -> None:
        super().__init__()
        self.min_log_reward = min_log_reward
        self.needs = frozenset({"task_index", "token_log_probs", "mask"})

    def imitated(
        self, log_reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"]
    ) -> Bool[Tensor, " batch"]:
        """Which programs of a batch are imitated."""
        return log_reward >= (-torch.inf if self.min_log_reward is None else self.min_log_reward)

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `supervised_loss`; the residual is that of the log-variance loss."""
        imitated = self.imitated(log_reward, inputs["task_index"])
        loss = supervised_loss(inputs["token_log_probs"], inputs["mask"] & imitated[:, None])
        _, residual = log_variance_loss(log_prob.detach(), log_reward, inputs["task_index"])
        return loss_output(loss, residual, imitated_share=imitated.to(loss.dtype).mean())
