"""What a weighted set of models predicts of some rows, from draws of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from synthstats_lightning.scoring.prediction.predictive import weighted_quantiles

Values = NDArray[np.float64]

TAIL = 0.005
"""Probability of each tail that does not count for the share between models."""


class Moments(NamedTuple):
    """Mean and variance of a mixture's predictions.

    Attributes:
        mean: Mean of each row's response.
        deviation: Standard deviation of each row's response.
        between: Share of the variance that lies between models, by the law of total variance; 0 where there
            is no variance.
    """

    mean: Float[np.ndarray, " rows"]
    deviation: Float[np.ndarray, " rows"]
    between: Float[np.ndarray, " rows"]


def mixture_moments(
    draws: Sequence[Float[np.ndarray, "_ rows"]], weights: Float[np.ndarray, " models"]
) -> Moments:
    """Mean, standard deviation and the share of the variance between models.

    The variance of a model's mean over its draws is no difference between models: what is expected of it is
    taken off.

    Args:
        draws: Equally weighted draws of each model; NaN counts as absent.
        weights: Weights of the models, non-negative, with a positive sum.
    """
    share = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    means, variances, noise = [], [], []
    for one in draws:
        known = np.isfinite(one)
        count = known.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(known, one, 0.0).sum(0) / count
            variance = np.where(known, (one - mean) ** 2, 0.0).sum(0) / np.maximum(count - 1, 1)
        means.append(mean)
        variances.append(variance)
        noise.append(variance / np.maximum(count, 1))
    mean, within = share @ np.stack(means), share @ np.stack(variances)
    spread = share @ (np.stack(means) - mean) ** 2
    between = np.maximum(spread - (share * (1 - share)) @ np.stack(noise), 0.0)
    total = within + between
    part = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    return Moments(mean, np.sqrt(total), part)


def mixture_columns(
    draws: Sequence[Float[np.ndarray, "_ rows"]],
    weights: Float[np.ndarray, " models"],
    kind: str,
    quantiles: Sequence[float],
    levels: Sequence[str] = (),
) -> dict[str, Values]:
    """Columns of a table of predictions, by name.

    Args:
        draws: Equally weighted draws of each model; NaN counts as absent.
        weights: Weights of the models, non-negative, with a positive sum.
        kind: Kind of the response: `"continuous"`, `"count"`, `"binary"` or `"categorical"`.
        quantiles: Levels from 0 to 1.
        levels: Names of the values from 0 of a binary or categorical response.

    Returns:
        Of a binary or categorical response the probability of each value (of a binary one without names only
        that of 1); of any other `mean`, `sd` and quantiles (`q05`), of a count `probability_0` too; and
        `between_models`, the share of the variance between models; of numbers with both tails of the mixture
        drawn in to its quantiles `TAIL` and `1 - TAIL`, for a heavy tail has no variance to share.
    """
    moments = mixture_moments(draws, weights)
    if kind in ("binary", "categorical"):
        values = _probabilities(draws, weights, levels or ("0", "1"))
        if kind == "binary" and not levels:
            values.pop("probability_0")
        return {**values, "between_models": moments.between}
    columns = {"mean": moments.mean, "sd": moments.deviation}
    mass = [np.full(len(one), weight / len(one)) for one, weight in zip(draws, weights, strict=True)]
    *found, low, high = weighted_quantiles(
        torch.from_numpy(np.concatenate(draws)),
        torch.from_numpy(np.concatenate(mass)),
        torch.tensor([*quantiles, TAIL, 1 - TAIL], dtype=torch.float64),
    )
    drawn_in = [np.clip(one, low.numpy(), high.numpy()) for one in draws]
    between = mixture_moments(drawn_in, weights).between
    columns |= {quantile_name(level): row.numpy() for level, row in zip(quantiles, found, strict=True)}
    if kind == "count":
        columns |= _probabilities(draws, weights, ("0",))
    return {**columns, "between_models": between}


def quantile_name(level: float) -> str:
    """The name of a quantile's column: `q05`, `q50`, `q97.5`.

    Args:
        level: A number from 0 to 1.
    """
    percent = f"{100 * level:.6g}"
    return f"q{percent}" if len(percent) > 1 else f"q0{percent}"


def _probabilities(draws: Sequence[Values], weights: Values, levels: Sequence[str]) -> dict[str, Values]:
    share = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    found: dict[str, Values] = {}
    for value, level in enumerate(levels):
        rates = [np.nanmean(np.where(np.isnan(one), np.nan, one == value), axis=0) for one in draws]
        found[f"probability_{level}"] = share @ np.stack(rates)
    return found


def outside_range(
    known: Mapping[str, NDArray[np.generic]], new: Mapping[str, NDArray[np.generic]]
) -> list[str]:
    """Which new rows lie outside the data, a line for each column.

    Args:
        known: Column name to values that models were fitted to.
        new: Column name to values of new rows.
    """
    lines = []
    for name, values in known.items():
        low, high = values.min(), values.max()
        beyond = int(((new[name] < low) | (new[name] > high)).sum())
        if beyond:
            lines.append(
                f"{beyond} of {len(new[name])} new rows have {name} outside the data"
                f" ({low:g} to {high:g}): what is predicted there is extrapolated"
            )
    return lines
