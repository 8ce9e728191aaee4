"""Leave-one-out scores as ArviZ compares them; what differs between its releases is here alone."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from synthstats_lightning.pool.arviz_module import arviz_module, has_data_tree

ROW = "row"
"""Dimension of the pointwise scores."""


def compare(pointwise: Mapping[str, Float[np.ndarray, " rows"]], **settings: Any) -> Any:
    """ArviZ's table of models: rank, elpd, differences to the best with standard errors, stacking weights.

    Args:
        pointwise: Name of a model to the leave-one-out log predictive density of each row, in nats.
        **settings: What `arviz.compare` takes besides, such as `method`.

    Returns:
        A pandas table, as the installed ArviZ makes it. The effective number of parameters is NaN: scores
        that were refitted or averaged over programs have none.

    Raises:
        ImportError: If ArviZ is not installed.
        ValueError: If there is no model.
    """
    if not pointwise:
        raise ValueError("there is no model with leave-one-out scores that could be compared")
    arviz = arviz_module()
    if "round_to" in inspect.signature(arviz.compare).parameters:
        settings = {"round_to": "none", **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # ArviZ's use of pandas, not ours
        return arviz.compare({name: elpd_data(rows) for name, rows in pointwise.items()}, **settings)


def elpd_data(pointwise: Float[np.ndarray, " rows"]) -> Any:
    """Leave-one-out scores as what `arviz.loo(..., pointwise=True)` returns.

    Args:
        pointwise: Log predictive density of each row given the others, in nats.
    """
    import xarray

    arviz = arviz_module()
    rows = np.asarray(pointwise, dtype=np.float64)
    by_row = xarray.DataArray(rows, dims=[ROW])
    elpd, error = float(rows.sum()), math.sqrt(len(rows) * float(rows.var()))
    if has_data_tree(arviz):
        from arviz_stats.utils import ELPDData

        of_kind = {"kind": "loo"} if "kind" in inspect.signature(ELPDData).parameters else {}  # until 1.2
        return ELPDData(
            **of_kind,
            elpd=elpd,
            se=error,
            p=math.nan,
            n_samples=0,
            n_data_points=len(rows),
            scale="log",
            warning=False,
            good_k=math.nan,
            elpd_i=by_row,
        )
    from arviz.stats.stats_utils import ELPDData

    names = ["elpd_loo", "se", "p_loo", "n_samples", "n_data_points", "warning", "loo_i", "scale"]
    values = [elpd, error, math.nan, 0, len(rows), False, by_row, "log"]
    return ELPDData(data=values, index=names)
