"""Confinement of the scoring process: it never runs a program, but it computes what a program asks for."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence

from synthstats_lightning.confinement import ConfinementUnavailable, Confiner
from synthstats_lightning.confinement.landlock import interpreter_paths

INHERITED = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "VIRTUAL_ENV")
"""Environment variables that reach a scoring process; keys and tokens of the trainer do not."""
INHERITED_KINDS = ("ATEN_", "DNNL_", "KMP_", "LC_", "MKL_", "NPY_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTHON")
"""Beginnings of the names of others that do."""
PACKAGES = ("synthstats_lightning", "torch", "numpy", "scipy")
"""Packages that it may still import from."""


def scorer_environment() -> dict[str, str]:
    """What of this process's environment a scoring process gets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_KINDS)
    }


def confine_scorer(
    memory_bytes: int | None,
    packages: Sequence[str] = PACKAGES,
    *,
    confined: bool = True,
    runs_programs: bool = False,
) -> None:
    """Confines this process, for good: no network, processes or privileges, no file but the interpreter's.

    Unlike a program, it keeps its user and may read the interpreter's files, because libraries import lazily.

    Args:
        memory_bytes: Limit of its private memory, in bytes; `None` for no limit.
        packages: What it may still import from.
        confined: Whether the kernel is asked for more than that limit.
        runs_programs: Whether it runs a program's code, and so must not go on where files cannot be refused.

    Raises:
        ConfinementUnavailable: If this machine cannot confine it.
        OSError: If the kernel refuses a layer.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if not confined:
        return
    # the death signal would follow the trainer's thread that started this process, not the trainer
    without = {"death_signal"}
    try:
        confiner = Confiner("standard", interpreter_paths(packages), without=without)
    except ConfinementUnavailable:
        if runs_programs:
            raise
        # an old kernel or a container without Landlock: seccomp still allows nothing to be changed
        confiner = Confiner("standard", without=without | {"landlock"})
    confiner.apply(user=None, parent=os.getppid(), ruleset=confiner.ruleset)
