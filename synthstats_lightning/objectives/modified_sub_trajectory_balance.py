"""Modified sub-trajectory balance: flows eliminated through the stop probability."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.prefixes import (
    interpolate,
    reference_prefix_rewards,
    stop_potentials,
)
from synthstats_lightning.objectives.regression import SQUARE, Regression
from synthstats_lightning.objectives.sub_trajectory_balance import check_windows
from synthstats_lightning.objectives.windows import Weighting, keep_states, window_loss


def modified_sub_trajectory_balance_loss(
    token_log_probs: Float[Tensor, "batch time"],
    stop_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    forced_stop: Bool[Tensor, " batch"],
    prefix_log_reward: Float[Tensor, "batch prefixes"],
    prefix_known: Bool[Tensor, "batch prefixes"] | None = None,
    decay: float = 1.0,
    weighting: Weighting = "within",
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    r"""Modified SubTB loss of a batch (Hu et al. 2023, arXiv:2310.04363, eq. 3).

    Where every prefix can be stopped at, its flow is R(s ⊤) / π(⊤ | s): no flow head and no log Z to learn.
    With r_t = log R(s_t ⊤), p the token's and q the stop probability,
    $$ \delta_{ij} = r_i - \log q_i + \sum_{i \le t < j} \log p_t - r_j + \log q_j, \qquad
       L = \sum_{i<j} w_{j-i}\, \delta_{ij}^2 $$
    over prefixes i < j up to the one that was stopped at. Zero for all programs if and only if π ∝ R.

    Args:
        token_log_probs: log π of each token, in nats.
        stop_log_probs: log π(⊤ | prefix) before each token; −inf where stopping is not allowed.
        mask: True on program tokens, which are at the front.
        forced_stop: Whether the program was cut at the length limit.
        prefix_log_reward: r_t, in nats, `[batch, time + 1]`.
        prefix_known: Where r_t is known: windows run between these prefixes only; by default everywhere.
        decay: λ in `(0, 1]`; the paper has 1.
        weighting: `"batch"` is the paper's, where long programs dominate; see `window_weights`.
        regression: Loss of the residuals.

    Returns:
        The scalar loss in nats² and the residual from the first such prefix to the last, `[batch]`.
    """
    states = stop_potentials(token_log_probs, stop_log_probs, mask, forced_stop, prefix_log_reward)
    kept = states.terminable if prefix_known is None else states.terminable & prefix_known
    potential, transitions = keep_states(states.value, kept)
    loss = window_loss(potential, transitions, decay, weighting, regression)
    residual = potential[:, 0] - potential.gather(1, transitions[:, None])[:, 0]
    return loss.to(token_log_probs.dtype), residual.to(token_log_probs.dtype)


class ModifiedSubTrajectoryBalance(Objective):
    """Modified SubTB, for rewards at every prefix or at some.

    A program's score is known where it stopped. What stands elsewhere is `rewards`:

    - `"failed"`: a program that is cut off scores `prefix_score`. Exact where no proper prefix of a program
      is itself a valid program; elsewhere that prefix is taught a reward that is too low.
    - `"interpolated"`: from `prefix_score` at the empty prefix in a straight line to the program's own score
      (LaCoT's interpolated SubTB): a dense signal with another optimum, exact only for rewards that do grow
      so.
    - `"given"`: the batch says, with `prefix_log_reward` and `prefix_known`; exact.

    Args:
        decay: λ in `(0, 1]`.
        weighting: Windows' weights sum to 1 `"within"` each trajectory or over the `"batch"`, or windows are
            averaged by `"length"`; see `window_weights`.
        rewards: Where the rewards of prefixes come from; the ways are those above.
        prior_weight: Weight of the reference log-probability in the reward, which must be that of the run;
            it is known at every prefix, at the cost of a pass of the reference policy a step.
        prefix_score: Score part of the log reward of a failed program, in nats, which must be that of the
            run: `log_reward_failure` of the reward.
        regression: Loss of the residuals; anything but the square holds `[batch, time, time]` at once.

    Raises:
        ValueError: If a value is not allowed.
    """

    learns_log_z = False

    def __init__(
        self,
        decay: float = 1.0,
        weighting: Weighting = "within",
        rewards: Literal["failed", "interpolated", "given"] = "failed",
        prior_weight: float = 0.0,
        prefix_score: float = -25.0,
        regression: Regression | None = None,
    ) -> None:
        super().__init__()
        check_windows(decay, weighting)
        if rewards not in ("failed", "interpolated", "given"):
            raise ValueError(f"rewards must be 'failed', 'interpolated' or 'given', got {rewards!r}")
        self.decay = decay
        self.weighting: Weighting = weighting
        self.rewards = rewards
        self.prior_weight = prior_weight
        self.prefix_score = prefix_score
        self.regression = regression
        self.needs = frozenset({"token_log_probs", "stop_log_probs", "mask", "forced_stop"})
        if rewards == "given":
            self.needs |= {"prefix_log_reward", "prefix_known"}
        elif prior_weight:
            self.needs |= {"reference_token_log_probs", "reference_stop_log_probs"}

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `modified_sub_trajectory_balance_loss`."""
        known: Tensor | None = None
        if self.rewards == "given":
            rewards, known = inputs["prefix_log_reward"], inputs["prefix_known"]
        else:
            parts = reference_prefix_rewards(inputs, log_reward, self.prior_weight, self.prefix_score)
            score = interpolate(parts.score, parts.known) if self.rewards == "interpolated" else parts.score
            rewards = parts.prior + score
        loss, residual = modified_sub_trajectory_balance_loss(
            inputs["token_log_probs"],
            inputs["stop_log_probs"],
            inputs["mask"],
            inputs["forced_stop"],
            rewards,
            known,
            self.decay,
            self.weighting,
            self.regression or SQUARE,
        )
        stop = torch.where(inputs["mask"], inputs["stop_log_probs"].detach().exp(), 0.0)
        return loss_output(loss, residual, stop_probability=stop.sum() / inputs["mask"].sum())
