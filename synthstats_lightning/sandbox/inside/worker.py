"""The worker: a process with PyMC imported and warm that forks one child per program. Never imports torch."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from synthstats_lightning.confinement import Confiner, check_level
from synthstats_lightning.confinement.privileges import adopt_orphans, set_dumpable
from synthstats_lightning.runtime.frames import ConnectionLost, read_frame, take_pipes, write_frame
from synthstats_lightning.runtime.priorities import lower_priority
from synthstats_lightning.sandbox.inside.libraries import library_paths
from synthstats_lightning.sandbox.inside.supervise import Supervisor, TrainerGone
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.protocol import MAX_REQUEST, Job
from synthstats_lightning.sandbox.scratch import remove_tree

ABSENT = frozenset(
    {"torch", "lightning", "pytorch_lightning", "transformers", "peft", "torchmetrics", "jax", "tensorflow"}
    # which starts a thread; pandas does without
    | {"pyarrow"}
)
"""Packages that a worker never imports: they are large, start threads, and no program needs them."""
ABSENT_FROM_PYMC_5 = frozenset({"numba", "llvmlite", "zarr", "numcodecs"})
"""Likewise, where PyMC does without them: they are a third of a worker's memory."""

PRELOADED = (  # noqa: SIM905
    # what notebooks import; a program's user may not be able to read the files of the interpreter
    "abc argparse bisect calendar cmath collections contextlib copy csv dataclasses datetime decimal"
    " enum fractions functools gc getpass glob heapq importlib inspect io itertools json logging math"
    " numbers operator os pathlib pickle platform pprint random re shutil statistics string sys tempfile"
    " textwrap threading time timeit traceback types typing uuid warnings encodings.ascii"
    " encodings.latin_1 encodings.utf_16 encodings.unicode_escape encodings.raw_unicode_escape"
    " encodings.cp1252 numpy numpy.linalg numpy.random numpy.polynomial pandas scipy scipy.stats"
    " pandas.core.methods.to_dict pandas.core.reshape.reshape pandas.io.formats.csvs pandas.io.formats.html"
    " pandas.io.formats.string"
    " scipy.special scipy.optimize scipy.linalg scipy.interpolate scipy.spatial.distance matplotlib"
    " matplotlib.pyplot pytensor pytensor.tensor pytensor.tensor.special pymc pymc.math arviz"
    # what PyMC 6 imports when it is first used
    " pymc.printing pytensor.sparse pytensor.sparse.basic pytensor.sparse.math pytensor.sparse.sharedvar"
    " pytensor.xtensor.random.type"
).split()

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
_TRIALS = 3
"""Times that an empty program may run out of time at the start."""


class _Finder:
    """An import finder for which some packages are not installed.

    Args:
        finder: The finder that answers for everything else.
        absent: Names of the packages.
    """

    def __init__(self, finder: Any, absent: frozenset[str]) -> None:
        self._finder = finder
        self._absent = absent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._absent:
            return None
        found: ModuleSpec | None = self._finder.find_spec(name, path, target)
        return found


def serve() -> None:
    """Answers the trainer's requests until it closes the pipe or dies."""
    requests, replies = take_pipes()
    settings = json.loads(read_frame(requests, 1 << 16))
    limits, folder = SandboxLimits.from_dict(settings["limits"]), Path(settings["folder"])
    try:
        information = _warm_up()
        confiner = Confiner(
            check_level(settings["level"]),
            library_paths() if settings["level"] == "standard" else (),
            str(folder),
            without=settings["without"],
            own_tree=True,
        )
        _harden()
        information |= {"level": confiner.level, "missing": confiner.missing}
        supervisor = Supervisor(limits, confiner, folder, requests)
        _try(supervisor)
        write_frame(replies, json.dumps(information).encode())
        while True:
            job = Job.decode(read_frame(requests, MAX_REQUEST))
            outcome, document, log = supervisor.run(job)
            for frame in (outcome.encode(), document, log):
                write_frame(replies, frame)
    except (ConnectionLost, TrainerGone):
        remove_tree(folder)


def _try(supervisor: Supervisor) -> None:
    """Runs an empty program, so that a machine on which none can be confined is known before the first."""
    for _ in range(_TRIALS):
        outcome, document, log = supervisor.run(Job("", build=False, schema=None, covariates={}))
        if outcome.exit_code == 0 and document == b"{}":
            return
        if not outcome.timed_out:
            break  # a busy machine may be slow once, but this was no lack of time
    printed = log.decode("utf-8", "replace").strip()
    ended = "ran out of time" if outcome.timed_out else f"ended with exit code {outcome.exit_code}"
    raise RuntimeError(
        f"a program cannot be confined here: an empty one {ended}{': ' + printed if printed else ''}"
    )


def _harden() -> None:
    """Puts this process out of reach of programs that run as the same user, and behind the trainer."""
    lower_priority(os.getpid())
    set_dumpable(False)


def _warm_up() -> dict[str, object]:
    """Imports everything a program may need, runs one, and freezes the heap for cheap forks."""
    warnings.simplefilter("ignore")
    absent = ABSENT
    if version("pymc").startswith("5."):
        absent |= ABSENT_FROM_PYMC_5
    sys.meta_path[:] = [_Finder(finder, absent) for finder in sys.meta_path]
    adopt_orphans()
    for name in PRELOADED:
        # what is not installed no program can import
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    from synthstats_lightning.sandbox.inside import (
        drawings,
        huge_pages,
        interpreted,
        pathless,
        program,  # noqa: F401 - what a child needs is imported here
        pymc_adapter,
        response,
        stubs,
        tables,
        unneeded,
        warm,
    )

    stubs.install()
    drawings.install()
    pathless.install()
    interpreted.install()
    interpreted.keep_sources()
    tables.install()
    response.install(response.FILENAME)
    unneeded.install()
    warm.build_programs()
    gc.collect()
    gc.freeze()
    # a model makes some ten thousand objects: a collection of its own would find nothing
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    huge_pages.collapse_heap()
    return {
        "pymc": pymc_adapter.VERSION,
        "torch": "torch" in sys.modules,
        "threads": len(os.listdir("/proc/self/task")),
    }
