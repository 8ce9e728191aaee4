"""RapTB: trajectory balance with rooted prefixes whose rewards are absorbed from what comes later."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.prefixes import (
    absorbed,
    last_prefix,
    reference_prefix_rewards,
    stop_potentials,
)
from synthstats_lightning.objectives.regression import SQUARE, Regression
from synthstats_lightning.objectives.trajectory_balance import trajectory_balance_loss


def rooted_prefix_loss(
    token_log_probs: Float[Tensor, "batch time"],
    stop_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    forced_stop: Bool[Tensor, " batch"],
    prefix_log_reward: Float[Tensor, "batch prefixes"],
    decay: float = 1.0,
    regression: Regression = SQUARE,
) -> Float[Tensor, ""]:
    r"""Loss of the sub-trajectories that start at the first prefix which may be stopped at.

    $$ \Delta_k = r_0 - \log q_0 + \sum_{t<k} \log p_t - r_k + \log q_k, \qquad
       L = \text{mean}_b \sum_k w_k \Delta_k^2 / \sum_k w_k, \quad w_k = \lambda^{k-1} $$
    O(T) windows, and no log Z: it cancels. The stop probabilities q are constants here, so that the many
    short windows cannot drive the length.

    Args:
        token_log_probs: log p, in nats.
        stop_log_probs: log q before each token; −inf where stopping is not allowed.
        mask: True on program tokens, which are at the front.
        forced_stop: Whether the program was cut at the length limit.
        prefix_log_reward: r, in nats, `[batch, time + 1]`.
        decay: λ in `(0, 1]`.
        regression: Loss of the residuals.

    Returns:
        The scalar loss in nats².
    """
    states = stop_potentials(token_log_probs, stop_log_probs.detach(), mask, forced_stop, prefix_log_reward)
    root = states.terminable.int().argmax(1, keepdim=True)
    index = torch.arange(states.value.shape[1], device=mask.device)
    counted = states.terminable & (index > root)
    weight = torch.where(counted, decay ** (index - root - 1).clamp(min=0).double(), 0.0)
    residual = torch.where(counted, states.value.gather(1, root) - states.value, 0.0)
    each = (weight * regression(residual)).sum(1) / weight.sum(1).clamp(min=1e-300)
    return each.mean().to(token_log_probs.dtype)


class RapTB(Objective):
    """Rooted absorbed prefix trajectory balance (Wang et al. 2026, arXiv:2603.00454).

    `L = L_TB + auxiliary_weight · L_rooted`: trajectory balance, which alone gives early tokens little credit
    and collapses to few prefixes, with a rooted residual at every prefix. Where the score of stopping early
    is not known, `prefix_score` is moved towards what the program goes on to earn ("absorbed"), the more so
    the nearer to its end. Known rewards are left alone, and with rewards known at every prefix both terms
    are zero exactly at π ∝ R; absorbed ones bias the second term, `auxiliary_weight` bounds by how much.

    Args:
        auxiliary_weight: η, 0 or more.
        decay: λ in `(0, 1]`: weight of a prefix relative to one that is a token shorter.
        absorption_decay: γ in `(0, 1]`: share absorbed at a prefix relative to one that is a token longer.
        max_share: Of the maximum, against the soft maximum, in what is absorbed; in `[0, 1]`.
        sharpness: Of the soft maximum, per nat, above 0.
        rewards: `"absorbed"`, or `"given"` where the batch has `prefix_log_reward` and `prefix_known`;
            unknown ones are absorbed there as well.
        prior_weight: Weight of the reference log-probability in the reward, which must be that of the run.
        prefix_score: Score part of the log reward of a failed program, in nats.
        regression: Loss of all residuals; the square by default.

    Raises:
        ValueError: If a value is not allowed.
    """

    def __init__(
        self,
        auxiliary_weight: float = 0.25,
        decay: float = 1.0,
        absorption_decay: float = 0.99,
        max_share: float = 0.5,
        sharpness: float = 5.0,
        rewards: Literal["absorbed", "given"] = "absorbed",
        prior_weight: float = 0.0,
        prefix_score: float = -25.0,
        regression: Regression | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= auxiliary_weight < float("inf"):
            raise ValueError(f"auxiliary_weight must be 0 or more, got {auxiliary_weight}")
        for name, value in {"decay": decay, "absorption_decay": absorption_decay}.items():
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {value}")
        if not 0 <= max_share <= 1:
            raise ValueError(f"max_share must be in [0, 1], got {max_share}")
        if not sharpness > 0:
            raise ValueError(f"sharpness must be positive, got {sharpness}")
        if rewards not in ("absorbed", "given"):
            raise ValueError(f"rewards must be 'absorbed' or 'given', got {rewards!r}")
        self.auxiliary_weight = auxiliary_weight
        self.decay = decay
        self.absorption_decay = absorption_decay
        self.max_share = max_share
        self.sharpness = sharpness
        self.rewards = rewards
        self.prior_weight = prior_weight
        self.prefix_score = prefix_score
        self.regression = regression
        self.needs = frozenset({"token_log_probs", "stop_log_probs", "mask", "forced_stop"})
        if rewards == "given":
            self.needs |= {"prefix_log_reward", "prefix_known"}
        if prior_weight:
            self.needs |= {"reference_token_log_probs", "reference_stop_log_probs"}

    def prefix_log_rewards(
        self, log_reward: Float[Tensor, " batch"], inputs: ObjectiveInputs
    ) -> Float[Tensor, "batch prefixes"]:
        """Log rewards of stopping at each prefix, absorbed where they are not known, in nats."""
        parts = reference_prefix_rewards(inputs, log_reward, self.prior_weight, self.prefix_score)
        prior, score, known = parts
        if self.rewards == "given":
            known = inputs["prefix_known"]
            score = torch.where(known, inputs["prefix_log_reward"] - prior, self.prefix_score)
        last = last_prefix(inputs["mask"], inputs["forced_stop"])
        return prior + absorbed(score, known, last, self.absorption_decay, self.max_share, self.sharpness)

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward`, `trajectory_balance_loss` and `rooted_prefix_loss`."""
        regression = self.regression or SQUARE
        loss, residual = trajectory_balance_loss(log_prob, log_reward, log_z, regression=regression)
        auxiliary = rooted_prefix_loss(
            inputs["token_log_probs"],
            inputs["stop_log_probs"],
            inputs["mask"],
            inputs["forced_stop"],
            self.prefix_log_rewards(log_reward, inputs),
            self.decay,
            regression,
        )
        return loss_output(loss + self.auxiliary_weight * auxiliary, residual, rooted_loss=auxiliary)
