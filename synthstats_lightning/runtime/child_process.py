"""A Python process that answers requests: started, asked, waited for and ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from synthstats_lightning.runtime.frames import (
    ConnectionLost,
    Deadline,
    DeadlinePassed,
    Watch,
    read_frame,
    write_frame,
)
from synthstats_lightning.runtime.process_clock import Patience

MAX_GREETING = 1 << 16
"""Bytes of what a child says once it is ready."""
_ENDING_SECONDS = 5.0
"""A child that fails has hung up before it ends, and its exit status tells why."""
_FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM})


class StartError(RuntimeError):
    """A child process did not come up.

    Attributes:
        killed: Whether a signal from outside ended it, such as for lack of memory, so that another may
            succeed; otherwise the installation is at fault.
    """

    killed = False


class ChildProcess:
    """A child that reads requests from its standard input and writes replies to its standard output.

    The constructor returns at once. In a fork of this process the child is not `usable`, and is left alone.

    Args:
        name: What messages call it.
        arguments: What follows the interpreter on its command line.
        environment: All of its environment.
        folder: Its working directory; that of this process by default.
    """

    start_error: ClassVar[type[StartError]] = StartError

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.started = time.monotonic()
        self.greeting: dict[str, Any] | None = None
        """What the child tells of itself once it is ready."""
        self._owner = os.getpid()
        # a file without a name: bounded by what the child itself says, programs have a pipe of their own
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        # a session of its own: Ctrl-C in a terminal must reach the trainer only, which then ends its children
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            bufsize=0,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise StartError(f"the {name} has no pipes")
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it runs and belongs to this process (a fork of the trainer must start its own)."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Whether it has something to say, so that `wait_ready` returns or raises at once."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, request: Any, timeout: float | Watch) -> None:
        """Sends a request.

        Args:
            request: Bytes, or what JSON takes.
            timeout: Seconds that the child may take to read it, or what decides that.

        Raises:
            ConnectionLost: If the child died.
            DeadlinePassed: If it did not read in time.
        """
        payload = request if isinstance(request, bytes) else json.dumps(request).encode()
        write_frame(self._input, payload, _deadline(timeout))

    def receive(self, limit: int, timeout: float | Watch) -> bytes:
        """Waits for a frame of a reply.

        Args:
            limit: Its largest size in bytes.
            timeout: Seconds from now, or what decides how long to wait.

        Raises:
            ConnectionLost: If the child died, or sent more than `limit`.
            DeadlinePassed: If nothing came in time.
        """
        return read_frame(self._output, limit, _deadline(timeout))

    def wait_ready(self, timeout: float) -> None:
        """Waits until the child says that it takes requests, and kills it if it does not.

        Args:
            timeout: Seconds of processor time that it may take, and of silence on end; other people's load
                only makes it later.

        Raises:
            StartError: If it died or did not become ready.
        """
        if self.greeting is not None:
            return
        try:
            patience = Patience(self.pid, silence=timeout, computing=timeout)
            self.greeting = json.loads(self.receive(MAX_GREETING, patience))
        except (ConnectionLost, DeadlinePassed) as error:
            died = isinstance(error, ConnectionLost)
            reason = "died" if died else f"was not ready after {timeout:g} s"
            if died:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_ENDING_SECONDS)
            said = self.last_words()
            failure = self.start_error(f"the {self.name} {reason}{': ' + said if said else ''}")
            failure.killed = died and self._process.returncode in _FROM_OUTSIDE
            self.kill()
            raise failure from None

    def last_words(self) -> str:
        """The last line that it wrote to standard error, of 2,000 bytes at most; empty if there is none."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def interrupt(self) -> None:
        """Ends it while another thread waits for its answer, which then finds the connection lost."""
        if self._owner == os.getpid():
            self._process.kill()

    def kill(self) -> None:
        """Ends it, whatever it is doing. May be called twice."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def stop(self, timeout: float = 5.0) -> None:
        """Lets it end by closing its input, and kills it if it does not."""
        if self._owner == os.getpid() and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()


def _deadline(timeout: float | Watch) -> Deadline:
    return time.monotonic() + timeout if isinstance(timeout, int | float) else timeout
