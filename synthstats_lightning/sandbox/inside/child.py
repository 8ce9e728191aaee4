"""The process that becomes one program: it gives up what it does not need, then runs untrusted source."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from synthstats_lightning.confinement import Confiner
from synthstats_lightning.confinement.privileges import set_dumpable
from synthstats_lightning.confinement.trees import Tree
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.protocol import Job

RESULT = 3
"""Descriptor of the result pipe; 1 and 2 are the log pipe, 0 is empty, and no other is open."""
_NEEDED = 4
"""First descriptor of what confinement needs, closed before the program starts."""

confinement_seconds = 0.0
"""What confining this process took; for benchmarks, whose programs read it."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What one program gets.

    Attributes:
        limits: Resource limits of the program.
        confiner: What the kernel is asked to refuse.
        folder: Its private folder, the working directory; `None` where it may not write anywhere.
        user: User id to become, or `None` to stay.
        parent: Process id of the worker, with which the program dies.
        mapped: Bytes of address space that the worker has mapped.
    """

    limits: SandboxLimits
    confiner: Confiner
    folder: Path | None
    user: int | None
    parent: int
    mapped: int


def become_program(job: Job, confinement: Confinement, result: int, log: int) -> NoReturn:
    """Confines this freshly forked process, runs the program, writes its result and ends.

    Args:
        job: The program and what it is built for.
        confinement: What it gets.
        result: Descriptor to write the result document to.
        log: Descriptor for everything printed.
    """
    status = 1
    try:
        _confine(confinement, *_take_descriptors(result, log, confinement.confiner))
        from synthstats_lightning.sandbox.inside import program

        document = program.run(job, confinement.limits.output_bytes)
        sys.stdout.flush()
        sys.stderr.flush()
        _write(document)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _take_descriptors(result: int, log: int, confiner: Confiner) -> tuple[int | None, Tree | None]:
    """Leaves only the log, the result pipe and what confinement needs: ruleset and tree."""
    needed = {"ruleset": confiner.ruleset, **(confiner.tree._asdict() if confiner.tree else {})}
    kept_result, kept_log = os.dup(result), os.dup(log)
    kept = {name: os.dup(found) for name, found in needed.items() if found is not None}
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(kept_log, 1)
    os.dup2(kept_log, 2)
    os.dup2(kept_result, RESULT, inheritable=False)
    places = dict(zip(kept, range(_NEEDED, 64), strict=False))
    for name, place in places.items():
        os.dup2(kept[name], place, inheritable=False)
    if not confiner.leaves_out("descriptors"):
        os.closerange(_NEEDED + len(places), os.sysconf("SC_OPEN_MAX"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # what a program prints before it is killed, and in order with its errors
        sys.stdout.reconfigure(line_buffering=True)
    tree = Tree(places["mount"], places.get("user")) if confiner.tree else None
    return places.get("ruleset"), tree


def _confine(confinement: Confinement, ruleset: int | None, tree: Tree | None) -> None:
    global confinement_seconds
    started = time.perf_counter()
    os.setsid()
    os.chdir(confinement.folder or "/")
    _set_limits(confinement.limits, confinement.mapped)
    _tell_scheduler()
    os.environ.clear()
    tempfile.tempdir = os.curdir
    confinement.confiner.apply(confinement.user, confinement.parent, ruleset, tree)
    confinement_seconds = time.perf_counter() - started


def _tell_scheduler() -> None:
    """Asks to go first where memory runs out, and to keep the worker's niceness in this new session.

    Best effort: some containers allow neither, and the kernel takes few changes a second from ordinary users.
    """
    # what a process that is not dumpable has in /proc belongs to root; the worker is one
    set_dumpable(True)
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    for file, value in (("oom_score_adj", 1000), ("autogroup", niceness)):
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/self/{file}", os.O_WRONLY)
            try:
                os.write(descriptor, b"%d" % value)
            finally:
                os.close(descriptor)


def _set_limits(limits: SandboxLimits, mapped: int) -> None:
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_AS, mapped + limits.address_space, mapped + limits.address_space),
        # the hard limit kills a program that ignores the signal of the soft one
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_FSIZE, limits.file_size, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        # the program itself counts too
        (
            resource.RLIMIT_NPROC,
            limits.processes and limits.processes + 1,
            limits.processes and limits.processes + 1,
        ),
    ):
        _lower(kind, soft, hard)


def _lower(kind: int, soft: int, hard: int) -> None:
    ceiling = resource.getrlimit(kind)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def _write(document: bytes) -> None:
    view = memoryview(document)
    while view:
        view = view[os.write(RESULT, view) :]
