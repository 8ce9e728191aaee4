"""How many bytes tensors hold at once, whatever the allocator keeps."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Bytes of the storages that operations have made and that are still alive, at their most."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.note(leaf, inputs)
        return found

    def note(self, tensor: torch.Tensor, inputs: list[torch.Tensor]) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known or any(each.untyped_storage()._cdata == key for each in inputs):
            return
        size = storage.nbytes()
        self.known.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size
