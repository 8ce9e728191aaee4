"""Processor time of operations on tensors, counted and not measured: no load of the machine is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

OPERATION = 6e-6
"""Seconds that an operation takes whatever its size, with what Python and autograd do about it."""
NUMBER = 0.8e-9
"""Seconds for a number of a result, in double precision: it is read, added to another, and written."""
_DEARER = (
    (5, "cos exp expm1 index gather log log1p log_sigmoid_forward logaddexp logsumexp pow sin softplus sqrt"),
    (5, "tanh where xlogy"),
    (25, "digamma erfc lgamma polygamma special_erfcx special_i0e special_i1e special_log_ndtr"),
    (25, "special_ndtri special_zeta"),
    (90, "igamma igammac"),
)
TIMES = {name: times for times, names in _DEARER for name in names.split()}
"""How often that takes an operation that is dearer for each number."""
PRODUCT = 0.1e-9
"""Seconds for a product of a matrix multiplication."""
FACTOR = 0.3e-9
"""Seconds for a product of what solves with a matrix or decomposes it."""
MULTIPLIES = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "dot"})


class CountedTime(NamedTuple):
    """Seconds of one core, by a count of operations.

    Attributes:
        fixed: What their number takes.
        growing: What the numbers in their results take.
    """

    fixed: float
    growing: float

    def of(self, times: int) -> float:
        """The same operations on so many times the numbers, in seconds.

        Args:
            times: By what the numbers are multiplied.
        """
        return self.fixed + times * self.growing


def counted_time(function: Callable[[], object]) -> CountedTime:
    """Processor time that a function's operations on tensors take, gradients included.

    With the same PyTorch it is the same on every machine; how near it is to a clock's says
    `benchmarks/scoring_parts/counted_time.py`.

    Args:
        function: It is called once.
    """
    with _Counting() as counting:
        function()
    return CountedTime(counting.fixed, counting.growing)


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would import its compiler, for two seconds, where a confined scorer reads no files."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fixed = self.growing = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.fixed += OPERATION
        if not func.is_view:
            self.growing += _seconds(func.overloadpacket.__name__, args, tree_leaves(result))
        return result


def _seconds(name: str, args: Any, results: list[Any]) -> float:
    numbers = sum(result.numel() for result in results if isinstance(result, Tensor))
    seconds = NUMBER * TIMES.get(name, 1) * numbers
    if name in MULTIPLIES:
        inner = next(arg for arg in reversed(args) if isinstance(arg, Tensor)).shape
        seconds += PRODUCT * numbers * inner[-2 if len(inner) > 1 else -1]
    elif "linalg" in name or "cholesky" in name or "triangular" in name:
        lengths = [arg.shape[-1] for arg in args if isinstance(arg, Tensor) and arg.ndim]
        seconds += FACTOR * numbers * max(lengths, default=1)
    return seconds
