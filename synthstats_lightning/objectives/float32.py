"""Modules whose parameters stay float32 whatever the precision of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Float32Module(nn.Module):
    """Follows moves between devices and ignores changes of dtype, without rounding on the way.

    In bfloat16 a log Z of 40 cannot move by less than 0.25, so it would never learn.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def keep_dtype(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(keep_dtype, recurse)  # type: ignore[no-untyped-call]
