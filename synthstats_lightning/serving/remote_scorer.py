"""A `ProgramScorer` that is elsewhere: the client of the served scorer."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

BUSY = frozenset({429, 502, 503})
"""Answers of a server that may be others a moment later."""
LONGEST_PAUSE = 30.0
FIRST_PAUSE = 0.25


class RemoteScorerError(RuntimeError):
    """A served scorer that gives no answer, or will not."""


class RemoteScorer:
    """Scores programs by `synthstats-lightning serve`; may be used by many threads at once.

    A server that has no room, or is away, is asked again. Tasks are posted with their data, or, given by
    name, are those of the server; what the server understood is compared with the task by its fingerprint.

    Args:
        url: Address of the server, such as `http://127.0.0.1:8765`.
        api_key_env: Name of the environment variable that holds the key; `None` for none.
        requests: Most requests at once.
        timeout_s: Seconds for which a server that is connected may send nothing.
        patience_s: Seconds for which a server that is busy or away is asked again.

    Raises:
        ValueError: If the URL is none, a number is out of range, or the environment has no key of that name.
    """

    def __init__(
        self,
        url: str,
        api_key_env: str | None = None,
        requests: int = 8,
        timeout_s: float = 300.0,
        patience_s: float = 600.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be that of a server, such as http://127.0.0.1:8765, got {url!r}")
        if requests < 1:
            raise ValueError(f"requests must be at least 1, got {requests}")
        self._headers = {"Content-Type": "application/json"}
        if api_key_env is not None:
            key = os.environ.get(api_key_env)
            if not key:
                raise ValueError(f"api_key_env must name a variable of the environment, got {api_key_env!r}")
            self._headers["Authorization"] = f"Bearer {key}"
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self._parts = parts
        self._local = threading.local()
        self._connections: set[HTTPConnection] = set()
        self._threads = ThreadPoolExecutor(requests, thread_name_prefix="remote-scorer")
        self._ended = threading.Event()

    def submit(self, source: str, task: str | Task) -> Future[Score]:
        """Starts scoring a program and returns at once.

        Args:
            source: Source text of the program.
            task: The task whose data it models, or the name of one that the server has.

        Raises:
            ValueError: If the task cannot be posted with its data; the server must then be started with it.
        """
        posted = task if isinstance(task, str) else task_fields(task)
        return self._threads.submit(self._score, source, task, posted)

    def score(self, source: str, task: str | Task) -> Score:
        """Scores a program and waits for it; see `submit`.

        Raises:
            RemoteScorerError: If the server refuses, or is busy or away for too long.
        """
        return self.submit(source, task).result()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON of one answer; a server that is busy or away is asked again.

        Args:
            path: What is asked for, such as `/tasks`.
            body: What is posted; without one the path is read.

        Raises:
            RemoteScorerError: If the server refuses, or is busy or away for too long.
        """
        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                status, after, content = self._request(path, body)
            except (OSError, HTTPException) as error:
                reason, after = f"{type(error).__name__}: {error}", 0.0
            else:
                if status == 200:
                    found: dict[str, Any] = json.loads(content)
                    return found
                reason = f"status {status}: {_words(content)}"
                if status not in BUSY:
                    raise RemoteScorerError(f"{self.url}{path}: {reason}")
            if time.monotonic() - began >= self.patience_s:
                raise RemoteScorerError(f"{self.url}{path}: {reason} (for {self.patience_s:g} s)")
            if self._ended.wait(min(max(after, pause), LONGEST_PAUSE)):
                raise RemoteScorerError(f"{self.url}{path}: closed")
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Ends all requests; those that have not begun are cancelled."""
        self._ended.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connection in list(self._connections):
            # a thread that reads from it is woken up
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> RemoteScorer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _score(self, source: str, task: str | Task, posted: str | dict[str, Any]) -> Score:
        fields = self.ask("/score", {"task": posted, "program": source})
        understood = fields.pop("fingerprint")
        fields.pop("task")
        if isinstance(task, Task) and understood != task.fingerprint:
            raise RemoteScorerError(
                f"{self.url}: the server takes task {task.name!r} for another; start it with that task,"
                f" and ask by"
                " its name"
            )
        return Score.from_dict(fields)

    def _request(self, path: str, body: dict[str, Any] | None) -> tuple[int, float, bytes]:
        """Status, seconds after which to come back, and content of an answer."""
        content = None if body is None else json.dumps(body).encode()
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=self.timeout_s)
            self._local.connection = connection
            self._connections.add(connection)
        try:
            if not connection.sock:
                connection.connect()
                opened: socket.socket = connection.sock
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            path = f"{self._parts.path.rstrip('/')}{path}"
            connection.request("GET" if content is None else "POST", path, content, self._headers)
            response = connection.getresponse()
            after = response.headers.get("Retry-After", "")
            return response.status, float(after) if after.isdecimal() else 0.0, response.read()
        except BaseException:
            self._local.connection = None
            self._connections.discard(connection)
            connection.close()
            raise


def task_fields(task: Task) -> dict[str, Any]:
    """A task as a request holds it.

    Args:
        task: A task whose data say all of it.

    Raises:
        ValueError: If its response is transformed, or programs see views of its columns.
    """
    if task.transform is not None or task.views:
        what = "a transformed response" if task.transform is not None else "views of its columns"
        raise ValueError(
            f"task {task.name!r} has {what}, which no request can hold: start the server with --tasks,"
            f" and give"
            " the task by its name"
        )
    return {
        "name": task.name,
        "description": task.description,
        "data": {name: values.tolist() for name, values in task.data.items()},
        "response": task.response,
        "shown_rows": task.shown_rows,
        "response_kind": task.response_kind,
        "rounding": task.rounding,
        "held_out": task.held_out,
        "total": task.total,
        "ranges": {name: list(ends) for name, ends in task.ranges.items()},
        "quantities": task.quantities,
        "limits": task.limits,
        "censoring": task.censoring,
    }


def _words(content: bytes) -> str:
    """What a server says of an error."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(content.decode(errors="replace").split())[:200]
