"""Posterior draws as plain arrays, which cross from the scoring process and become ArviZ data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.generic]


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of parameters and responses.

    Attributes:
        parameters: Parameters and derived quantities by name, on their own scale `[chains, draws, *shape]`.
        log_likelihood: Log density of each scored row given the others and the parameters
            `[chains, draws, rows]`.
        predictive: Replicated responses `[chains, draws, rows]`, NaN where they are undefined.
        estimator: What the draws come from: `"importance"` or `"smc"`.
        effective_sample_size: What the draws are worth, in draws.
        evidence: Log evidence of all rows, in nats; NaN from a sampler that has none.
    """

    parameters: Mapping[str, Values]
    log_likelihood: Values
    predictive: Values
    estimator: str
    effective_sample_size: float
    evidence: float

    def to_json(self) -> dict[str, Any]:
        """Lists and numbers; those that JSON lacks become strings."""
        return {
            "parameters": {name: _to_list(values) for name, values in self.parameters.items()},
            "log_likelihood": _to_list(self.log_likelihood),
            "predictive": _to_list(self.predictive),
            "estimator": self.estimator,
            "effective_sample_size": self.effective_sample_size,
            "evidence": repr(self.evidence),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PosteriorDraws:
        """The inverse of `to_json`."""
        parameters = {name: _from_list(values) for name, values in document["parameters"].items()}
        return cls(
            parameters=parameters,
            log_likelihood=_from_list(document["log_likelihood"]),
            predictive=_from_list(document["predictive"]),
            estimator=document["estimator"],
            effective_sample_size=document["effective_sample_size"],
            evidence=float(document["evidence"]),
        )


def _to_list(values: Values) -> dict[str, Any]:
    flat = values.reshape(-1).tolist()
    if not np.isfinite(values.astype(np.float64)).all():
        flat = [value if math.isfinite(value) else repr(value) for value in flat]
    return {"shape": list(values.shape), "values": flat}


def _from_list(document: Mapping[str, Any]) -> Values:
    values = [float(value) for value in document["values"]]
    return np.asarray(values, dtype=np.float64).reshape(document["shape"])
