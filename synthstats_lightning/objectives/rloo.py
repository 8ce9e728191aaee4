"""REINFORCE with a leave-one-out baseline."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_sums
from synthstats_lightning.objectives.log_variance import log_variance_loss


def leave_one_out_advantage(
    reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Reward minus the mean reward of the *other* rows of its group; 0 for a row that is alone, detached."""
    total, count = group_sums(reward, group)
    return (count * reward.detach() - total) / (count - 1).clamp(min=1)


def rloo_loss(
    log_prob: Float[Tensor, " batch"], reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740, eq. 8).

    The loss −mean(A log π) has, on freshly sampled programs, minus the gradient of the expected reward.

    Args:
        log_prob: log π(y | x), in nats.
        reward: Reward of each program.
        group: Task of each program.

    Returns:
        The scalar loss.
    """
    return -(leave_one_out_advantage(reward, group) * log_prob).mean()


class RLOO(Objective):
    """REINFORCE leave-one-out; a baseline, whose optimum without `kl_weight` is the best program.

    With `kl_weight` κ the reward is log R − κ (log π − log π_ref), whose expectation is greatest at
    π ∝ π_ref R^(1/κ).

    Args:
        kl_weight: Weight of the divergence from the reference policy, 0 or more.

    Raises:
        ValueError: If `kl_weight` is negative.
    """

    learns_log_z = False
    groups_span_ranks = True

    def __init__(self, kl_weight: float = 0.0) -> None:
        super().__init__()
        if not kl_weight >= 0:
            raise ValueError(f"kl_weight must be 0 or more, got {kl_weight}")
        self.kl_weight = kl_weight
        self.needs = frozenset({"task_index"})
        if kl_weight:
            self.needs |= {"reference_log_prob"}

    def log_target_ratio(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> Float[Tensor, " batch"]:
        """Of π_ref R^(1/κ), see `Objective.log_target_ratio`; without κ there is no target but the best."""
        if not self.kl_weight:
            return log_reward - log_prob
        return inputs["reference_log_prob"] + log_reward / self.kl_weight - log_prob

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `rloo_loss`; the residual is that of the log-variance loss."""
        group, reward = inputs["task_index"], log_reward
        if self.kl_weight:
            reward = reward - self.kl_weight * (log_prob.detach() - inputs["reference_log_prob"])
        log_target = log_prob.detach() + self.log_target_ratio(log_prob.detach(), log_reward, inputs)
        _, residual = log_variance_loss(log_prob.detach(), log_target, group)
        return loss_output(rloo_loss(log_prob, reward, group), residual)
