"""GSPO: GRPO with one importance ratio a program."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_advantage
from synthstats_lightning.objectives.grpo import clipped_surrogate
from synthstats_lightning.objectives.log_variance import log_variance_loss


def gspo_loss(
    log_prob: Float[Tensor, " batch"],
    behaviour_log_prob: Float[Tensor, " batch"],
    length: Int[Tensor, " batch"],
    advantage: Float[Tensor, " batch"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    r"""Group sequence policy optimisation (Zheng et al. 2025, arXiv:2507.18071, eq. 5).

    $$ L = -\frac1B \sum_b \min(\rho_b A_b, \mathrm{clip}(\rho_b) A_b), \qquad
       \rho_b = \left(\frac{\pi(y_b)}{\pi_{old}(y_b)}\right)^{1/|y_b|} $$

    Args:
        log_prob: log π(y | x), in nats.
        behaviour_log_prob: log π_old(y | x), in nats.
        length: Number of tokens |y| of each program.
        advantage: A of each program.
        clip: Width of the trust region.

    Returns:
        The scalar loss.
    """
    log_ratio = (log_prob - behaviour_log_prob.detach()) / length.clamp(min=1)
    return -clipped_surrogate(log_ratio, advantage, clip).mean()


class GSPO(Objective):
    """Group sequence policy optimisation; a baseline, whose optimum is the best program and not p ∝ R.

    Args:
        clip: Width of the trust region of the length-normalised ratio, above 0; the paper has 3e-4 to 4e-4,
            for very long programs.
        scale_by_std: Divide advantages by the group's standard deviation.

    Raises:
        ValueError: If `clip` is not positive.
    """

    needs = frozenset({"task_index", "mask", "behaviour_log_prob"})
    learns_log_z = False
    groups_span_ranks = True
    on_policy = True

    def __init__(self, clip: float = 0.2, scale_by_std: bool = True) -> None:
        super().__init__()
        if not clip > 0:
            raise ValueError(f"clip must be positive, got {clip}")
        self.clip = clip
        self.scale_by_std = scale_by_std
        self.group_means = 3 if scale_by_std else 2

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `gspo_loss`; the residual is that of the log-variance loss."""
        advantage = group_advantage(log_reward, inputs["task_index"], self.scale_by_std)
        length = inputs["mask"].sum(1)
        behaviour = inputs["behaviour_log_prob"]
        loss = gspo_loss(log_prob, behaviour, length, advantage, self.clip)
        ratio = ((log_prob.detach() - behaviour) / length.clamp(min=1)).exp()
        clipped = ((ratio - 1).abs() > self.clip).to(loss.dtype).mean()
        _, residual = log_variance_loss(log_prob.detach(), log_reward, inputs["task_index"])
        return loss_output(loss, residual, clipped_share=clipped)
