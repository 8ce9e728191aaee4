"""REINFORCE with a leave-one-out baseline."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_sums
from synthstats_lightning.objectives.grpo import clipped_surrogate
from synthstats_lightning.objectives.log_variance import log_variance_loss


def leave_one_out_advantage(
    reward: Float[Tensor, " batch"], group: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Reward minus the mean reward of the *other* rows of its group; 0 for a row that is alone, detached.

    The group's rows are those of all ranks.
    """
    total, count = group_sums(reward, group, across_ranks=True)
    return (count * reward.detach() - total) / (count - 1).clamp(min=1)


def rloo_loss(
    log_prob: Float[Tensor, " batch"],
    behaviour_log_prob: Float[Tensor, " batch"],
    reward: Float[Tensor, " batch"],
    group: Int[Tensor, " batch"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740, eq. 8).

    The loss is −mean(min(ρ A, clip(ρ) A)), with ρ the ratio of the program's probabilities now and when it
    was sampled. On freshly sampled programs ρ is 1 and the gradient that of −mean(A log π): minus that of the
    expected reward.

    Args:
        log_prob: log π(y | x), in nats.
        behaviour_log_prob: The same when it was sampled.
        reward: Reward of each program.
        group: Task of each program.
        clip: Width of the trust region.

    Returns:
        The scalar loss.
    """
    advantage = leave_one_out_advantage(reward, group)
    return -clipped_surrogate(log_prob - behaviour_log_prob.detach(), advantage, clip).mean()


class RLOO(Objective):
    """REINFORCE leave-one-out; a baseline, whose optimum without `kl_weight` is the best program.

    With `kl_weight` κ the reward is log R − κ (log π − log π_ref), whose expectation is greatest at
    π ∝ π_ref R^(1/κ).

    Args:
        kl_weight: Weight of the divergence from the reference policy, 0 or more.
        clip: Width of the trust region of the program's ratio, above 0.

    Raises:
        ValueError: If `kl_weight` or `clip` is out of range.
    """

    learns_log_z = False
    groups_span_ranks = True
    group_means = 2
    on_policy = True

    def __init__(self, kl_weight: float = 0.0, clip: float = 0.2) -> None:
        super().__init__()
        if not kl_weight >= 0:
            raise ValueError(f"kl_weight must be 0 or more, got {kl_weight}")
        if not clip > 0:
            raise ValueError(f"clip must be positive, got {clip}")
        self.kl_weight = kl_weight
        self.clip = clip
        self.needs = frozenset({"task_index", "behaviour_log_prob"})
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
        group, reward, behaviour = inputs["task_index"], log_reward, inputs["behaviour_log_prob"]
        if self.kl_weight:
            reward = reward - self.kl_weight * (behaviour - inputs["reference_log_prob"])
        log_target = log_prob.detach() + self.log_target_ratio(log_prob.detach(), log_reward, inputs)
        _, residual = log_variance_loss(log_prob.detach(), log_target, group)
        loss = rloo_loss(log_prob, behaviour, reward, group, self.clip)
        clipped = ((log_prob.detach() - behaviour).exp() - 1).abs() > self.clip
        return loss_output(loss, residual, clipped_share=clipped.to(loss.dtype).mean())
