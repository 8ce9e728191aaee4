"""Canaries around the sandbox: files, listeners and a process that tell from outside what happened."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

TOKENS = {
    "FILE": "CANARY-FILE-7f3a",
    "KEY": "CANARY-KEY-91bc",
    "ENV": "CANARY-ENV-55de",
    "MEM": "CANARY-MEM-0aa1",
    "HEAP": "CANARY-HEAP-c4f2",
    "HOLD": "CANARY-HOLD-2e6b",
    "REPLAY": "CANARY-REPLAY-81d0",
}
VICTIM = "import os, time\nsecret = os.environ['CANARY']\nprint('ready', flush=True)\ntime.sleep(10000)"


class Canaries:
    """What a hostile program would like to reach, owned by the user who runs it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sandbox-canaries-"))
        self.folder.chmod(0o755)
        self.heap = [{"secret": TOKENS["HEAP"]}]
        os.environ["CANARY_TOKEN"] = TOKENS["ENV"]
        self.contents: dict[str, bytes] = {}
        self._make_files()
        self.hits: list[bytes] = []
        self._sockets: list[socket.socket] = []
        self.port, self.unix = self._listen()
        self._start_victim()

    def fill(self, code: str, name: str) -> str:
        """A case's code with its placeholders filled in."""
        for key, value in {
            "CANARY": str(self.folder),
            "ID": name.replace("-", "_"),
            "PORT": str(self.port),
            "USOCK": self.unix,
            "VICTIM": str(self.victim.pid),
            "FORGED": "1000000.0",
        }.items():
            code = code.replace(f"@@{key}@@", value)
        return code

    def close(self) -> None:
        """Removes everything."""
        self.victim.kill()
        self.victim.wait()
        for listener in self._sockets:
            listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- files

    def _make_files(self) -> None:
        self.contents = {
            "secret.txt": TOKENS["FILE"].encode() + b"\n",
            "id_ed25519": TOKENS["KEY"].encode() + b"\n",
            "replay_buffer.jsonl": b'{"token": "' + TOKENS["REPLAY"].encode() + b'"}\n',
            "holdout.json": b'{"token": "' + TOKENS["HOLD"].encode() + b'"}\n',
            "lockfile": b"",
            "victim_dir/f": b"f",
        }
        for folder in ("victim_dir", "sitepkg"):
            (self.folder / folder).mkdir(exist_ok=True)
        for name, content in self.contents.items():
            self._write(name, content)
        with contextlib.suppress(ImportError):
            import xarray

            data = xarray.Dataset({"token": ("i", [TOKENS["HOLD"]])})
            with contextlib.suppress(ValueError, OSError, NotImplementedError):  # no engine of groups
                data.to_netcdf(self.folder / "holdout.nc", group="observed_data")

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        if path.is_symlink() or path.exists():
            path.chmod(0o644)
            path.unlink()
        path.write_bytes(content)
        path.chmod(0o600 if name == "id_ed25519" else 0o644)
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def tampered(self) -> list[str]:
        """Files that are not as they were; they are made anew."""
        changed = []
        for name, content in self.contents.items():
            path = self.folder / name
            try:
                found = path.lstat()
                attributes = os.listxattr(path)
                path.chmod(0o600)
                now = path.read_bytes()
            except OSError:
                changed.append(name)
                self._write(name, content)
                continue
            mode = 0o600 if name == "id_ed25519" else 0o644
            path.chmod(mode)
            if (
                now != content
                or found.st_mode & 0o7777 != mode
                or found.st_mtime != 1_700_000_000
                or attributes
            ):
                changed.append(name)
                self._write(name, content)
        return changed

    def dropped(self) -> list[str]:
        """Files that a program left in the folder or among temporary files; they are removed."""
        found = [
            path
            for folder in (self.folder, self.folder / "sitepkg", Path("/tmp"))
            for path in folder.iterdir()
            if path.name.startswith("pwned")
        ]
        for path in found:
            with contextlib.suppress(PermissionError):
                path.unlink()
        return [path.name for path in found]

    # --- network

    def _listen(self) -> tuple[int, str]:
        tcp = socket.create_server(("127.0.0.1", 0))
        port = int(tcp.getsockname()[1])
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", port))
        path = str(self.folder / "socket")
        listeners = [tcp]
        for name in (path, f"\0canary_{port}"):
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.bind(name)
            unix.listen()
            listeners.append(unix)
        for listener in listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        threading.Thread(target=self._receive, args=(udp,), daemon=True).start()
        self._sockets = [*listeners, udp]
        return port, path

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.hits.append(b"connected")
                connection.close()

    def _receive(self, udp: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.hits.append(udp.recv(4096))

    def reached(self) -> bool:
        """Whether anything came since the last call."""
        hits, self.hits = self.hits, []
        return bool(hits)

    # --- another process of the same user

    def _start_victim(self) -> None:
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-c", VICTIM],
            env={"CANARY": TOKENS["MEM"], "PATH": os.defpath},
            stdout=subprocess.PIPE,
            cwd="/",
        )
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self._victim_state = self._look()

    def _look(self) -> tuple[Any, ...]:
        pid = self.victim.pid
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        limits = tuple(resource.prlimit(pid, kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU))
        priority = os.getpriority(os.PRIO_PROCESS, pid)
        return state in "TtZX", frozenset(os.sched_getaffinity(pid)), priority, limits

    def hurt(self) -> bool:
        """Whether the victim died or changed; then another takes its place."""
        # a signal arrives when the process is next scheduled
        time.sleep(0.001)
        if self.victim.poll() is None and self._look() == self._victim_state:
            return False
        self.victim.kill()
        self.victim.wait()
        self._start_victim()
        return True


def kernel_objects() -> dict[str, int]:
    """Shared memory segments, queues, semaphores, keys and shared-memory files on this machine."""
    counts = {name: _lines(f"/proc/sysvipc/{name}") for name in ("shm", "msg", "sem")}
    counts["files"] = len(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else 0
    return counts


def _lines(path: str) -> int:
    try:
        return len(Path(path).read_text().splitlines())
    except FileNotFoundError:
        return 0
