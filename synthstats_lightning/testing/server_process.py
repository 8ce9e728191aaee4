"""An inference server that runs as a process of its own, and may be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 900.0
LAST_LINES = 15


class ServerProcess:
    """Starts a server and waits until it answers; `kill` and `start` may be called again and again.

    Args:
        command: What starts it, with `{port}` where its port goes.
        log: File of what it says.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.port = free_port()
        self.command = [part.format(port=self.port) for part in command]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, wait: bool = True) -> None:
        """Starts the process.

        Args:
            wait: Whether to wait until it answers.

        Raises:
            RuntimeError: If it ends before that, or takes longer than `START_SECONDS`.
        """
        with self.log.open("ab") as file:
            self._process = subprocess.Popen(
                self.command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        if not wait:
            return
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                self.kill()
                last = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
                what = "takes too long" if ended is None else f"ended with status {ended}"
                raise RuntimeError("\n".join([f"the inference server {what}:", *last]))
            time.sleep(0.2)

    def answers(self) -> bool:
        """Whether it is ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Ends it and its own processes at once, whatever they are doing."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving_by(script: Path, model: Path | str, folder: Path, *options: str) -> Iterator[ServerProcess]:
    """A server of a model that runs meanwhile.

    Args:
        script: Which is told to `serve` the model, at a port, with options.
        model: Folder of the model.
        folder: Where it writes its log.
        *options: More options of the server.

    Raises:
        RuntimeError: If it does not start.
    """
    command = ["bash", str(script), "serve", str(model), "{port}", *options]
    server = ServerProcess(command, folder / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()
