"""PyTensor without a compiler: a program's process may start none, and a few numbers need none.

`variable.eval()` is interpreted. The C source that PyTensor reads from its file each time it makes some op is
read once, for nothing is ever compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.link.c.op import ExternalCOp

_compiled_eval = Variable.eval
_INTERPRETER = Mode(linker="py", optimizer=None)


def interpreted_eval(self: Any, inputs_to_values: Any = None, **kwargs: Any) -> Any:
    """The value of a variable, computed op by op in Python."""
    kwargs.setdefault("mode", _INTERPRETER)
    return _compiled_eval(self, inputs_to_values, **kwargs)


def install() -> None:
    """Puts it in place of PyTensor's own, and runs it once so that whatever it imports is there."""
    Variable.eval = interpreted_eval
    from pytensor import tensor

    (tensor.constant(1.0) + 1.0).eval()


def keep_sources() -> None:
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
