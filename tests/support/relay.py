"""A process between a run and its server, which a test may kill: every connection breaks, under way or not.

python relay.py PORT PORT_OF_THE_SERVER
"""

from __future__ import annotations

import socket
import sys
import threading


def pump(source: socket.socket, target: socket.socket) -> None:
    """Hands bytes on until one side ends."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main() -> None:
    port, server = int(sys.argv[1]), int(sys.argv[2])
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", server))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()


if __name__ == "__main__":
    main()
