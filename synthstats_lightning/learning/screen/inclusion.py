"""Choosing few of many draws with known probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Values = Float[np.ndarray, " draws"]
ROUNDING = 1e-9
"""Starts are kept so far from whole numbers."""


class Chosen(NamedTuple):
    """Draws that were chosen.

    Attributes:
        rows: Which ones, in the order in which they were drawn; each once.
        log_ratio: What choosing adds to the log-probability with which each was drawn, in nats: a weighted
            mean over the chosen ones, with weights less this, is what it would be over all draws.
    """

    rows: Int[np.ndarray, " chosen"]
    log_ratio: Float[np.ndarray, " chosen"]


def choose(log_weight: Values, number: int, generator: np.random.Generator) -> Chosen:
    """Chooses draws in proportion to weights, none twice, by systematic sampling in a random order.

    A draw is chosen with probability `min(1, c * weight)`, of which exactly `number` are to be expected; the
    inverse of that probability makes sums over the chosen ones unbiased (Horvitz & Thompson, 1952, A
    generalization of sampling without replacement from a finite universe, JASA 47, equation 10). The weights
    may depend on the draws in any way.

    Args:
        log_weight: Log weights of the draws, in nats; what has -inf is never chosen, and counts for nothing.
        number: How many are chosen; all whose weight is not 0 where there are no more than that.
        generator: Source of randomness.

    Raises:
        ValueError: If `number` is below 1, or a weight is NaN or infinite.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, got {number}")
    if np.isnan(log_weight).any() or (log_weight == np.inf).any():
        raise ValueError("log_weight must hold numbers below infinity, got NaN or infinity")
    probability = inclusion_probabilities(log_weight, number)
    order = generator.permutation(len(log_weight))
    index = np.sort(order[systematic(probability[order], float(generator.random()))])
    total, kept = len(log_weight), len(index)
    # of `kept` draws the mean is taken, not of `total`
    log_ratio = np.log(probability[index]) + (np.log(total) - np.log(kept) if kept else 0.0)
    return Chosen(index, log_ratio)


def inclusion_probabilities(log_weight: Values, number: int) -> Values:
    """Probabilities in proportion to weights, none above 1, that add up to a number.

    Args:
        log_weight: Log weights of the draws, in nats, below infinity.
        number: What they add up to; all draws with a weight have 1 where there are no more than that.
    """
    probability = np.zeros(len(log_weight))
    left = np.isfinite(log_weight)
    if left.sum() <= number:
        probability[left] = 1.0
        return probability
    while True:
        weight = np.exp(log_weight[left] - log_weight[left].max())
        share = (number - probability[~left].sum()) * weight / weight.sum()
        certain = share >= 1.0
        if not certain.any():
            probability[left] = share
            return probability
        places = np.flatnonzero(left)[certain]
        probability[places] = 1.0
        left[places] = False


def systematic(probability: Values, start: float) -> Int[np.ndarray, " chosen"]:
    """Places at which the running sum of probabilities passes `start`, `start + 1` and so on.

    Over a uniform start each place is among them with exactly its probability, and never twice.

    Args:
        probability: Probability of each place, from 0 to 1.
        start: Where the first passage lies, from 0 to 1, 1 excluded.
    """
    # the sum is a whole number up to rounding, which must neither add a place nor cost one
    running = np.cumsum(probability)
    running = np.minimum(running, np.round(running[-1:], 9))
    passed = np.ceil(running - min(max(start, ROUNDING), 1 - ROUNDING)).clip(min=0)
    return np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
