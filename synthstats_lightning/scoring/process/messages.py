"""What a scoring process is told, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from synthstats_lightning.programs.graph import DataSchema

Array = np.ndarray[Any, np.dtype[Any]]
MAX_REQUEST = 1 << 30
"""Bytes of the largest request (the columns of a large data set)."""


@dataclass(frozen=True)
class TaskMessage:
    """What a scoring process is told of a task.

    Attributes:
        schema: Names, dtypes and number of rows.
        covariates: Column name to values.
        response: Values of the response.
        shown_rows: Rows that only condition.
        fingerprint: Hash of all of these.
        rounding: Spacing of the values that the response was recorded to, if it was rounded.
        held_out: Last rows, that evidence and elpd do not count.
        quantities: Names that a program must declare by `pm.Deterministic`.
        limits: Where a continuous response may be censored: `"lower"`, `"upper"`.
        log_jacobian: What each row's log density lacks to be one of the measured response, in nats, where
            `response` is a transform of it.
        censoring: `"upper"` and `"lower"` to the column that says where each row was cut short.
        constants: Values of columns that are the same in all rows, which model graphs hold as numbers.
    """

    schema: DataSchema
    covariates: Mapping[str, Array]
    response: Array
    shown_rows: int
    fingerprint: str
    rounding: float | None = None
    held_out: int = 0
    quantities: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    log_jacobian: Array | None = None
    censoring: Mapping[str, str] = field(default_factory=dict)
    constants: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `runtime.frames.pack` takes."""
        schema = {
            **asdict(self.schema),
            "columns": dict(self.schema.columns),
            "views": {},
            "censoring": {},
            "events": {},
            "response_levels": (),
            "own_names": {},
            "words": {},
        }
        return {
            **vars(self),
            "schema": schema,
            "covariates": dict(self.covariates),
            "limits": dict(self.limits),
            "censoring": dict(self.censoring),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TaskMessage:
        """The inverse of `to_json`."""
        schema, quantities = DataSchema(**document["schema"]), tuple(document["quantities"])
        return cls(**{**document, "schema": schema, "quantities": quantities})


class Identity(NamedTuple):
    """What a model graph is.

    Attributes:
        canonical: Hash of its canonical form.
        literal_copies: Values of the response that it holds as constants.
    """

    canonical: str
    literal_copies: int
