"""Trajectory balance: the whole program's log-probability against its log reward."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.regression import SQUARE, Regression


def trajectory_balance_loss(
    log_prob: Float[Tensor, " batch"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    huber_delta: float | None = None,
    regression: Regression | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    """Trajectory balance loss of a batch.

    With the residual δ = log Z + log π(y | x) − log R(y), the loss is the mean of δ² (Malkin et al. 2022,
    arXiv:2201.13259, eq. 14). Text is written from left to right, every program has one trajectory, so the
    backward policy of that equation is 1. The loss is zero for all programs if and only if π(y | x) = R(y) /
    Z(x) with Z(x) = Σ_y R(y), whichever distribution the programs were drawn from.

    The residual is never clamped: programs far from balance are the ones that have most to teach.
    `huber_delta` bounds their pull instead, with a gradient that stays at ±2·`huber_delta` beyond the
    threshold.

    Args:
        log_prob: log π(y | x), the sum over tokens, in nats.
        log_reward: log R(y), in nats.
        log_z: log Z(x) of each program's task, in nats.
        huber_delta: Where the square becomes linear, in nats; `None` for the plain square.
        regression: Another loss in place of the square.

    Returns:
        The scalar loss in nats² and the residual δ in nats, shape `[batch]`, both differentiable.

    Raises:
        ValueError: If both `huber_delta` and `regression` are given.
    """
    residual = log_z + log_prob - log_reward
    return chosen_regression(huber_delta, regression)(residual).mean(), residual


def chosen_regression(huber_delta: float | None, regression: Regression | None) -> Regression:
    """The one that was given, or the square.

    Raises:
        ValueError: If both are given, or `huber_delta` is not positive.
    """
    if huber_delta is None:
        return regression or SQUARE
    if regression is not None:
        raise ValueError(f"give huber_delta or regression, not both: {huber_delta} and {regression}")
    if not huber_delta > 0:
        raise ValueError(f"huber_delta must be positive or null, got {huber_delta}")
    return Regression("huber", huber_delta)


class TrajectoryBalance(Objective):
    """Trajectory balance with a learned log Z.

    Args:
        huber_delta: Residual in nats beyond which the loss grows linearly instead of quadratically; `None`
            (the default) for the plain square. The optimum is the same.
        regression: Another loss of the residual; instead of `huber_delta`, not beside it.

    Raises:
        ValueError: If `huber_delta` is not positive, or both arguments are given.
    """

    def __init__(self, huber_delta: float | None = None, regression: Regression | None = None) -> None:
        super().__init__()
        chosen_regression(huber_delta, regression)
        self.huber_delta = huber_delta
        self.regression = regression

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `trajectory_balance_loss`."""
        loss, residual = trajectory_balance_loss(
            log_prob, log_reward, log_z, self.huber_delta, self.regression
        )
        return loss_output(loss, residual)
