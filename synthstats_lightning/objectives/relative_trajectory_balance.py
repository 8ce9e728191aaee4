"""Relative trajectory balance: the reference policy is the prior, whatever the reward holds."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.log_variance import log_variance_loss
from synthstats_lightning.objectives.regression import SQUARE, Regression


def relative_trajectory_balance_loss(
    log_prob: Float[Tensor, " batch"],
    reference_log_prob: Float[Tensor, " batch"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    beta: float = 1.0,
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    """Trajectory balance towards π_ref(y | x) R(y)^β.

    The residual is δ = log Z + log π(y | x) − log π_ref(y | x) − β log R(y) (Venkatraman et al. 2024,
    arXiv:2405.20971, eq. 8) and the loss the mean of δ², zero for all programs if and only if
    π ∝ π_ref R^β.

    Args:
        log_prob: log π(y | x), in nats.
        reference_log_prob: log π_ref(y | x), in nats; no gradient flows through it.
        log_reward: log R(y), in nats, **without** the reference's log-probability.
        log_z: log Σ_y π_ref R^β of each program's task, in nats.
        beta: Inverse temperature of the reward, 1/β in the notation of TBA.
        regression: Loss of the residual.

    Returns:
        The scalar loss in nats² and the residual δ in nats, both differentiable.
    """
    residual = log_z + log_prob - reference_log_prob.detach() - beta * log_reward
    return regression(residual).mean(), residual


class RelativeTrajectoryBalance(Objective):
    """Relative trajectory balance, and TBA.

    The target is π_ref R^β, with R the reward without the reference's part. With `log_z="batch"` log Z is the
    mean over the batch's programs of the same task, as in trajectory balance with asynchrony (TBA; Bartoldson
    et al. 2025, arXiv:2503.18929, eq. 4–5).

    With `reset_reference_every` the reference becomes the current policy every so many steps (TBA′, ibid.
    section 6): each reset moves the target by another factor R^β, so the policy sharpens without end and no
    longer has a target distribution of its own.

    Args:
        beta: Inverse temperature of the reward, above 0.
        log_z: `"learned"` or `"batch"`.
        prior_weight: Weight of the stored log π_ref that `log_reward` already has, which is taken out of it:
            `prior_weight` of the run's reward.
        reset_reference_every: Training steps between resets of the reference policy; 0 for never.
        regression: Loss of the residual; the square by default.

    Raises:
        ValueError: If a value is out of its range.
    """

    needs = frozenset({"task_index", "reference_log_prob", "stored_reference_log_prob"})

    def __init__(
        self,
        beta: float = 1.0,
        log_z: Literal["learned", "batch"] = "learned",
        prior_weight: float = 0.0,
        reset_reference_every: int = 0,
        regression: Regression | None = None,
    ) -> None:
        super().__init__()
        if not 0 < beta < float("inf"):
            raise ValueError(f"beta must be positive and finite, got {beta}")
        if log_z not in ("learned", "batch"):
            raise ValueError(f"log_z must be 'learned' or 'batch', got {log_z!r}")
        if reset_reference_every < 0:
            raise ValueError(f"reset_reference_every must be 0 or more, got {reset_reference_every}")
        self.beta = beta
        self.log_z = log_z
        self.prior_weight = prior_weight
        self.reset_reference_every = reset_reference_every
        self.regression = regression
        self.learns_log_z = log_z == "learned"
        self.groups_span_ranks = log_z == "batch"

    def log_target_ratio(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> Float[Tensor, " batch"]:
        """Of π_ref R^β, see `Objective.log_target_ratio`; with a reference that moves, of the present one."""
        return self._log_target(log_reward, inputs) - log_prob

    def _log_target(
        self, log_reward: Float[Tensor, " batch"], inputs: ObjectiveInputs
    ) -> Float[Tensor, " batch"]:
        score = log_reward - self.prior_weight * inputs["stored_reference_log_prob"]
        return inputs["reference_log_prob"].detach() + self.beta * score

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `relative_trajectory_balance_loss`."""
        reference, regression = inputs["reference_log_prob"], self.regression or SQUARE
        if self.log_z == "batch":
            target = self._log_target(log_reward, inputs)
            return loss_output(*log_variance_loss(log_prob, target, inputs["task_index"], regression))
        reward = log_reward - self.prior_weight * inputs["stored_reference_log_prob"]
        loss, residual = relative_trajectory_balance_loss(
            log_prob, reference, reward, log_z, self.beta, regression
        )
        return loss_output(loss, residual)
