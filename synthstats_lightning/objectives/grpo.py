"""GRPO: a baseline that maximises the expected reward instead of matching a distribution."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_advantage
from synthstats_lightning.objectives.log_variance import log_variance_loss


def clipped_surrogate(
    log_ratio: Float[Tensor, "*shape"], advantage: Float[Tensor, "*shape"], clip: float
) -> Float[Tensor, "*shape"]:
    """PPO's pessimistic surrogate, to be maximised: min(ρ A, clamp(ρ, 1 − c, 1 + c) A), ρ = π / π_old."""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def grpo_loss(
    token_log_probs: Float[Tensor, "batch time"],
    behaviour_token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    advantage: Float[Tensor, " batch"],
    clip: float = 0.2,
    reference_token_log_probs: Float[Tensor, "batch time"] | None = None,
    kl_weight: float = 0.0,
    normalise_length: bool = True,
) -> Float[Tensor, ""]:
    r"""Group-relative policy optimisation (Shao et al. 2024, arXiv:2402.03300, eq. 3).

    $$ L = -\frac1B \sum_b \frac1{|y_b|} \sum_t \left[ \min(\rho_{bt} A_b, \mathrm{clip}(\rho_{bt}) A_b)
           - \kappa \left( e^{r_{bt}} - r_{bt} - 1 \right) \right] $$
    with ρ the ratio of the token's probabilities now and when sampled, and r = log π_ref − log π.

    Args:
        token_log_probs: log π of each token, in nats.
        behaviour_token_log_probs: The same when it was sampled.
        mask: True on program tokens.
        advantage: A of each program.
        clip: Bound c: probability ratios are clipped to [1 − c, 1 + c].
        reference_token_log_probs: log π_ref of each token; needed if `kl_weight` is not 0.
        kl_weight: Weight κ of the divergence from the reference policy.
        normalise_length: Divide by |y|; otherwise by the longest length (Liu et al. 2025, arXiv:2503.20783),
            which does not favour long failures.

    Returns:
        The scalar loss.
    """
    log_ratio = torch.where(mask, token_log_probs - behaviour_token_log_probs.detach(), 0.0)
    gain = clipped_surrogate(log_ratio, advantage[:, None].expand_as(log_ratio), clip)
    if kl_weight and reference_token_log_probs is not None:
        relative = torch.where(mask, reference_token_log_probs.detach() - token_log_probs, 0.0)
        gain = gain - kl_weight * (relative.exp() - relative - 1)
    length = mask.sum(1).clamp(min=1)
    divisor = length if normalise_length else length.max()
    return -(torch.where(mask, gain, 0.0).sum(1) / divisor).mean()


class GRPO(Objective):
    """Group-relative policy optimisation; a baseline, whose optimum is the best program and not p ∝ R.

    The group is the programs of one task in the batches of all ranks. They are freshly drawn, see
    `Objective.on_policy`; a program of which no token log-probabilities were kept counts as drawn just now.

    Args:
        clip: Width of the trust region, above 0.
        kl_weight: Weight of the divergence from the reference policy, 0 or more; costs a pass of it a step.
        scale_by_std: Divide advantages by the group's standard deviation.
        normalise_length: Divide each program's sum over tokens by its length.

    Raises:
        ValueError: If `clip` or `kl_weight` is out of range.
    """

    learns_log_z = False
    groups_span_ranks = True
    on_policy = True

    def __init__(
        self,
        clip: float = 0.2,
        kl_weight: float = 0.0,
        scale_by_std: bool = True,
        normalise_length: bool = True,
    ) -> None:
        super().__init__()
        if not clip > 0:
            raise ValueError(f"clip must be positive, got {clip}")
        if not kl_weight >= 0:
            raise ValueError(f"kl_weight must be 0 or more, got {kl_weight}")
        self.clip = clip
        self.kl_weight = kl_weight
        self.scale_by_std = scale_by_std
        self.normalise_length = normalise_length
        self.group_means = 3 if scale_by_std else 2
        self.needs = frozenset({"task_index", "token_log_probs", "mask", "behaviour_token_log_probs"})
        if kl_weight:
            self.needs |= {"reference_token_log_probs"}

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `grpo_loss`; the residual is that of the log-variance loss."""
        tokens = inputs["token_log_probs"]
        advantage = group_advantage(log_reward, inputs["task_index"], self.scale_by_std)
        mask, behaviour = inputs["mask"], inputs["behaviour_token_log_probs"]
        loss = grpo_loss(
            tokens,
            behaviour,
            mask,
            advantage,
            self.clip,
            inputs.get("reference_token_log_probs"),
            self.kl_weight,
            self.normalise_length,
        )
        _, residual = log_variance_loss(log_prob.detach(), log_reward, inputs["task_index"])
        clipped = mask & (((tokens.detach() - behaviour).exp() - 1).abs() > self.clip)
        return loss_output(
            loss,
            residual,
            advantage_std=advantage.std(correction=0),
            clipped_share=clipped.sum() / mask.sum().clamp(min=1),
        )
