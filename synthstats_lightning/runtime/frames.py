"""What a process and its children say to each other: length-prefixed frames over pipes, bounded both ways."""

from __future__ import annotations

import base64
import json
import os
import select
import struct
import time
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 20
_ARRAY = "__array__"
_KINDS = frozenset("biuf")


class ConnectionLost(Exception):
    """The other side is gone, or sent what the protocol does not allow."""


class DeadlinePassed(Exception):
    """The other side did not answer, or did not read, in time."""


@runtime_checkable
class Watch(Protocol):
    """Whoever decides how long to wait by what the other side does meanwhile."""

    def check(self) -> None:
        """Called a few times a second while nothing comes.

        Raises:
            DeadlinePassed: If it is no use to wait on.
        """
        ...


Deadline = float | Watch
"""`time.monotonic()` by which something must have happened, or a watch on the other side."""
_LOOKS = 0.2
"""Seconds between two looks of a watch."""


def pack(document: Any) -> bytes:
    """A document as JSON, in which arrays of numbers keep dtype, shape and every bit.

    Args:
        document: What JSON takes (infinities and NaN too), and NumPy arrays anywhere in it.
    """
    return json.dumps(document, default=_encode_array).encode()


def unpack(payload: bytes) -> Any:
    """The inverse of `pack`; tuples come back as lists.

    Raises:
        ValueError: If that is no such document.
    """
    return json.loads(payload, object_hook=_decode_arrays)


def _encode_array(values: Any) -> dict[str, Any]:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in _KINDS:
        raise TypeError(f"a frame takes arrays of numbers, got {type(values).__name__}")
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    content = base64.b64encode(little.tobytes()).decode("ascii")
    return {_ARRAY: [values.dtype.name, values.shape, content]}


def _decode_arrays(fields: dict[str, Any]) -> Any:
    if _ARRAY not in fields:
        return fields
    name, shape, content = fields[_ARRAY]
    kind = np.dtype(name)
    if kind.kind not in _KINDS:
        raise ValueError(f"a frame takes arrays of numbers, got {name!r}")
    flat: NDArray[Any] = np.frombuffer(base64.b64decode(content), kind.newbyteorder("<")).astype(kind)
    return flat.reshape(shape)


def take_pipes() -> tuple[int, int]:
    """Moves a child's pipes off the standard descriptors, so that nothing printed can disturb them.

    Returns:
        Descriptors of the requests and of the replies.
    """
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return requests, replies


def write_frame(descriptor: int, payload: bytes, deadline: Deadline | None = None) -> None:
    """Sends one frame.

    Args:
        descriptor: A pipe; with a deadline it must be non-blocking.
        payload: What the frame holds.
        deadline: When the other side must have taken it.

    Raises:
        ConnectionLost: If nobody reads any more.
        DeadlinePassed: If the deadline passed.
    """
    view = memoryview(_LENGTH.pack(len(payload)) + payload)
    while view:
        if deadline is not None:
            _wait(descriptor, select.POLLOUT, deadline)
        try:
            view = view[os.write(descriptor, view[:_CHUNK]) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise ConnectionLost(str(error)) from None


def read_frame(descriptor: int, limit: int, deadline: Deadline | None = None) -> bytes:
    """Receives one frame.

    Args:
        descriptor: The pipe that is read.
        limit: Bytes of the largest content allowed.
        deadline: When it must have come.

    Raises:
        ConnectionLost: If the other side closed the pipe or announced more than `limit`.
        DeadlinePassed: If the deadline passed.
    """
    (length,) = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size, deadline))
    if length > limit:
        raise ConnectionLost(f"a frame of {length} bytes is over the limit of {limit}")
    return _read_exactly(descriptor, length, deadline)


def _read_exactly(descriptor: int, length: int, deadline: Deadline | None) -> bytes:
    parts: list[bytes] = []
    while length:
        if deadline is not None:
            _wait(descriptor, select.POLLIN, deadline)
        try:
            part = os.read(descriptor, min(length, _CHUNK))
        except BlockingIOError:
            continue
        except OSError as error:
            raise ConnectionLost(str(error)) from None
        if not part:
            raise ConnectionLost("the pipe was closed")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _wait(descriptor: int, event: int, deadline: Deadline) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if isinstance(deadline, int | float):
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            raise DeadlinePassed
        return
    while not poll.poll(_LOOKS * 1000):
        deadline.check()
