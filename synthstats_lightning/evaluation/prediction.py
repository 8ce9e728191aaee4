"""Predictions of evaluation points: densities and draws of one model, or of several weighted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from synthstats_lightning.scoring.prediction.forecast import Forecast

Values = NDArray[np.float64]


class Prediction(NamedTuple):
    """What is predicted of some evaluation points.

    Attributes:
        log_density: Log predictive density of each true response, in nats `[points]`.
        draws: Draws of the responses `[draws, points]`, NaN where undefined.
        weights: Of the draws, non-negative, summing to 1 `[draws]`.
        quantities: Draws of declared quantities `[draws, *shape]` each.
    """

    log_density: Float[np.ndarray, " points"]
    draws: Float[np.ndarray, "draws points"]
    weights: Float[np.ndarray, " draws"]
    quantities: Mapping[str, Values]


def of_model(forecast: Forecast) -> Prediction:
    """One model's prediction."""
    count = len(forecast.draws)
    return Prediction(
        forecast.log_density, forecast.draws, np.full(count, 1 / count), dict(forecast.quantities)
    )


def of_models(forecasts: Sequence[Forecast], weights: Float[np.ndarray, " models"]) -> Prediction:
    """The prediction of the mixture of several models.

    Args:
        forecasts: Of the models, for the same points.
        weights: Of the models, non-negative, summing to 1.
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.asarray(weights, dtype=np.float64))
    densities = np.stack([item.log_density for item in forecasts]) + log_weights[:, None]
    counts = [len(item.draws) for item in forecasts]
    names = set(forecasts[0].quantities)
    return Prediction(
        np.logaddexp.reduce(densities, 0),
        np.concatenate([item.draws for item in forecasts]),
        np.concatenate([np.full(n, w / n) for n, w in zip(counts, weights, strict=True)]),
        {name: np.concatenate([item.quantities[name] for item in forecasts]) for name in names},
    )


def point_predictions(prediction: Prediction, kind: str) -> Float[np.ndarray, " points"]:
    """One number for each point: the share of ones of a binary response, the median of any other.

    The median exists whatever the program says. The mean does not: a half-Cauchy scale, or an exponential
    link with a normal predictor, is enough to make it infinite or nearly so.

    Args:
        prediction: A prediction that has draws.
        kind: `"continuous"`, `"count"` or `"binary"`.

    Raises:
        ValueError: If a point has no draw that is defined.
    """
    draws, weights = prediction.draws, prediction.weights
    absent = np.isnan(draws)
    mass = np.where(absent, 0.0, weights[:, None])
    total = mass.sum(0)
    if not (total > 0).all():
        raise ValueError("a point has no predictive draw that is defined")
    if kind == "binary":
        share: Values = (mass * np.where(absent, 0.0, draws)).sum(0) / total
        return share
    order = np.argsort(np.where(absent, np.inf, draws), axis=0, kind="stable")
    ordered = np.take_along_axis(draws, order, 0)
    cumulative = np.take_along_axis(mass, order, 0).cumsum(0) / total
    below = (cumulative < 0.5 - 1e-12).sum(0)
    above = (cumulative <= 0.5 + 1e-12).sum(0)
    columns = np.arange(draws.shape[1])
    low, high = ordered[below, columns], ordered[np.minimum(above, len(draws) - 1), columns]
    # half the mass on either side of a gap: its middle
    middle: Values = np.where(np.isnan(high), low, 0.5 * (low + high))
    return middle
