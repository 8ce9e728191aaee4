"""A training step's metrics, of the batches of all ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from synthstats_lightning.objectives import LossOutput
from synthstats_lightning.runtime.distributed import added_up, gather_objects, rank_and_size


class StepSums(NamedTuple):
    """What one rank's batch adds to the metrics of a step.

    Attributes:
        size: Programs of the batch; 0 where the rank had none.
        loss: The loss of the batch; 0 where the rank had no program.
        metrics: The objective's metrics, each times the number of programs.
        residual: Sum of the residuals, in nats.
        residual_squares: Sum of their squares, in nats².
    """

    size: int
    loss: float
    metrics: dict[str, float]
    residual: float
    residual_squares: float


def step_metrics(output: LossOutput, size: int) -> dict[str, Tensor | float]:
    """The loss, as `loss`, and the objective's metrics, over all ranks; every rank must call it.

    Mean and standard deviation of the residual are those of all residuals; whatever else is a mean of the
    batches' values, each counted as often as it has programs.

    Args:
        output: What the objective made of this rank's batch.
        size: Number of programs in this rank's batch.
    """
    if rank_and_size()[1] == 1:
        return {"loss": output.loss.detach(), **output.metrics}
    residual = output.residual.double()
    own = StepSums(
        size,
        float(output.loss.detach()),
        {name: float(value) * size for name, value in output.metrics.items()},
        float(residual.sum()),
        float(residual.square().sum()),
    )
    return dict(over_ranks(gather_objects(own)))


def over_ranks(ranks: Sequence[StepSums]) -> dict[str, float]:
    """Metrics of the batches of several ranks together; a loss of 0 where none had a program.

    Args:
        ranks: The figures of every rank.
    """
    total = added_up(ranks)
    if not total.size:
        return {"loss": 0.0}
    metrics = {name: value / total.size for name, value in total.metrics.items()}
    if "residual_std" in metrics:
        mean = total.residual / total.size
        variance = total.residual_squares / total.size - mean**2
        metrics |= {"residual_mean": mean, "residual_std": math.sqrt(max(0.0, variance))}
    # gradients are averaged over ranks, those with nothing to learn from included
    return {"loss": total.loss / len(ranks), **metrics}
