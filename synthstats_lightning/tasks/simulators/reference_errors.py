"""Reference errors: how far off the best constant prediction is, and a prediction that knows the latents.

Standardised errors are `(error - mean) / sd` with mean and standard deviation of the constant predictor's
error under the *evaluation* distribution. (BoxingGym's own constants come from other designs, from tens of
draws, or from other scales.) `benchmarks/boxing_gym.py --reference-errors` prints those of all environments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray
from synthstats_lightning.tasks.simulators.balanced import UnbalancedError
from synthstats_lightning.tasks.simulators.base import Simulator


@dataclass(frozen=True)
class ReferenceErrors:
    """Errors of two predictors that see no data, in an environment's own metric.

    Attributes:
        constant: The best constant prediction: for each row of a design the mean response over all instances
            (for a binary response the share of ones, which counts as the commoner class); for a parameter
            goal what the prior alone answers.
        mean: Its mean error.
        mean_se: Standard error of `mean`, from the spread between instances.
        sd: Standard deviation of its error between evaluation points; over rows of a point it is averaged.
        median: Median of its error.
        oracle: Mean error of the expected response given the latents; 0 for parameter goals.
        oracle_se: Standard error of `oracle`.
        instances: Instances behind these numbers.
        skipped: Further instances without evaluation points, because one class is too rare to balance.
    """

    constant: Array
    mean: float
    mean_se: float
    sd: float
    median: float
    oracle: float
    oracle_se: float
    instances: int
    skipped: int


def reference_errors(
    simulator: Simulator, goal: str = "prediction", instances: int = 2000, points: int = 10, seed: int = 0
) -> ReferenceErrors:
    """Recomputes the reference errors of an environment in its present settings.

    Args:
        simulator: It is reset many times, and left with its last instance.
        goal: Name in `Simulator.goals`.
        instances: How many are drawn.
        points: Evaluation points of each.
        seed: Of the instances' seeds, which are large numbers: none of those that people choose.

    Raises:
        KeyError: If there is no such goal.
        UnbalancedError: If no instance has evaluation points.
    """
    chosen = simulator.goals[goal]
    if chosen.summarise is not None:
        truth = chosen.truth_of(simulator.sample_latents(np.random.default_rng(seed), instances))
        answer = chosen.summarise(truth, np.full(instances, 1.0 / instances))
        off = chosen.errors(np.broadcast_to(answer, truth.shape), truth)[:, None]
        return _summary(answer, off, np.zeros_like(off), 0)
    truth, oracle, skipped = _evaluate(simulator, instances, points, seed)
    constant = truth.mean(axis=(0, 1))
    error = simulator.errors(np.broadcast_to(constant, truth.shape), truth)
    return _summary(constant, error.mean(axis=2), simulator.errors(oracle, truth).mean(axis=2), skipped)


def _evaluate(
    simulator: Simulator, instances: int, points: int, seed: int
) -> tuple[FloatArray, FloatArray, int]:
    """Responses and oracle predictions, `[instances, points, rows]`, and how many instances have none."""
    truths, oracles = [], []
    for instance in np.random.SeedSequence(seed).generate_state(instances).tolist():
        try:
            simulator.reset(instance)
            rows = simulator.evaluation_points(points)
        except UnbalancedError:
            continue
        truths.append(rows.pop(simulator.response).astype(np.float64))
        oracles.append(simulator.mean(simulator.latents_batch, rows)[0])
    if not truths:
        raise UnbalancedError(
            f"none of {instances} instances of {simulator.name} has {points} evaluation points"
        )
    shape = (len(truths), points, simulator.rows_per_design)
    return np.reshape(truths, shape), np.reshape(oracles, shape), instances - len(truths)


def _summary(constant: Array, error: FloatArray, known: FloatArray, skipped: int) -> ReferenceErrors:
    """Summarises errors `[instances, points]` of the constant predictor and of the oracle."""
    root = np.sqrt(len(error))
    return ReferenceErrors(
        constant=constant,
        mean=float(error.mean()),
        mean_se=float(error.mean(axis=1).std() / root),
        sd=float(error.std()),
        median=float(np.median(error)),
        oracle=float(known.mean()),
        oracle_se=float(known.mean(axis=1).std() / root),
        instances=len(error),
        skipped=skipped,
    )
