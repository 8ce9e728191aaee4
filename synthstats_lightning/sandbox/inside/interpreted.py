"""`variable.eval()` without a compiler: a program's process may start none, and a few numbers need none."""

from __future__ import annotations

from typing import Any

from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable

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
