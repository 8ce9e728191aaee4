"""Log-variance (VarGrad): trajectory balance with log Z estimated from the batch."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_mean
from synthstats_lightning.objectives.regression import SQUARE, Regression


def log_variance_loss(
    log_prob: Float[Tensor, " batch"],
    log_reward: Float[Tensor, " batch"],
    group: Int[Tensor, " batch"],
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    """Variance of log R − log π over the programs of each task.

    With d = log R(y) − log π(y | x), the residual is δ = mean(d) − d and the loss the mean of δ² (Richter et
    al. 2020, arXiv:2010.10436; as VarGrad for GFlowNets, Zhang et al. 2023, arXiv:2302.05446). The mean runs
    over the batch's programs of the same task, on all ranks of a distributed run: over all tasks together,
    the loss would be positive at the optimum wherever their log Z differ. It is a mean and not a
    log-sum-exp: only the mean makes the average residual zero, so that the gradient through it vanishes and
    it may be treated as a constant.

    A program that is alone of its task in the batch contributes nothing.

    Args:
        log_prob: log π(y | x), in nats.
        log_reward: log R(y), in nats.
        group: Task of each program.
        regression: Loss of the residual.

    Returns:
        The scalar loss in nats² and the residual δ in nats, both differentiable.
    """
    difference = log_reward - log_prob
    residual = group_mean(difference, group, across_ranks=True) - difference
    return regression(residual).mean(), residual


class LogVariance(Objective):
    """Log-variance loss: trajectory balance without a log Z to learn, for batches of several programs a task.

    Args:
        regression: Loss of the residual; the square by default.
    """

    needs = frozenset({"task_index"})
    learns_log_z = False
    groups_span_ranks = True

    def __init__(self, regression: Regression | None = None) -> None:
        super().__init__()
        self.regression = regression

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `log_variance_loss`."""
        loss, residual = log_variance_loss(
            log_prob, log_reward, inputs["task_index"], self.regression or SQUARE
        )
        return loss_output(loss, residual)
