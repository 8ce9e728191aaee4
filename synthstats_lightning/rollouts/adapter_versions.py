"""Adapters as servers know them: a new folder and a new name for each version, never changed afterwards."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.language_part import ALL_LINEAR
from synthstats_lightning.rollouts.errors import AdapterError, RefusedError, RolloutError
from synthstats_lightning.rollouts.transport import Transport

ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers that servers adapt; others they load without a word, and leave as they are."""
FILES = ("adapter_config.json", "adapter_model.safetensors")
LATE_SECONDS = 120.0
"""For which a folder that a server does not see is looked for: network disks lag."""
LATE_PAUSE = 1.0


class AdapterVersion(NamedTuple):
    """One version of an adapter.

    Attributes:
        name: What servers call it.
        step: Training step whose weights it has.
    """

    name: str
    step: int


class AdapterVersions:
    """The versions of one run, on all servers.

    Args:
        connections: The servers that adapters are loaded on.
        folder: Where versions are written, each to a folder of its own.
        path_on_server: Where servers see that folder; `None` for the same path.
        keep: Versions besides the present one that servers keep.
        run: Beginning of the names; by default one that no other run has had.

    Attributes:
        current: What new requests name.
    """

    def __init__(
        self,
        connections: Sequence[Transport],
        folder: Path,
        path_on_server: str | None = None,
        keep: int = 2,
        run: str | None = None,
    ) -> None:
        self.connections = list(connections)
        self.folder = folder
        self.path_on_server = Path(path_on_server) if path_on_server else folder.absolute()
        self.keep = keep
        self.run = run or f"run-{uuid.uuid4().hex[:8]}"
        self.current: AdapterVersion | None = None
        self._loaded: list[AdapterVersion] = []
        self._unloaded: list[AdapterVersion] = []
        self._in_use: Counter[str] = Counter()
        self._lock = threading.Lock()

    def write(self, policy: Policy, step: int) -> AdapterVersion:
        """Writes the adapter as it is now to a folder of a new name, durably.

        Args:
            policy: Whose adapter it is.
            step: Training step whose weights it has.
        """
        version = AdapterVersion(f"{self.run}-v{step:06d}", step)
        target = self.folder / version.name
        temporary = self.folder / f".{version.name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        policy.model.save_pretrained(str(temporary), save_embedding_layers=False)
        for path in temporary.iterdir():
            if path.name not in FILES:
                path.unlink()
            else:
                _flush(path)
        temporary.rename(target)
        _flush(self.folder)
        return version

    def load(self, version: AdapterVersion) -> None:
        """Has every server load a version that is written.

        Raises:
            RolloutError: If one of them does not.
        """
        for connection in self.connections:
            self._load(connection, version)
        with self._lock:
            self._loaded.append(version)

    def reload(self, connection: Transport, version: AdapterVersion | None = None) -> None:
        """Has a server that was started anew load a version again: the same name, the same weights.

        Args:
            connection: The server that has lost its adapters.
            version: One that is written; by default the present one.
        """
        with self._lock:
            version = version or self.current
        if version is not None:
            self._load(connection, version)

    def use(self, version: AdapterVersion) -> None:
        """From now on new requests name a version, which every server has loaded; the oldest goes.

        Args:
            version: It was checked.
        """
        with self._lock:
            self.current = version
            old = self._loaded[: -self.keep - 1]
            self._loaded = self._loaded[len(old) :]
        self._unload(old)
        with self._lock:
            self._unloaded += old
            # servers evict adapters by use, and read them again from their folders: these wait as long again
            done = [each for each in self._unloaded[: -max(self.keep, 1)] if not self._in_use[each.name]]
            self._unloaded = [each for each in self._unloaded if each not in done]
        for each in done:
            shutil.rmtree(self.folder / each.name, ignore_errors=True)

    @contextmanager
    def requested(self) -> Iterator[AdapterVersion]:
        """The present version, whose folder stays while the request lasts.

        Raises:
            RolloutError: If nothing is published.
        """
        with self._lock:
            version = self.current
            if version is None:
                raise RolloutError("no adapter is published yet")
            self._in_use[version.name] += 1
        try:
            yield version
        finally:
            with self._lock:
                self._in_use[version.name] -= 1

    def close(self) -> None:
        """Takes every version off the servers, where they answer, and from the disk."""
        self._unload(self._loaded)
        for each in [*self._loaded, *self._unloaded]:
            shutil.rmtree(self.folder / each.name, ignore_errors=True)
        self._loaded, self._unloaded, self.current = [], [], None

    def _load(self, connection: Transport, version: AdapterVersion) -> None:
        path = str(self.path_on_server / version.name)
        body = {"lora_name": version.name, "lora_path": path}
        deadline = time.monotonic() + LATE_SECONDS
        while True:
            try:
                connection.ask_patiently(connection.dialect.load, body)
            except RefusedError as error:
                if "already" in error.message:
                    return
                if not connection.dialect.unseen(error) or time.monotonic() > deadline:
                    raise RolloutError(
                        f"{error}; the server must be started with {connection.dialect.hint}"
                        " have room for the adapter's rank, and see its"
                        f" folder as {path} (path_on_server)"
                    ) from None
                connection.rest(LATE_PAUSE)
            else:
                return

    def _unload(self, versions: Sequence[AdapterVersion]) -> None:
        for connection in self.connections:
            for version in versions:
                try:
                    connection.ask(connection.dialect.unload, {"lora_name": version.name})
                except RolloutError:
                    continue  # a server that is away, or was started anew, has none of it


def check_adapter(policy: Policy) -> None:
    """Refuses adapters that a server loads in part, or not at all.

    Args:
        policy: Whose adapter it is.

    Raises:
        AdapterError: If there is none, or it changes other layers.
    """
    if not policy.has_adapter:
        raise AdapterError("rollouts need an adapter to publish, got a policy without one")
    config: Any = policy.model.peft_config["default"]
    check_layers(config.target_modules, config.modules_to_save)


def check_layers(target_modules: str | Collection[str], modules_to_save: Collection[str] | None) -> None:
    """Refuses an adapter of layers that servers do not adapt.

    Args:
        target_modules: Names of the layers that are adapted, or `"all-linear"`.
        modules_to_save: Names of the layers that are trained in full.

    Raises:
        AdapterError: If there is one.
    """
    if modules_to_save:
        raise AdapterError(f"lora.modules_to_save must be null where a server samples, got {modules_to_save}")
    given = [target_modules] if isinstance(target_modules, str) else target_modules
    named = {str(name).rpartition(".")[2] for name in given} - {ALL_LINEAR}
    if others := sorted(named - set(ADAPTED)):
        raise AdapterError(
            f"lora.target_modules must be among {', '.join(ADAPTED)} where a server samples, got {others[0]}"
        )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
