"""Where the served scorer listens, and what it takes on."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
BACKLOG = 128
"""Connections that wait to be accepted."""


@dataclass(frozen=True)
class ServerSettings:
    """Where the served scorer listens, and what it takes on.

    Attributes:
        host: Address to listen at; by default only this machine can connect.
        port: Port to listen at; with 0 the system chooses a free one.
        api_key_env: Name of the environment variable with the key that requests must bring as
            `Authorization: Bearer KEY`; with `None` everyone who can connect may ask.
        queue: Most programs that are taken on and not yet answered; beyond them requests get status 429.
        timeout_s: Seconds after which a request that has no score yet gets status 504.
        grace_s: Seconds that what was taken on may still take once the server is told to stop.
        body_bytes: Largest body of a request, in bytes.
        body_s: Seconds in which a request's head and body must have arrived.
        connections: Most connections at once; beyond them requests get status 503.
        known_scores: Scores that are remembered, so that they need not be computed again.

    Raises:
        ValueError: If a number is out of range.
    """

    host: str = LOOPBACK
    port: int = 8765
    api_key_env: str | None = None
    queue: int = 64
    timeout_s: float = 120.0
    grace_s: float = 30.0
    body_bytes: int = 1_000_000
    body_s: float = 10.0
    connections: int = 512
    known_scores: int = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, got {self.port}")
        for name in ("queue", "body_bytes", "connections", "known_scores"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("timeout_s", "grace_s", "body_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a positive number of seconds, got {getattr(self, name)}")

    def key(self) -> str | None:
        """The key that requests must bring; `None` if none is asked for.

        Raises:
            ValueError: If the environment has no key of that name, or one that no header can hold.
        """
        if self.api_key_env is None:
            return None
        found = os.environ.get(self.api_key_env, "")
        if not found or not found.isascii() or not found.isprintable() or found != found.strip():
            raise ValueError(
                f"api_key_env must name a variable of the environment that holds a key of printable ASCII"
                f" without spaces at its ends, got {self.api_key_env!r}"
            )
        return found


def is_public(host: str) -> bool:
    """Whether others than this machine can connect to an address.

    Args:
        host: Address or name, as it is listened at.
    """
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def listening_socket(settings: ServerSettings) -> socket.socket:
    """A socket that listens.

    Args:
        settings: Where it listens.

    Raises:
        ValueError: If the port is in use, or may not be listened at, or there is no such address.
    """
    where = f"port {settings.port} of {settings.host}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"host must be an address of this machine, got {settings.host!r} ({error})"
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ValueError(f"cannot listen at {where}: {error.strerror}") from None
    return listener
