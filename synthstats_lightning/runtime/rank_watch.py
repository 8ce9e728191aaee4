"""When one process of a run is lost, the others end too: soon, with a reason, and with their workers."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import sys
import threading
import time

from synthstats_lightning.runtime.distributed import gather_objects, leave_at_exit, rank_and_size

GRACE_SECONDS = 15.0
"""What a process has, after another was lost, to end by itself before it is ended."""
_KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 13_000}
"""A machine that vanished without a word is noticed after 13 seconds (the last number: milliseconds)."""
_CONNECT_SECONDS = 30.0
_LAST_WORDS_SECONDS = 10.0
_LINE_BYTES = 500
_DONE, _LOST = b"done", b"lost "


class RankWatch:
    """Watches the other processes of a distributed run.

    Collectives do not do that: on GPUs a process waits half an hour for one that is dead, and outside of
    collectives nobody notices. Here rank 0 holds a connection to every other rank, in a thread of each. The
    kernel closes a dead process's connections at once, and those of a dead machine after 13 seconds; a
    process that ends on purpose says so first. Who loses another tells the rest, prints one line, and, if
    the loss has not ended it by itself after `grace` seconds (as an error out of a collective, say), ends
    its process with status 1: its workers see that and end too. A process that ends with an error has ten
    seconds more for its last words, such as an emergency checkpoint.

    Nothing happens in a run of one process. Every rank must make one, at the same point.

    Args:
        grace: Seconds from the news of a loss to the end of the process.

    Attributes:
        lost: One line about a rank that was lost, `None` if none was.

    Raises:
        ConnectionError: If rank 0 cannot be reached at the address that `MASTER_ADDR` names.
    """

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self.grace = grace
        self.lost: str | None = None
        self._rank, self._size = rank_and_size()
        self._peers: dict[socket.socket, int] = {}
        self._closing = False
        self._thread: threading.Thread | None = None
        if self._size > 1:
            leave_at_exit()
            self._connect()
            self._wake, self._waker = socket.socketpair()
            self._thread = threading.Thread(target=self._watch, name="rank-watch", daemon=True)
            self._thread.start()

    def close(self, error: BaseException | None = None) -> None:
        """Ends the watch; safe to call twice.

        Args:
            error: Why this process ends before its time: the other ranks are told, and end.
        """
        if self._thread is None or self._closing:
            return
        self._closing = True
        word = _DONE if error is None else _LOST + _one_line(f"rank {self._rank}", error).encode()
        for peer in list(self._peers):
            _tell(peer, word)
        if error is not None:
            # an emergency checkpoint, or the interpreter's end, may wait for the others, which end sooner
            _end_later(self.grace + _LAST_WORDS_SECONDS)
        self._waker.close()
        self._thread.join()
        for peer in self._peers:
            peer.close()
        self._wake.close()

    # --- connections

    def _connect(self) -> None:
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        if self._rank == 0:
            with _server(address, self._size) as server:
                token = secrets.token_bytes(16)
                gather_objects((server.getsockname()[1], token))
                server.settimeout(_CONNECT_SECONDS)
                while len(self._peers) < self._size - 1:
                    self._accept(server, token)
            return
        port, token = gather_objects((0, b""))[0]
        peer = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
        peer.sendall(token + self._rank.to_bytes(4, "big"))
        self._keep(peer, 0)

    def _accept(self, server: socket.socket, token: bytes) -> None:
        try:
            peer, _ = server.accept()
        except TimeoutError:
            missing = sorted(set(range(1, self._size)) - set(self._peers.values()))
            raise ConnectionError(f"ranks {missing} did not connect to rank 0") from None
        peer.settimeout(_CONNECT_SECONDS)
        greeting = peer.recv(len(token) + 4, socket.MSG_WAITALL)
        if greeting[:-4] == token:
            self._keep(peer, int.from_bytes(greeting[-4:], "big"))
        else:
            peer.close()  # not of this run

    def _keep(self, peer: socket.socket, rank: int) -> None:
        peer.settimeout(None)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._peers[peer] = rank

    # --- the thread

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        by_number = {peer.fileno(): peer for peer in self._peers}
        for number in by_number:
            poll.register(number, select.POLLIN)
        while True:
            for number, _ in poll.poll():
                if number == self._wake.fileno():
                    return
                peer = by_number[number]
                word = self._hear(peer)
                if word == _DONE:
                    poll.unregister(number)
                    continue
                what = word.removeprefix(_LOST).decode("utf-8", "replace")
                self._end(what or f"rank {self._peers[peer]} was lost")
                return

    @staticmethod
    def _hear(peer: socket.socket) -> bytes:
        """What a rank says, nothing if its connection is gone."""
        try:
            return peer.recv(_LINE_BYTES)
        except OSError:
            return b""

    def _end(self, what: str) -> None:
        self.lost = what
        for peer in list(self._peers):
            _tell(peer, _LOST + what.encode())
        message = f"rank {self._rank}: {what}; this process ends within {self.grace:g} seconds"
        print(message, file=sys.stderr, flush=True)
        _end_later(self.grace)


def _server(address: str, backlog: int) -> socket.socket:
    family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
    try:
        return socket.create_server((address, 0), family=family, backlog=backlog)
    except OSError:
        # the address leads here by way of something that forwards, as in a cluster of containers
        return socket.create_server(("", 0), family=family, backlog=backlog)


def _end_later(seconds: float) -> None:
    """Ends this process, unless it has ended by then: its main thread may wait where no exception reaches."""

    def end() -> None:
        time.sleep(seconds)
        os._exit(1)

    threading.Thread(target=end, name="rank-watch-end", daemon=True).start()


def _tell(peer: socket.socket, word: bytes) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        peer.send(word, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _one_line(who: str, error: BaseException) -> str:
    text = f"{who} ended with {type(error).__name__}: {error}"
    return " ".join(text.split())[: _LINE_BYTES - len(_LOST) - 1]
