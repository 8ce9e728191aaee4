"""What tests compare with in ArviZ, as its releases before and from 1 on have it."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from synthstats_lightning.pool.arviz_module import arviz_module, has_data_tree


class Loo(NamedTuple):
    """ArviZ's leave-one-out: of each row, their shape parameters, the sum and its standard error."""

    pointwise: np.ndarray
    pareto_k: np.ndarray
    elpd: float
    elpd_se: float


def arviz() -> Any:
    """The module, without what it announces at import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return arviz_module()


def psislw(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed log weights and shape parameters of `[rows, draws]` of log weights.

    Args:
        log_weights: Not smoothed.
    """
    if has_data_tree(arviz()):
        from arviz_stats.base import array_stats

        return array_stats.psislw(-log_weights, r_eff=1.0, axis=-1)  # it takes log-likelihoods
    return arviz().psislw(log_weights, reff=1.0)


def log_likelihood_data(posterior: dict[str, Any], log_likelihood: dict[str, Any]) -> Any:
    """Draws with their log-likelihoods as ArviZ holds them.

    Args:
        posterior: `[chains, draws]` by name.
        log_likelihood: `[chains, draws, rows]` by name.
    """
    groups = {"posterior": posterior, "log_likelihood": log_likelihood}
    return arviz().from_dict(groups) if has_data_tree(arviz()) else arviz().from_dict(**groups)


def loo(data: Any) -> Loo:
    """Leave-one-out of draws that count as independent.

    Args:
        data: As of `log_likelihood_data`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = arviz().loo(data, pointwise=True, reff=1.0)
    if has_data_tree(arviz()):
        rows = found.elpd_i.size
        # release 1 divides by one row less
        error = float(found.se) * ((rows - 1) / rows) ** 0.5
        return Loo(found.elpd_i.values, found.pareto_k.values, float(found.elpd), error)
    return Loo(found.loo_i.values, found.pareto_k.values, float(found.elpd_loo), float(found.se))
