"""Removing one layer, or one argument rule, at a time: each must let a program through that it alone stopped.

Several layers often stop the same program. A layer is therefore removed from a base in which those that
overlap with it are off already; it matters if a program has its effect without it and has none with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from sandbox_parts.sandbox_canaries import TOKENS, Canaries
from sandbox_parts.sandbox_corpus import Case, CorpusRunner

from synthstats_lightning.confinement import Level
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import Sandbox, SandboxError, SandboxLimits

LIMITS = SandboxLimits(cpu_seconds=2, wall_seconds=3.0, processes=400)


class Mutation(NamedTuple):
    """One layer or rule.

    Attributes:
        name: As `Confiner` knows it.
        cases: Ids of the programs that it alone should stop.
        level: Of the sandbox.
        base: Layers that are off with it and without it.
        root: Whether it runs as root rather than as an ordinary user.
    """

    name: str
    cases: tuple[str, ...]
    level: Level = "strict"
    base: tuple[str, ...] = ()
    root: bool = False


_KERNEL = ("seccomp", "landlock")

MUTATIONS = [
    Mutation("seccomp", ("fs-chmod-replay", "net-udp", "kern-shmget", "proc-renice-victim")),
    Mutation("landlock", ("plain-open-read", "ast-codecs-open"), "standard", ("tree",)),
    Mutation("tree", (), "standard"),
    Mutation("no_new_privileges", ("layer-privileges",), base=_KERNEL),
    Mutation("user", ("fs-chmod-replay", "fs-write-home"), base=_KERNEL, root=True),
    Mutation("capabilities", ("layer-capabilities",), base=(*_KERNEL, "user"), root=True),
    Mutation("descriptors", ("layer-descriptors",)),
    Mutation("death_signal", ()),
    Mutation("not_dumpable", ()),
    *(
        Mutation(f"argument:{name}", cases, base=("landlock",))
        for name, cases in {
            "clone": ("arg-fork", "proc-fork-dup-work"),
            "clone3": ("arg-clone3",),
            "kill": ("arg-kill", "proc-kill-victim"),
            "tgkill": ("arg-tgkill",),
            "ioctl": ("arg-ioctl",),
            "fcntl": ("arg-fcntl", "arg-fcntl-owner"),
            "prctl": ("arg-prctl", "arg-prctl-dumpable"),
            "prlimit64": ("arg-prlimit",),
            "sched_getaffinity": ("arg-affinity",),
            "getpgid": ("arg-group",),
            "getsid": ("arg-session",),
            "clock_gettime": ("arg-clock",),
            "clock_getres": ("arg-clock-resolution",),
            "clock_nanosleep": ("arg-clock-sleep",),
            "timer_create": ("arg-timer",),
        }.items()
    ),
    Mutation("argument:open", ("arg-open",), "standard", ("landlock", "tree")),
    Mutation("argument:openat", ("arg-openat", "arg-truncate"), "standard", ("landlock", "tree")),
]


def run_mutation(name: str, cases: list[Case], canaries: Canaries) -> dict[str, Any]:
    """Programs that have their effect with a layer and without it.

    Args:
        name: Of one of `MUTATIONS`.
        cases: The whole corpus.
        canaries: What the programs may not reach.

    Returns:
        `with` and `without` it: programs that had their effect, and what was seen; and `matters`.
    """
    mutation = next(entry for entry in MUTATIONS if entry.name == name)
    _prepare(canaries)
    chosen = [case for case in cases if case["id"] in mutation.cases]
    found: dict[str, Any] = {}
    for key, without in (("with", mutation.base), ("without", (*mutation.base, mutation.name))):
        try:
            with Sandbox(LIMITS, level=mutation.level, without=without) as sandbox:
                if mutation.name in _WATCHED:
                    found[key] = _WATCHED[mutation.name](sandbox)
                else:
                    found[key] = dict(CorpusRunner(sandbox, canaries).run(chosen).effects)
        except SandboxError as error:
            found[key] = {}
            found["refused"] = str(error)
    return {**found, "matters": bool(set(found["without"]) - set(found["with"]))}


def _prepare(canaries: Canaries) -> None:
    """Files of root and of another user, as far as this process may make them."""
    foreign, of_root = canaries.folder / "foreign", canaries.folder / "of_root"
    foreign.write_text("CANARY-FOREIGN-OK")
    foreign.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(foreign, 12345, 12345)
    elif SETUID.exists():
        canaries.folder.joinpath("setuid").symlink_to(SETUID)
        of_root.symlink_to(SETUID.with_name("of_root"))


SETUID = Path("/run/sandbox-bench/cat")
"""A copy of `cat` that runs as root, which an ordinary user's part of the benchmark may try to profit by."""


def make_setuid() -> None:
    """Makes it; only root can, and only for the time of the benchmark."""
    SETUID.parent.mkdir(mode=0o755, exist_ok=True)
    shutil.copy(shutil.which("cat") or "/bin/cat", SETUID)
    SETUID.chmod(0o4755)
    secret = SETUID.with_name("of_root")
    secret.write_text(TOKENS["KEY"])
    secret.chmod(0o600)


def remove_setuid() -> None:
    """Removes it."""
    shutil.rmtree(SETUID.parent, ignore_errors=True)


def _outlives(sandbox: Sandbox) -> dict[str, str]:
    """Whether a program goes on when its worker is killed."""
    with _sleeping(sandbox) as child:
        assert sandbox.pid is not None
        os.kill(sandbox.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10.0
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not _runs(child):
            return {}
        os.kill(child, signal.SIGKILL)
        return {"a program that sleeps": "outlived its worker by 10 s"}


def _readable(sandbox: Sandbox) -> dict[str, str]:
    """Whether another process of the same user can read a program's memory."""
    with _sleeping(sandbox) as child:
        reader = subprocess.run(["head", "-c1", f"/proc/{child}/environ"], capture_output=True, check=False)
        return {"a program that sleeps": "its environment could be read"} if reader.returncode == 0 else {}


def _sees(sandbox: Sandbox) -> dict[str, str]:
    """Whether a program can tell which paths exist."""
    printed = sandbox.execute(f"import os\nprint(os.path.exists('/proc/{os.getpid()}'))")
    return {"a program that looks around": "saw the trainer in /proc"} if printed == "True\n" else {}


class _sleeping:
    """A program that sleeps in a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox.start()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._sandbox.execute("import time; time.sleep(30)")
        except (ProgramFailure, SandboxError):
            return  # it is killed in the test

    def __enter__(self) -> int:
        worker = self._sandbox.pid
        self._thread.start()
        children: Collection[str] = ()
        while not children:
            time.sleep(0.02)
            children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        # the child confines itself first
        time.sleep(0.2)
        return int(next(iter(children)))

    def __exit__(self, *error: object) -> None:
        self._thread.join()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


_WATCHED = {"death_signal": _outlives, "not_dumpable": _readable, "tree": _sees}
