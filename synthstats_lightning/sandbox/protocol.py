"""What the trainer asks of a sandbox worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from synthstats_lightning.programs.graph import DataSchema, EventColumn, View
from synthstats_lightning.runtime.frames import pack, unpack

MAX_REQUEST = 1 << 30
"""Bytes of the largest request (covariates of a large data set)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One program to run.

    Attributes:
        source: Python source of the program.
        build: Whether to extract a model graph; otherwise the program is only run to its end.
        schema: Columns and response, if the program has data.
        covariates: Column name to values of shape `(num_rows,)`. The response is not among them.
    """

    source: str
    build: bool
    schema: DataSchema | None
    covariates: Mapping[str, NDArray[Any]]

    def encode(self) -> bytes:
        """The job as one frame."""
        # what values the response has is none of the sandbox's business
        schema = None if self.schema is None else asdict(self.schema) | {"response_whole": False}
        return pack(
            {
                "source": self.source,
                "build": self.build,
                "schema": schema,
                "covariates": dict(self.covariates),
            }
        )

    @classmethod
    def decode(cls, payload: bytes) -> Job:
        """The inverse of `encode`."""
        fields = unpack(payload)
        schema = None
        if fields["schema"] is not None:
            views = {name: View(**view) for name, view in fields["schema"]["views"].items()}
            events = {name: EventColumn(**event) for name, event in fields["schema"]["events"].items()}
            levels = tuple(fields["schema"]["response_levels"])
            words = {name: tuple(own) for name, own in fields["schema"]["words"].items()}
            known = {"views": views, "events": events, "response_levels": levels, "words": words}
            schema = DataSchema(**{**fields["schema"], **known})
        return cls(**{**fields, "schema": schema})
