"""Requests to one inference server."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from synthstats_lightning.rollouts.dialects import DIALECTS, Api
from synthstats_lightning.rollouts.errors import RefusedError, RolloutError, ServerAwayError
from synthstats_lightning.scoring.terms.chat_endpoint import FIRST_PAUSE, LONGEST_PAUSE, RETRIED

T = TypeVar("T")

CONNECT_SECONDS = 10.0
FOR_GOOD = ("is greater than max_lora_rank",)
"""What vLLM says with status 500, and will say again."""
WORDS = 500
"""Most characters that are told of a server's own words."""


class Connection:
    """Asks one server; may be used by many threads at once. A `Transport`.

    Args:
        url: Where the server is, with or without `/v1` behind it.
        api_key_env: Name of the environment variable that holds the key; `None` for none.
        timeout_s: Seconds for which a server that is connected may send nothing.
        patience_s: Seconds for which a server that is away is asked again and again.
        api: Which kind of server it is.

    Attributes:
        dialect: How it is asked for programs and told of adapters.
        trouble: Why the server is away at present; empty while it answers.
        away_since: Since when it has been, on the clock of `time.monotonic`.
        failed: Requests so far that had to be made again.

    Raises:
        ValueError: If the URL is none, the environment has no key of that name, or httpx2 is missing.
    """

    def __init__(
        self,
        url: str,
        api_key_env: str | None = None,
        timeout_s: float = 600.0,
        patience_s: float = 600.0,
        api: Api = "vllm",
    ) -> None:
        self.url = check_url(url)
        self.dialect = DIALECTS[api]
        self.patience_s = patience_s
        self.trouble = ""
        self.away_since = 0.0
        self.failed = 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        try:
            import httpx2
        except ImportError:
            raise ValueError(
                "rollouts need the server extra: pip install 'synthstats-lightning[server]'"
            ) from None
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        timeout = httpx2.Timeout(timeout_s, connect=CONNECT_SECONDS)
        self._client = httpx2.Client(headers=key_headers(api_key_env), timeout=timeout, limits=limits)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to one request: its JSON, or its text where it is none.

        Args:
            path: Behind the URL.
            body: What is posted; without one the path is read.

        Raises:
            ServerAwayError: If there is no answer, or one that may be another a moment later.
            RefusedError: If the server will not.
        """
        import httpx2

        url = f"{self.url}{path}"
        try:
            response = self._client.get(url) if body is None else self._client.post(url, json=body)
        except httpx2.HTTPError as error:
            raise ServerAwayError(f"{url}: {type(error).__name__}: {error}") from None
        except RuntimeError as error:  # the client was closed in another thread
            raise RolloutError(f"{url}: {error}") from None
        if response.status_code != 200:
            words = _words(response)
            if response.status_code in RETRIED and not any(each in words for each in FOR_GOOD):
                raise ServerAwayError(f"{url}: status {response.status_code}: {words}")
            raise RefusedError(url, response.status_code, words)
        try:
            return response.json()
        except ValueError:
            return response.text

    def ask_patiently(
        self, path: str, body: dict[str, Any] | None = None, also: frozenset[int] = frozenset()
    ) -> Any:
        """As `ask`, again and again while the server is away.

        The same body gives the same answer, so that nothing is lost or drawn twice.

        Args:
            path: Behind the URL.
            body: What is posted; without one the path is read.
            also: Statuses that count as being away, too.

        Raises:
            RefusedError: If the server will not.
            RolloutError: If it is away for longer than `patience_s`, or the run ends.
        """

        def attempt() -> Any:
            try:
                return self.ask(path, body)
            except RefusedError as error:
                if error.status in also:
                    raise ServerAwayError(str(error)) from None
                raise

        return self._patiently(attempt)

    def rest(self, seconds: float) -> None:
        """Waits, unless the run ends.

        Args:
            seconds: How long it waits at most.

        Raises:
            RolloutError: If the run ends.
        """
        if self._ended.wait(seconds):
            raise RolloutError(f"{self.url}: the run ends")

    def _patiently(self, attempt: Callable[[], T]) -> T:
        since, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                found = attempt()
            except ServerAwayError as error:
                away = time.monotonic() - since
                if away >= self.patience_s:
                    raise RolloutError(
                        f"{error} (for {away:.0f} s; patience_s={self.patience_s:g})"
                    ) from None
                with self._lock:
                    self.away_since = self.away_since if self.trouble else time.monotonic()
                    self.trouble, self.failed = str(error), self.failed + 1
                self.rest(min(pause, max(self.patience_s - away, 0.0)))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                with self._lock:
                    self.trouble = ""
                return found

    def close(self) -> None:
        """Ends what waits for the server."""
        self._ended.set()
        self._client.close()


def check_url(url: str) -> str:
    """The root of a server, without a last slash and `/v1`.

    Args:
        url: Address that the user has given.

    Raises:
        ValueError: If it is no address of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url must be that of a server, such as http://127.0.0.1:8000, got {url!r}")
    return url.rstrip("/").removesuffix("/v1")


def is_public(url: str) -> bool:
    """Whether a server is outside of this machine and its private network.

    Args:
        url: Address of the server, with its scheme.
    """
    host = urlsplit(url).hostname or ""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False  # connecting to it says more
    return any(ipaddress.ip_address(str(address).partition("%")[0]).is_global for address in found)


def key_headers(api_key_env: str | None) -> dict[str, str]:
    """What tells a server who asks.

    Args:
        api_key_env: Name of the environment variable that holds the key; `None` for none.

    Raises:
        ValueError: If the environment has none of that name.
    """
    if api_key_env is None:
        return {}
    key = os.environ.get(api_key_env)
    if not key:
        raise ValueError(f"api_key_env must name a variable of the environment, got {api_key_env!r}")
    return {"Authorization": f"Bearer {key}"}


def _words(response: Any) -> str:
    """What the server says of an error, in one line."""
    try:
        found = response.json()
        error = found.get("error", found)
        names = ("message", "error_message", "detail")
        known = [error[name] for name in names if name in error] if isinstance(error, dict) else []
        text = known[0] if known else error
    except (ValueError, AttributeError):
        text = response.text
    return " ".join(str(text).split())[:WORDS]
