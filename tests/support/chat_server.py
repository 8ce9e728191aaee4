"""An OpenAI-compatible endpoint on this machine, which answers as a test says and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Drips = Literal["head", "body"]


class ChatServer(ThreadingHTTPServer):
    """Answers every request by `answer(number, body)`: a status with a text, or with headers too.

    Instead of a text it may be one with the reason why it ends.

    Where it drips, a byte of the head or of the body follows the other and there is no end of them.
    """

    daemon_threads = True

    def __init__(
        self, answer: Callable[[int, dict[str, Any]], tuple[Any, ...]], drips: Drips | None = None
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.drips = drips
        self.usage: dict[str, int] | None = None  # what it says of every answer's tokens
        self.closed = threading.Event()
        self.left = threading.Event()
        self.lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.at_once = self.most_at_once = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with server.lock:
            number = len(server.bodies)
            server.bodies.append(body)
            server.paths.append(self.path)
            server.headers.append(dict(self.headers))
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        status, text, *more = server.answer(number, body)
        content, ended = text if isinstance(text, tuple) else (text, "stop")
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": ended}
        counted = {} if server.usage is None else {"usage": server.usage}
        reply = json.dumps({"choices": [choice], **counted}).encode()
        with server.lock:
            server.at_once -= 1
        try:
            self.send_response(status)
            for name, value in dict(*more).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply) if server.drips is None else 10**9))
            if server.drips == "head":
                self.flush_headers()
                self._drip(b"x")
            self.end_headers()
            if server.drips == "body":
                self._drip(b" ")
            self.wfile.write(reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the other side has waited long enough
            server.left.set()

    def _drip(self, byte: bytes) -> None:
        server: Any = self.server
        while not server.closed.wait(0.01):
            self.wfile.write(byte)

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@contextmanager
def serving(
    answer: Callable[[int, dict[str, Any]], tuple[Any, ...]], drips: Drips | None = None
) -> Iterator[ChatServer]:
    """A server that runs meanwhile."""
    server = ChatServer(answer, drips)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()


def mark(value: float) -> str:
    """What a judge answers."""
    return json.dumps({"mark": value})
