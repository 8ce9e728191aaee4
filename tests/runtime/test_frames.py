"""Frames arrive whole or not at all, and documents arrive bit for bit."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from synthstats_lightning.runtime.frames import (
    ConnectionLost,
    DeadlinePassed,
    pack,
    read_frame,
    unpack,
    write_frame,
)


def test_frames() -> None:
    reader, writer = os.pipe()
    payloads = [b"", b"x", os.urandom(300_000)]
    thread = threading.Thread(target=lambda: [write_frame(writer, payload) for payload in payloads])
    thread.start()
    assert [read_frame(reader, 1 << 20) for _ in payloads] == payloads
    thread.join()
    write_frame(writer, b"too long")
    with pytest.raises(ConnectionLost, match="over the limit"):
        read_frame(reader, 3)
    os.set_blocking(reader, False)
    os.read(reader, 100)
    with pytest.raises(DeadlinePassed):
        read_frame(reader, 3, time.monotonic() + 0.05)
    os.set_blocking(writer, False)
    with pytest.raises(DeadlinePassed):
        write_frame(writer, b"x" * 10_000_000, time.monotonic() + 0.05)
    os.close(reader)
    with pytest.raises(ConnectionLost):
        write_frame(writer, b"x")
    os.close(writer)


def test_half_a_frame_is_a_lost_connection() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"\0\0\0\0\0\0\0\x09half")
    os.close(writer)
    with pytest.raises(ConnectionLost):
        read_frame(reader, 100)
    os.close(reader)


def test_documents_round_trip() -> None:
    arrays = {
        "floats": np.array([[0.1, -0.0, np.nan], [np.inf, -np.inf, 1e-308]]),
        "narrow": np.float32([0.1]),
        "integers": np.arange(6).reshape(1, 2, 3),
        "big": np.arange(3, dtype=">i4"),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(2.5),
        "strided": np.arange(12.0).reshape(3, 4)[::2, 1:],
    }
    again = unpack(pack({"arrays": arrays, "other": [1, None, "text", float("inf")]}))
    assert again["other"] == [1, None, "text", float("inf")]
    for name, values in arrays.items():
        np.testing.assert_array_equal(again["arrays"][name], values)
        assert again["arrays"][name].shape == values.shape
        assert again["arrays"][name].dtype == values.dtype.newbyteorder("=")
        again["arrays"][name][...] = 0  # it may be written to
    assert np.signbit(unpack(pack(arrays["floats"]))[0, 1])


def test_only_numbers_cross() -> None:
    for wrong in (np.array([object()]), np.array(["text"]), {1, 2}):
        with pytest.raises(TypeError, match="a frame takes arrays of numbers, got"):
            pack({"wrong": wrong})
    with pytest.raises(ValueError, match="a frame takes arrays of numbers, got 'O'"):
        unpack(b'{"__array__": ["O", [1], "AAAAAAAAAAA="]}')
    with pytest.raises(ValueError, match="buffer size"):
        unpack(b'{"__array__": ["float64", [2], "AA=="]}')
