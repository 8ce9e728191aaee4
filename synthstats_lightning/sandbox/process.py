"""The trusted side's handle on one worker process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path

from synthstats_lightning.confinement import Level
from synthstats_lightning.runtime.child_process import ChildProcess, StartError
from synthstats_lightning.runtime.frames import ConnectionLost
from synthstats_lightning.runtime.process_clock import Patience
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.messages import one_line
from synthstats_lightning.sandbox.outcome import Outcome
from synthstats_lightning.sandbox.scratch import make_scratch, remove_tree

START_SCRIPT = Path(__file__).parent / "inside" / "start.py"
INHERITED = ("LD_LIBRARY_PATH",)
"""The only environment variables that reach a worker: what its shared libraries need to be found."""
PYTENSOR_FLAGS = (
    "cxx=,mode=FAST_COMPILE,floatX=float64,numba__cache=False,traceback__limit=0,compiledir={folder}/pytensor"
)
"""No compiler, no generated files, and the mode that is fastest without one."""
_GRACE = 10.0
"""Seconds on end in which a worker may show no sign of life; while a program runs it looks after it."""
_MAX_OUTCOME = 1 << 16


class SandboxError(StartError):
    """A worker cannot be started, or cannot do its work; not the fault of any program."""


class WorkerProcess(ChildProcess):
    """A worker process, from its start to its removal.

    The constructor returns at once; `wait_ready` waits until PyMC is imported and warm.

    Args:
        limits: Limits of each program.
        level: How strictly the kernel confines each program.
        without: Layers and argument rules left out; for the tests that show each to matter.
    """

    start_error = SandboxError

    def __init__(self, limits: SandboxLimits, level: Level = "strict", without: Collection[str] = ()) -> None:
        self.limits = limits
        self.memory = 0
        self._folder = make_scratch()
        search = [entry for entry in sys.path if os.path.isabs(entry) and os.path.exists(entry)]
        root = str(Path(__file__).resolve().parents[2])
        super().__init__(
            "sandbox worker",
            ["-I", "-B", str(START_SCRIPT), json.dumps([*search, root])],
            worker_environment(self._folder),
            self._folder,
        )
        settings = {
            "limits": limits.to_dict(),
            "folder": str(self._folder),
            "level": level,
            "without": sorted(without),
        }
        # fits into the empty pipe: the worker reads it when it has imported what it needs
        with contextlib.suppress(ConnectionLost):
            self.send(settings, _GRACE)

    def resident(self) -> int:
        """Bytes of memory that the worker holds now; 0 if it is gone."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def wait_ready(self, timeout: float) -> None:
        """Waits until the worker takes programs; see `ChildProcess.wait_ready`.

        Raises:
            SandboxError: If it died or did not become ready.
        """
        if self.greeting is None:
            super().wait_ready(timeout)
            self.memory = self.resident()

    def run(self, request: bytes) -> tuple[Outcome, bytes, bytes]:
        """Has one program run.

        Args:
            request: An encoded `Job`.

        Returns:
            How it ended, its result document and what it printed.

        Raises:
            ConnectionLost: If the worker died.
            DeadlinePassed: If the worker hangs or is stopped.
        """
        patience = Patience(self.pid, silence=_GRACE)
        self.send(request, patience)
        outcome = Outcome.decode(self.receive(_MAX_OUTCOME, patience))
        document = self.receive(self.limits.output_bytes, patience)
        log = self.receive(self.limits.log_bytes, patience)
        return outcome, document, log

    def last_words(self) -> str:
        """See `ChildProcess.last_words`; a program may have had a hand in them."""
        return one_line(super().last_words())

    def kill(self) -> None:
        """Ends the worker, whatever it is doing, and removes its folder. May be called twice."""
        # the program's process has the worker's death as its own death signal
        super().kill()
        if self._owner == os.getpid():
            remove_tree(self._folder)


def worker_environment(folder: Path) -> dict[str, str]:
    """All of a worker's environment: a home of its own, one thread, nothing of the trainer's.

    Args:
        folder: The worker's scratch folder.
    """
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    for threads in ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS"):
        environment[f"{threads}_NUM_THREADS"] = "1"
    home = str(folder)
    return environment | {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": home,
        "TMPDIR": home,
        "XDG_CACHE_HOME": home,
        "XDG_CONFIG_HOME": home,
        "MPLCONFIGDIR": home,
        "MPLBACKEND": "Agg",
        "PYTENSOR_FLAGS": PYTENSOR_FLAGS.format(folder=home),
    }
