"""The reference engine's process: one program in, one score out, then it ends.

Unlike a sandbox worker it knows the response's values, which PyMC needs to sample. It is therefore confined
by the kernel like one, is used for one program only, and its scores never enter training.
"""

from __future__ import annotations

import io
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.pool.reference.settings import ReferenceSettings
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import View
from synthstats_lightning.runtime.frames import pack, read_frame, take_pipes, unpack, write_frame
from synthstats_lightning.sandbox.inside.columns import Column, Listed, column, view_of
from synthstats_lightning.sandbox.inside.entry import Recorder, find_model
from synthstats_lightning.sandbox.inside.namespace import module_for
from synthstats_lightning.sandbox.inside.program import describe, parse
from synthstats_lightning.sandbox.messages import one_line
from synthstats_lightning.scoring.process.confinement import confine_scorer
from synthstats_lightning.scoring.process.messages import MAX_REQUEST
from synthstats_lightning.scoring.score import Score

PACKAGES = (
    "synthstats_lightning",
    "pymc",
    "pytensor",
    "arviz",
    "numpy",
    "scipy",
    "numba",
    "nutpie",
    "xarray",
)
"""Packages that it may still import from."""


def build_model(
    source: str, columns: dict[str, NDArray[Any]], rows: int, own_names: Mapping[str, str] | None = None
) -> Any:
    """Runs a program with the real data; its own sampling does nothing.

    Args:
        source: The program.
        columns: What it has by name.
        rows: Rows of the data set.
        own_names: Name of a column in the table to that by which programs have it, where they differ.

    Raises:
        ProgramFailure: As in the sandbox.
    """
    code = parse(source)
    module = module_for(columns, rows, own_names or {})
    sys.modules["__main__"] = module
    with SamplingOff(), Recorder() as recorder:
        try:
            exec(code, module.__dict__)  # noqa: S102 - the purpose of this process
        except SystemExit as error:
            if error.code not in (None, 0):
                raise
        return find_model(module, columns, rows, recorder)


def with_views(
    columns: dict[str, NDArray[Any]],
    views: dict[str, dict[str, Any]],
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, NDArray[Any]]:
    """Columns and views of them as programs have them in the sandbox, with the response's real values.

    Args:
        columns: Column name to values `[rows]`.
        views: Name to the fields of a view.
        words: Covariate name to what its numbers from 0 are called in the table.
    """
    tracked = {name: column(name, values) for name, values in columns.items()}
    rows = len(next(iter(columns.values())))
    made = {name: view_of(tracked, View(**view), rows) for name, view in views.items()}
    # sampling needs no memory of how an array was made
    found: dict[str, NDArray[Any]] = {
        name: np.asarray(values).view(Listed) for name, values in (columns | made).items()
    }
    for name, own in words.items():
        called = np.asarray(columns[name]).view(Column)
        called.words = tuple(own)
        found[name] = called
    return found


class SamplingOff:
    """A context in which sampling and criticism do nothing, as in the sandbox."""

    def __enter__(self) -> SamplingOff:
        import arviz
        import pymc

        from synthstats_lightning.sandbox.inside import drawings, stubs

        parts = [value for value in vars(arviz).values() if isinstance(value, types.ModuleType)]
        self._before = [(module, dict(vars(module))) for module in (pymc, arviz, *parts)]
        stubs.install()
        drawings.install()
        return self

    def __exit__(self, *error: object) -> None:
        for module, names in self._before:
            vars(module).update(names)


class MemoryFile(io.BytesIO):
    """Stands in for a temporary file that is written for tracebacks only: nothing reaches the disk."""

    name = "<compiled>"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()


def compile_in_memory() -> None:
    """Lets PyTensor compile without writing files, as far as it does so only to have line numbers."""
    import pytensor.link.numba.dispatch
    import pytensor.link.utils

    pytensor.link.utils.NamedTemporaryFile = MemoryFile


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The score of one job; failures of a program are answers, not exceptions."""
    from synthstats_lightning.pool.reference.engine import check_model, score_model

    columns = job["columns"]
    response = columns[job["response"]]
    try:
        model = build_model(
            job["source"],
            with_views(columns, job["views"], job["words"]),
            len(response),
            job["own_names"],
        )
        check_model(model, response)
        return score_model(model, job["sampler"], ReferenceSettings(**job["settings"])).to_dict()
    except ProgramFailure as failure:
        return Score.failed(failure.category, failure.message).to_dict()
    except MemoryError:
        return Score.failed(FailureCategory.MEMORY, "the reference engine ran out of memory").to_dict()
    except Exception as error:
        return Score.failed(FailureCategory.RAISED, one_line(describe(error))).to_dict()


def main() -> None:
    """Reads one job, answers it and ends."""
    requests, replies = take_pipes()
    job = unpack(read_frame(requests, MAX_REQUEST))
    warnings.simplefilter("ignore")
    # before the kernel is told to refuse files
    compile_in_memory()
    import matplotlib.pyplot  # noqa: F401

    import synthstats_lightning.pool.reference.engine  # noqa: F401

    if job["sampler"] == "nutpie":
        import nutpie  # noqa: F401
    confine_scorer(job["settings"]["memory_bytes"], PACKAGES, confined=job["confined"], runs_programs=True)
    with redirect_stdout(io.StringIO()):
        document = pack(answer(job))
    write_frame(replies, document)


if __name__ == "__main__":
    main()
