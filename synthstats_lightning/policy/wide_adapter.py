"""A policy whose trained parameters are never rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class WideAdapter(nn.Module):
    """Follows moves between devices and changes of dtype, but for trained parameters that would lose bits.

    A precision plugin such as `bf16-true` rounds the base weights, which are not trained. An adapter in
    bfloat16 stands still as soon as its steps are smaller than a 512th of its weights.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        kept = {id(parameter) for parameter in trained} | {id(parameter.grad) for parameter in trained}

        def keep_trained(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            rounded = id(tensor) in kept and moved.dtype.itemsize < tensor.dtype.itemsize
            return tensor.to(moved.device) if rounded else moved

        return super()._apply(keep_trained, recurse)  # type: ignore[no-untyped-call]
