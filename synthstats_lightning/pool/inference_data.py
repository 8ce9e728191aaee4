"""Posterior draws as ArviZ data: `InferenceData` for ArviZ 0.x, `DataTree` for ArviZ 1.x."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.pool.arviz_module import arviz_module, has_data_tree
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws

ROW = "row"
"""Dimension of everything that has one value for each row of the data set."""
SCORED_ROW = "scored_row"
"""Dimension of the log-likelihood where a prompt shows some rows, which only condition."""


def to_inference_data(
    draws: PosteriorDraws,
    response_name: str,
    response: NDArray[np.generic],
    covariates: Mapping[str, NDArray[np.generic]] | None = None,
) -> Any:
    """ArviZ data of a scored model, on which `az.summary`, `az.loo`, `az.compare` and `az.plot_ppc` work.

    Groups are `posterior`, `posterior_predictive`, `log_likelihood`, `observed_data` and, with covariates,
    `constant_data`. The pointwise log-likelihood is that of each row given all others and the parameters, so
    that leave-one-out by ArviZ is right also where rows depend on each other.

    Args:
        draws: Draws of the model's parameters and responses.
        response_name: Name of the response column.
        response: Its values `[rows]`.
        covariates: Column name to values `[rows]`.

    Returns:
        `arviz.InferenceData` or `xarray.DataTree`, as the installed ArviZ has it.

    Raises:
        ImportError: If ArviZ is not installed.
        ValueError: If the draws are of another number of rows.
    """
    az = arviz_module()
    rows = len(response)
    if draws.predictive.shape[-1] != rows:
        raise ValueError(f"response must have {draws.predictive.shape[-1]} rows, got {rows}")
    scored = draws.log_likelihood.shape[-1]
    scored_row = ROW if scored == rows else SCORED_ROW
    groups: dict[str, dict[str, Any]] = {
        "posterior": dict(draws.parameters),
        "posterior_predictive": {response_name: draws.predictive},
        "log_likelihood": {response_name: draws.log_likelihood},
        "observed_data": {response_name: np.asarray(response)},
    }
    if covariates:
        groups["constant_data"] = {name: np.asarray(values) for name, values in covariates.items()}
    parts = {
        name: _dataset(name, values, rows, scored_row if name == "log_likelihood" else ROW, scored)
        for name, values in groups.items()
    }
    parts["posterior"].attrs["sampler"] = draws.estimator
    parts["posterior"].attrs["effective_sample_size"] = draws.effective_sample_size
    if math.isfinite(draws.evidence):
        parts["posterior"].attrs["log_evidence"] = draws.evidence
    if has_data_tree(az):
        import xarray

        return xarray.DataTree.from_dict(parts)
    return az.InferenceData(**parts)


def _dataset(group: str, values: Mapping[str, Any], rows: int, row: str, scored: int) -> Any:
    """One group: rows are a named dimension, parameters keep ArviZ's names for theirs."""
    import xarray

    sampled = group not in ("observed_data", "constant_data")
    lead = ["chain", "draw"] if sampled else []
    variables, coordinates = {}, {}
    for name, array in values.items():
        own = array.shape[len(lead) :]
        own_dims = [f"{name}_dim_{axis}" for axis in range(len(own))]
        dims = own_dims if group == "posterior" else [row]
        variables[name] = ([*lead, *dims], array)
        for dim, length in zip([*lead, *dims], array.shape, strict=True):
            start = rows - scored if dim == SCORED_ROW else 0
            coordinates[dim] = np.arange(start, start + length)
    return xarray.Dataset(variables, coords=coordinates)
