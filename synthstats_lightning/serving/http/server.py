"""The process that serves: it listens, and ends when it is told to and has answered."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.serving.http.admission import Admission
from synthstats_lightning.serving.http.app import create_app
from synthstats_lightning.serving.http.settings import ServerSettings, is_public
from synthstats_lightning.tasks import Task

SPARE_SECONDS = 5.0
"""Seconds for answers to be sent once nothing is waited for any more."""
KEEP_ALIVE_SECONDS = 15


class ScoringServer(uvicorn.Server):
    """Serves until it gets SIGTERM or SIGINT; a second SIGINT ends it at once.

    Args:
        config: What uvicorn is to do.
        admission: What is told to stop first.
        grace_s: Seconds that what was taken on may still take.
    """

    def __init__(self, config: uvicorn.Config, admission: Admission, grace_s: float) -> None:
        super().__init__(config)
        self._admission = admission
        self._grace_s = grace_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forced = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says where."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            print(f"serving scores at http://{name}:{port}", file=sys.stderr, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops, in the order: nothing new is taken on; what was is answered; connections are closed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._admission.stop, self._grace_s)
        super().handle_exit(sig, frame)
        if self._loop is not None and self.force_exit:
            self._loop.call_soon_threadsafe(self._forced.set)

    async def ended_or_forced(self, running: asyncio.Future[None]) -> None:
        """Returns when the server has ended, or is to end at once.

        From Python 3.12 on it ends no sooner than its connections, which may still wait for a score.

        Args:
            running: The server as it runs, which is cancelled with this.
        """
        forced = asyncio.ensure_future(self._forced.wait())
        either: set[asyncio.Future[Any]] = {running, forced}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            running.cancel()
            raise
        finally:
            forced.cancel()

    def give_up(self) -> None:
        """Tells whoever still waits that the server stops: what is ended with it is no program's failure."""
        self._admission.given_up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but that a process which has ended in order does not die of the signal afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """A connection that is closed where the head of a request does not come; uvicorn itself waits for ever.

    Args:
        seconds: Seconds for the head of a request.
    """

    class TimedProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self._watch()
            super().data_received(data)

        def _watch(self) -> None:
            self.loop.call_later(seconds, self._close_after, self.cycle)

        def _close_after(self, cycle: Any) -> None:
            idle = cycle is None or cycle.response_complete
            if idle and self.cycle is cycle and not self.transport.is_closing():
                self.transport.close()

    return TimedProtocol


async def serve(
    scorer: ProgramScorer,
    settings: ServerSettings,
    listener: socket.socket,
    tasks: Sequence[Task] = (),
    key: str | None = None,
) -> None:
    """Serves until the process is told to stop.

    Args:
        scorer: A pool that was started; it is closed in the end.
        settings: What the server takes on.
        listener: The socket that listens.
        tasks: Tasks beside the bundled ones, which requests can name.
        key: The key that requests must bring; `None` if none is asked for.

    Raises:
        ValueError: If a task has the name of another.
    """
    try:
        server = make_server(scorer, settings, tasks, key)
        running = asyncio.ensure_future(server.serve([listener]))
        try:
            await server.ended_or_forced(running)
        finally:
            server.give_up()
    finally:
        # in the loop: whoever still waits for a score is told here
        await asyncio.to_thread(scorer.close)
    await running


def make_server(
    scorer: ProgramScorer, settings: ServerSettings, tasks: Sequence[Task] = (), key: str | None = None
) -> ScoringServer:
    """A server that does not run yet; see `serve` for the arguments."""
    application, admission = create_app(scorer, settings, tasks, key)
    config = uvicorn.Config(
        application,
        http=timed_protocol(settings.body_s),
        ws="none",
        lifespan="off",
        loop="asyncio",
        access_log=False,
        log_level="warning",
        server_header=False,
        limit_concurrency=settings.connections,
        backlog=128,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.grace_s + SPARE_SECONDS) + 1,
    )
    return ScoringServer(config, admission, settings.grace_s)


def public_warning(settings: ServerSettings) -> str:
    """What to say of an address that others can connect to where no key is asked for; empty otherwise.

    Args:
        settings: Where the server listens, and what it asks for.
    """
    if settings.api_key_env is not None or not is_public(settings.host):
        return ""
    return (
        f"warning: {settings.host} can be reached from other machines and no key is asked for: everyone"
        f" there may"
        " have programs scored; give --api_key_env"
    )
