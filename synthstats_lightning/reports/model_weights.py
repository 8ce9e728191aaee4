"""Weights that turn several models' predictions into one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize

Values = NDArray[np.float64]

WARM_UP = 50
"""Expectation-maximisation steps before sequential quadratic programming."""
MAX_ITERATIONS = 20_000
"""Of those after it: monotone, but slow near the simplex's faces."""
TINY = 1e-300
"""Below it a mixture's density counts as this, so that trial points outside have a score."""


def evidence_weights(log_evidence: Float[np.ndarray, " models"]) -> Float[np.ndarray, " models"]:
    """Posterior probabilities of models that were drawn from their prior.

    With models drawn from a policy these are the self-normalised importance weights of the posterior whose
    prior is the policy (Bayesian model averaging); a model drawn twice counts twice.

    Args:
        log_evidence: Log marginal likelihoods, in nats; -inf for models without any.

    Returns:
        Non-negative weights that sum to 1.

    Raises:
        ValueError: If there is no model, or none has an evidence above -inf.
    """
    values = np.asarray(log_evidence, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values.max()):
        raise ValueError("log_evidence must hold at least one finite number and no NaN")
    weights: Values = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())


def stacking_weights(
    log_density: Float[np.ndarray, "rows models"], tolerance: float = 1e-5
) -> Float[np.ndarray, " models"]:
    """Weights that maximise the leave-one-out log score of the mixture of models.

    Maximises `mean_i log sum_k w_k p_k(y_i | y_-i)` over the simplex (Yao, Vehtari, Simpson and Gelman 2018,
    section 3, with the log score), a concave problem: sequential quadratic programming from where some
    expectation-maximisation steps lead. The largest entry of the gradient less 1 bounds the distance from
    the optimum, in nats a row (Kuhn and Tucker), and is checked.

    Args:
        log_density: Leave-one-out log predictive densities, in nats; -inf is allowed.
        tolerance: Largest distance of the mean log score from the optimum, in nats.

    Returns:
        Non-negative weights that sum to 1; equal ones without rows. A row that no model deems possible says
        nothing of them and is left out.

    Raises:
        ValueError: If there is no model, an entry is NaN or +inf, or the tolerance is not reached.
    """
    values = np.asarray(log_density, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"log_density must have shape (rows, models) with a model, got {values.shape}")
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("log_density must hold numbers below infinity, got NaN or +inf")
    models = values.shape[1]
    top = values.max(1, initial=-np.inf, keepdims=True)
    possible = np.isfinite(top[:, 0])
    density = np.exp(values[possible] - top[possible])
    weights = np.full(models, 1 / models)
    if len(density) == 0 or models == 1:
        return weights
    weights = _expectation_maximisation(density, weights, WARM_UP, tolerance)
    if _gap(density, weights) > tolerance:
        polished = _sequential_programming(density, weights)
        if _gap(density, polished) < _gap(density, weights):
            weights = polished
        weights = _expectation_maximisation(density, weights, MAX_ITERATIONS, tolerance)
    if (gap := _gap(density, weights)) > tolerance:
        raise ValueError(f"stacking stopped {gap:.3g} nats a row from the optimum, tolerance {tolerance:g}")
    return np.asarray(weights / weights.sum())


def _gradient(density: Values, weights: Values) -> Values:
    """Of the mean log score; at the optimum 1 where a weight is positive, and nowhere above 1."""
    gradient: Values = (density / (density @ weights)[:, None]).mean(0)
    return gradient


def _gap(density: Values, weights: Values) -> float:
    return float(_gradient(density, weights).max() - 1)


def _expectation_maximisation(density: Values, weights: Values, iterations: int, tolerance: float) -> Values:
    """Multiplicative updates, none of which lowers the score."""
    for _ in range(iterations):
        gradient = _gradient(density, weights)
        if gradient.max() - 1 <= tolerance:
            break
        weights = weights * gradient
    return weights


def _sequential_programming(density: Values, weights: Values) -> Values:
    solution = minimize(
        lambda w: -np.log(np.maximum(density @ w, TINY)).mean(),
        weights,
        jac=lambda w: -(density / np.maximum(density @ w, TINY)[:, None]).mean(0),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(weights),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    # a little everywhere, for the updates that follow
    inside = np.clip(solution.x, 0.0, 1.0) + 1e-12
    polished: Values = inside / inside.sum()
    return polished
