"""The trusted side's handle on one worker process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from synthstats_lightning.confinement import Level
from synthstats_lightning.sandbox import protocol
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


class SandboxError(RuntimeError):
    """A worker cannot be started, or cannot do its work; not the fault of any program."""


class WorkerKilled(SandboxError):
    """A worker died from a signal while it started: from outside, so that another may succeed."""


class WorkerProcess:
    """A worker process, from its start to its removal.

    The constructor returns at once; `wait_ready` waits until PyMC is imported and warm.

    Args:
        limits: Limits of each program.
        level: How strictly the kernel confines each program.
        without: Layers and argument rules left out; for the tests that show each to matter.
    """

    def __init__(self, limits: SandboxLimits, level: Level = "strict", without: Collection[str] = ()) -> None:
        self.limits = limits
        self.level = level
        self.started = time.monotonic()
        self.memory = 0
        self.info: dict[str, Any] | None = None
        """What the worker tells of itself once it is ready."""
        self._owner = os.getpid()
        self._folder = make_scratch()
        # a file without a name: bounded by what the worker itself says, programs have a pipe of their own
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        search = [entry for entry in sys.path if os.path.isabs(entry) and os.path.exists(entry)]
        root = str(Path(__file__).resolve().parents[2])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(START_SCRIPT), json.dumps([*search, root])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=worker_environment(self._folder),
            cwd=self._folder,
            start_new_session=True,
            bufsize=0,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise SandboxError("the worker has no pipes")
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        settings = {
            "limits": limits.to_dict(),
            "folder": str(self._folder),
            "level": level,
            "without": sorted(without),
        }
        # fits into the empty pipe: the worker reads it when it has imported what it needs
        with contextlib.suppress(protocol.ConnectionLost):
            protocol.write_frame(self._input, json.dumps(settings).encode(), time.monotonic() + _GRACE)

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether the worker runs and belongs to this process (a fork of the trainer must start its own)."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Whether it has something to say, so that `wait_ready` returns or raises at once."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        return bool(poll.poll(0))

    def resident(self) -> int:
        """Bytes of memory that the worker holds now; 0 if it is gone."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def wait_ready(self, timeout: float) -> None:
        """Waits until the worker takes programs.

        Args:
            timeout: Seconds from now.

        Raises:
            SandboxError: If it died or did not become ready.
        """
        if self.info is not None:
            return
        deadline = time.monotonic() + timeout
        try:
            self.info = json.loads(protocol.read_frame(self._output, 1 << 16, deadline))
        except (protocol.ConnectionLost, protocol.DeadlinePassed) as error:
            reason = (
                "died" if isinstance(error, protocol.ConnectionLost) else f"was not ready after {timeout:g} s"
            )
            said = self._said()
            self.kill()
            kind = WorkerKilled if reason == "died" and self._process.returncode < 0 else SandboxError
            raise kind(f"the sandbox worker {reason}{': ' + said if said else ''}") from None
        self.memory = self.resident()

    def run(self, request: bytes) -> tuple[Outcome, bytes, bytes]:
        """Has one program run.

        Args:
            request: An encoded `Job`.

        Returns:
            How it ended, its result document and what it printed.

        Raises:
            ConnectionLost: If the worker died.
            DeadlinePassed: If the worker did not answer within the program's deadline and some grace.
        """
        deadline = time.monotonic() + self.limits.wall_seconds + _GRACE
        protocol.write_frame(self._input, request, deadline)
        outcome = Outcome.decode(protocol.read_frame(self._output, 1 << 16, deadline))
        document = protocol.read_frame(self._output, self.limits.output_bytes, deadline)
        log = protocol.read_frame(self._output, self.limits.log_bytes, deadline)
        return outcome, document, log

    def kill(self) -> None:
        """Ends the worker, whatever it is doing, and removes its folder. May be called twice."""
        if self._owner == os.getpid():
            # the program's process has the worker's death as its own death signal
            self._process.kill()
            self._process.wait()
            remove_tree(self._folder)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def stop(self, timeout: float = 5.0) -> None:
        """Lets the worker end by closing its input, and kills it if it does not."""
        if self._owner == os.getpid() and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()

    def _said(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return one_line(lines[-1]) if lines else ""


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
