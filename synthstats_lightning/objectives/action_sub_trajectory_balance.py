"""Sub-trajectory balance between the actions of a multi-turn episode."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.regression import SQUARE, Regression
from synthstats_lightning.objectives.sub_trajectory_balance import check_windows
from synthstats_lightning.objectives.trajectory_balance import trajectory_balance_loss
from synthstats_lightning.objectives.windows import Weighting, keep_states, window_loss


def action_potentials(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    action_ends: Bool[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    log_flow: Float[Tensor, "batch time"] | None = None,
) -> tuple[Float[Tensor, "batch states"], Int[Tensor, " batch"]]:
    """Per boundary between actions, its log flow minus the log-probability of reaching it.

    Boundaries are the start, the end of each action and the end of the episode. Their log flows go from
    log Z to log R, in equal steps or as learned.

    Args:
        token_log_probs: log π of each token, in nats. Tokens of the environment are no tokens of the policy
            and must be left out or have log-probability 0.
        mask: True on the episode's tokens, which are at the front.
        action_ends: True on the last token of each action.
        log_reward: log R of each episode, in nats.
        log_z: log Z of each episode's task, in nats.
        log_flow: Learned log flow before each token, in nats; `None` for equal steps.

    Returns:
        Potentials, boundaries at the front of each row, `[batch, time + 1]` in float64, and the number of
        actions, `[batch]`.
    """
    length = mask.sum(1, keepdim=True)
    index = torch.arange(mask.shape[1] + 1, device=mask.device)
    ends = torch.nn.functional.pad(action_ends & mask, (1, 0))
    kept = (ends & (index < length)) | (index == 0) | (index == length)
    reached = torch.nn.functional.pad(token_log_probs.masked_fill(~mask, 0.0).double().cumsum(1), (1, 0))
    actions = kept.sum(1, keepdim=True) - 1
    if log_flow is None:
        share = (kept.cumsum(1) - 1).double() / actions.clamp(min=1)
        flow = torch.lerp(log_z[:, None].double(), log_reward[:, None].double(), share)
    else:
        flow = torch.cat([log_z[:, None], log_flow[:, 1:], log_reward[:, None]], 1).double()
    flow = torch.where(index < length, flow, log_reward[:, None].double())
    potential, _ = keep_states(flow - reached, kept)
    return potential, actions[:, 0]


class ActionSubTrajectoryBalance(Objective):
    """Trajectory balance, and SubTB between the boundaries of actions.

    `L = L_TB + auxiliary_weight · SubTB(boundaries)`, after Madan et al. 2022 (arXiv:2209.12782) with the
    actions of an episode in place of single steps. Programs are episodes of one turn, whose actions are
    their lines.

    With `potentials="learned"` both terms are zero exactly at π = R / Z. With `"linear"` each action should
    earn an equal share of log R − log Z, which a target only does if its actions are equally surprising: a
    dense signal that costs no head, with a bias that `auxiliary_weight` bounds.

    With `information` the learned log flows are what comes on top of a potential, as in forward-looking flow
    networks (Pan et al. 2023, arXiv:2302.01687): `log F(s) = log F_learned(s) + information · I(s)`, where
    `I(s)` is the expected information gain of the experiments so far, about the environment's parameters. An
    experiment is credited when it is made. The potential is a function of the state that counts neither at
    the start nor at the end, so the target is the same.

    Args:
        potentials: Log flows of inner boundaries: `"linear"` or `"learned"`.
        auxiliary_weight: Weight of the second term, 0 or more.
        decay: λ in `(0, 1]`, per action.
        weighting: Windows' weights sum to 1 `"within"` each trajectory or over the `"batch"`, or windows are
            averaged by `"length"`; see `window_weights`.
        regression: Loss of all residuals; the square by default.
        information: Weight of the expected information gain of experiments, in nats of log flow a nat; 0 or
            more, and 0 with `"linear"`. Needs episodes.

    Raises:
        ValueError: If a value is not allowed.
    """

    def __init__(
        self,
        potentials: Literal["linear", "learned"] = "learned",
        auxiliary_weight: float = 0.1,
        decay: float = 0.9,
        weighting: Weighting = "within",
        regression: Regression | None = None,
        information: float = 0.0,
    ) -> None:
        super().__init__()
        if potentials not in ("linear", "learned"):
            raise ValueError(f"potentials must be 'linear' or 'learned', got {potentials!r}")
        if not 0 <= auxiliary_weight < float("inf"):
            raise ValueError(f"auxiliary_weight must be 0 or more, got {auxiliary_weight}")
        if not 0 <= information < float("inf"):
            raise ValueError(f"information must be 0 or more, got {information}")
        if information and potentials != "learned":
            raise ValueError(
                f"information must be 0 with potentials {potentials!r}, got {information}: it would change"
                " the target"
            )
        check_windows(decay, weighting)
        self.potentials = potentials
        self.auxiliary_weight = auxiliary_weight
        self.decay = decay
        self.weighting: Weighting = weighting
        self.regression = regression
        self.information = information
        self.needs = frozenset({"token_log_probs", "mask", "action_ends"})
        if potentials == "learned":
            self.needs |= {"log_flow"}
        if information:
            self.needs |= {"information"}

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `action_potentials`."""
        regression = self.regression or SQUARE
        log_flow = inputs["log_flow"] if self.potentials == "learned" else None
        if log_flow is not None and self.information:
            log_flow = log_flow + self.information * inputs["information"]
        loss, residual = trajectory_balance_loss(log_prob, log_reward, log_z, regression=regression)
        potential, actions = action_potentials(
            inputs["token_log_probs"],
            inputs["mask"],
            inputs["action_ends"],
            log_reward,
            log_z,
            log_flow,
        )
        auxiliary = window_loss(potential, actions, self.decay, self.weighting, regression).to(loss.dtype)
        return loss_output(
            loss + self.auxiliary_weight * auxiliary, residual, actions=actions.to(loss.dtype).mean()
        )
