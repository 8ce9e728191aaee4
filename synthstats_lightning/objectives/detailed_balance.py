"""Detailed balance: every token by itself, by learned flows."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.regression import SQUARE, Regression
from synthstats_lightning.objectives.sub_trajectory_balance import SubTrajectoryBalance, flow_potentials


def detailed_balance_loss(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    log_flow: Float[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    weighting: Literal["batch", "within"] = "batch",
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    r"""Detailed balance loss of a batch (Bengio et al. 2021, arXiv:2111.09266, eq. 17).

    $$ \delta_t = \log F(s_t) + \log \pi(y_{t+1} \mid s_t) - \log F(s_{t+1}) $$
    with F(empty prefix) = Z and F(whole program) = R; the loss is the mean of δ².

    Args:
        token_log_probs: log π of each token, in nats.
        mask: True on program tokens, which are at the front.
        log_flow: Log flow of the prefix before each token, in nats; that of the empty prefix is not read.
        log_reward: log R of each program, in nats.
        log_z: log Z of each program's task, in nats.
        weighting: `"batch"` for the mean over all tokens, `"within"` for the mean of the programs' means.
        regression: Loss of the residuals.

    Returns:
        The scalar loss in nats² and the whole trajectory's residual in nats, `[batch]`.
    """
    potential = flow_potentials(token_log_probs, mask, log_flow, log_reward, log_z)
    each = regression(torch.where(mask, potential[:, :-1] - potential[:, 1:], 0.0))
    length = mask.sum(1)
    if weighting == "within":
        loss = (each.sum(1) / length.clamp(min=1)).mean()
    else:
        loss = each.sum() / length.sum().clamp(min=1)
    residual = potential[:, 0] - potential.gather(1, length[:, None])[:, 0]
    return loss.to(log_reward.dtype), residual.to(log_reward.dtype)


class DetailedBalance(SubTrajectoryBalance):
    """Detailed balance with a learned flow head, forward-looking if asked for.

    Args:
        weighting: `"batch"`: every token counts the same; `"within"`: every program does.
        forward_looking_weight: Weight of the reference log-probability as the part of the log reward that is
            known at every prefix; 0 for a flow head on its own.
        regression: Loss of the residuals; the square by default.

    Raises:
        ValueError: If `weighting` is not allowed.
    """

    def __init__(
        self,
        weighting: Literal["batch", "within"] = "batch",
        forward_looking_weight: float = 0.0,
        regression: Regression | None = None,
    ) -> None:
        if weighting not in ("batch", "within"):
            raise ValueError(f"weighting must be 'batch' or 'within', got {weighting!r}")
        super().__init__(1.0, weighting, forward_looking_weight, regression)
        self.token_weighting: Literal["batch", "within"] = weighting

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `detailed_balance_loss`."""
        loss, residual = detailed_balance_loss(
            inputs["token_log_probs"],
            inputs["mask"],
            self.log_flow(inputs),
            log_reward,
            log_z,
            self.token_weighting,
            self.regression or SQUARE,
        )
        return loss_output(loss, residual)
