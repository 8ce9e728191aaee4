"""PyTensor reads an op's C source from its file each time it makes the op; here nothing is ever compiled."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from pytensor.link.c.op import ExternalCOp


def install() -> None:
    """Has each source read and cut into sections once; forks find it in memory."""
    read = ExternalCOp.load_c_code
    known: dict[tuple[type, tuple[Path, ...]], tuple[list[str], dict[str, str]]] = {}

    @functools.wraps(read)
    def load_c_code(self: ExternalCOp, func_files: Iterable[Path]) -> None:
        key = (type(self), tuple(func_files))
        if key not in known:
            read(self, key[1])
            known[key] = list(self.func_codes), dict(self.code_sections)
            return
        codes, sections = known[key]
        self.func_codes.extend(codes)
        self.code_sections.update(sections)

    ExternalCOp.load_c_code = load_c_code
