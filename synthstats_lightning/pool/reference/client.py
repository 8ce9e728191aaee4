"""The caller's end of the reference engine: a program and its data in, a score out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.pool.reference.settings import ReferenceSettings, Sampler
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.programs.graph import View
from synthstats_lightning.runtime.child_process import ChildProcess
from synthstats_lightning.runtime.frames import ConnectionLost, DeadlinePassed, pack, unpack
from synthstats_lightning.runtime.process_clock import Patience
from synthstats_lightning.scoring.process.confinement import scorer_environment
from synthstats_lightning.scoring.score import Score

MAX_ANSWER = 1 << 26
"""Bytes of the largest answer."""


def score_with_reference(
    source: str,
    columns: Mapping[str, NDArray[np.generic]],
    response: str,
    sampler: Sampler,
    *,
    settings: ReferenceSettings | None = None,
    sandbox: Level = "strict",
    views: Mapping[str, View] = MappingProxyType({}),
    words: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    own_names: Mapping[str, str] = MappingProxyType({}),
) -> Score:
    """Scores a program by PyMC's own samplers, in a confined process of its own.

    The program runs with the response's real values, unlike in the sandbox: the score checks the engine, and
    scores models that the engine declines, but it is only as honest as the program. The model must observe
    the response, once, and have no potentials.

    Args:
        source: The program.
        columns: Column name to values `[rows]`, the response among them.
        response: Name of the response column.
        sampler: `"nutpie"` (elpd alone) or `"pymc"` (elpd, and evidence by sequential Monte Carlo).
        settings: Draws, acceptance and limits.
        sandbox: `"none"` to run unconfined; every other level confines the process.
        views: What the program may use besides, by name, as in the sandbox.
        words: Covariate name to what its numbers from 0 are called in the table.
        own_names: Name of a column in the table to that by which programs have it, where they differ.

    Returns:
        The score, or the failure and its reason.

    Raises:
        ValueError: If the sampler, the level or the response is unknown.
    """
    if sampler not in ("nutpie", "pymc"):
        raise ValueError(f"reference must be 'nutpie' or 'pymc', got {sampler!r}")
    if response not in columns:
        raise ValueError(f"response {response!r} is no column; columns: {', '.join(columns)}")
    settings = settings or ReferenceSettings()
    job = {
        "source": source,
        "columns": {name: np.asarray(values) for name, values in columns.items()},
        "views": {name: asdict(view) for name, view in views.items()},
        "words": {name: list(own) for name, own in words.items()},
        "own_names": dict(own_names),
        "response": response,
        "sampler": sampler,
        "settings": asdict(settings),
        "confined": check_level(sandbox) != "none",
    }
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **scorer_environment(),
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "RAYON_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            # compiled in memory: a confined process starts no compiler and writes no file
            "PYTENSOR_FLAGS": f"mode=NUMBA,cxx=,numba__cache=False,base_compiledir={folder}",
            # ArviZ notes a warning of the day there; processes that share the note are in each other's way
            "XDG_CACHE_HOME": folder,
            "MPLCONFIGDIR": folder,
        }
        child = ChildProcess(
            "reference engine", ["-m", "synthstats_lightning.pool.reference.worker"], environment
        )
        limit = settings.time_limit
        try:
            patience = Patience(child.pid, silence=limit, computing=limit)
            child.send(pack(job), patience)
            return Score.from_dict(unpack(child.receive(MAX_ANSWER, patience)))
        except DeadlinePassed:
            message = f"the reference engine was ended after {limit:g} seconds of processor time"
            return Score.failed(FailureCategory.SCORER_LIMIT, message, limit)
        except ConnectionLost:
            said = child.last_words() or "it wrote nothing"
            return Score.failed(FailureCategory.KILLED, f"the reference engine's process died: {said}")
        finally:
            child.kill()
