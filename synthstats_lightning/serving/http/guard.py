"""Before a request is read: who asks, how much is sent, and how long that takes."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from synthstats_lightning.serving.http.metrics import ServerMetrics
from synthstats_lightning.serving.http.refusals import (
    ClientLeftError,
    Refusal,
    SlowRequestError,
    TooLargeError,
    UnauthorizedError,
)
from synthstats_lightning.serving.http.settings import ServerSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
OPEN = frozenset({"/health"})
"""Paths that need no key."""
DIGITS = 18
"""Digits of a length that is looked at as a number."""


class Guard:
    """Asks for the key, bounds a body's size and time, and counts requests; around an ASGI application.

    Args:
        application: What answers the requests that are let through.
        settings: Limits of a request.
        key: The key that requests must bring; `None` if none is asked for.
        metrics: Where requests are counted.
    """

    def __init__(
        self, application: Application, settings: ServerSettings, key: str | None, metrics: ServerMetrics
    ) -> None:
        self._application = application
        self._settings = settings
        self._key = None if key is None else key.encode()
        self._metrics = metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check_key(scope)
            body = await self._body_in_time(scope, receive)
            await self._application(scope, _again(body, receive), counting)
        except ClientLeftError as error:
            status = error.status
        except Refusal as error:
            self._metrics.failed(error.category)
            await _refuse(counting, error)
        finally:
            self._metrics.answered(scope["path"], status, time.perf_counter() - began)

    def _check_key(self, scope: Message) -> None:
        if self._key is None or scope["path"] in OPEN:
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        kind, _, key = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(key.strip(), self._key):
            raise UnauthorizedError("the header `Authorization: Bearer KEY` is missing or wrong")

    async def _body_in_time(self, scope: Message, receive: Receive) -> bytes:
        seconds = self._settings.body_s
        try:
            async with asyncio.timeout(seconds):
                return await self._body(scope, receive)
        except TimeoutError:
            raise SlowRequestError(f"no whole body within {seconds:g} s") from None

    async def _body(self, scope: Message, receive: Receive) -> bytes:
        most = self._settings.body_bytes
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and (len(length) > DIGITS or int(length) > most):
            raise TooLargeError(f"the body must have at most {most} bytes")
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeftError
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise TooLargeError(f"the body must have at most {most} bytes")
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read again, and then what comes after it."""
    read = False

    async def replayed() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(send: Send, error: Refusal) -> None:
    body = json.dumps(error.body).encode()
    # what is left of the request is not read
    given = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    headers = [(name.lower().encode(), value.encode()) for name, value in {**given, **error.headers}.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
