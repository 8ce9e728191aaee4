"""What an error is worth: beside that of the best constant predictor of evaluation points."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.tasks.simulators import Simulator
from synthstats_lightning.tasks.simulators.reference_errors import reference_errors


class Standardisation(NamedTuple):
    """Errors of the best predictor that knows the environment and nothing of the instance.

    Attributes:
        mean: Its mean error a point.
        sd: Standard deviation of its error a point.
        constant: What it predicts: for each row of a design, or the answer to a parameter goal.
    """

    mean: float
    sd: float
    constant: NDArray[np.float64]

    def standardise(self, error: float) -> float:
        """An error as standard deviations from the constant predictor's: negative is better.

        Args:
            error: Mean error of some points.
        """
        return (error - self.mean) / self.sd


def standardisation(
    simulator: Simulator, goal: str = "prediction", points: int = 10, instances: int = 2000
) -> Standardisation:
    """Errors of the best constant predictor under the distribution of evaluation points, seeded.

    Args:
        simulator: The environment in its present settings; it is copied.
        goal: Name in `Simulator.goals`.
        points: Evaluation points of each instance.
        instances: How many constants are computed from; none of them is evaluated.

    Raises:
        ValueError: If there is no such goal.
    """
    if goal not in simulator.goals:
        raise ValueError(f"goal {goal!r} of {simulator.name} is not one of: {', '.join(simulator.goals)}")
    errors = reference_errors(copy.deepcopy(simulator), goal, instances, points)
    return Standardisation(errors.mean, errors.sd, np.asarray(errors.constant, dtype=np.float64))
