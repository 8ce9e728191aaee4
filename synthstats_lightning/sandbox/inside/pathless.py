"""PyTensor and Python without files: a confined process opens none, and these habits need none."""

from __future__ import annotations

import io
import tempfile
from typing import Any


class _Unnamed(io.BytesIO):
    """A file in memory, in place of a temporary one that would be left behind."""

    name = "<generated>"


def _in_memory(*args: Any, **kwargs: Any) -> _Unnamed:
    return _Unnamed()


def _no_c_code(self: Any, func_files: Any) -> None:
    """C sources of an operation are not read: nothing compiles them here."""
    self.code_sections = {"code": ""}


def install() -> None:
    """Replaces, in this process, what would read or write a file for every program."""
    import pytensor.link.utils
    from pytensor.link.c.op import ExternalCOp

    # generated Python is also written out, for debuggers
    pytensor.link.utils.NamedTemporaryFile = _in_memory
    ExternalCOp.load_c_code = _no_c_code
    # fixed now: finding it later means trying to write somewhere
    tempfile.tempdir = tempfile.gettempdir()
