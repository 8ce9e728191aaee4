"""How many programs of a sampling round each task gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lightning.pytorch import Trainer


def allocate(total: int, weights: Sequence[float], generator: np.random.Generator) -> list[int]:
    """Whole numbers in proportion to weights, each the exact share rounded up or down at random.

    One uniform number decides all roundings (systematic sampling), so that shares are exact on average and
    the numbers always sum to the total.

    Args:
        total: What is to be shared, from 0.
        weights: How often each task is to be sampled, relative to the others; above 0.
        generator: Source of the uniform number.
    """
    share = np.cumsum(np.asarray(weights, dtype=np.float64))
    # rounded, so that equal weights give equal numbers where these are whole
    ends = np.floor(np.round(total * share / share[-1], 9) + generator.random())
    ends[-1] = total
    return [int(count) for count in np.diff(ends, prepend=0.0)]


def allocated(trainer: Trainer, number: int, tasks: int, seed: int) -> int | list[int]:
    """Programs of each task: one number for all, or one for each by the weights of the run's data module.

    Args:
        trainer: The run's trainer.
        number: Programs a task, in the mean.
        tasks: Number of tasks.
        seed: Seeds the number by which shares are rounded.
    """
    weights = getattr(getattr(trainer, "datamodule", None), "sampling_weights", None)
    return number if weights is None else allocate(number * tasks, weights, np.random.default_rng(seed))
