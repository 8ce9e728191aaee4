"""What another Ctrl-C does while a run that was interrupted comes to its end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Lets Ctrl-C end the block, and nothing else: what comes after it is done.

    Lightning ignores Ctrl-C from the first one on; a second one would wait for all that is still written.

    Args:
        what: The block does, to say that it is left out.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted again: {what} is left out", file=sys.stderr)
    finally:
        signal.signal(signal.SIGINT, before)
