"""The global random streams of a process, which dropout and a user's own code draw from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """States of Python's, NumPy's and PyTorch's global streams, in tensors and primitive types."""
    version, internal, spare = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=True)
    _, key, position, has_spare, normal = numpy_state
    state: dict[str, Any] = {
        "python": [version, list(internal), spare],
        "numpy": [torch.from_numpy(key.astype(np.int64)), int(position), int(has_spare), float(normal)],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restores what `random_state` returned.

    Args:
        state: State of a process; that of a GPU is ignored without one.
    """
    version, internal, spare = state["python"]
    random.setstate((version, tuple(internal), spare))
    key, position, has_spare, normal = state["numpy"]
    np.random.set_state(("MT19937", key.numpy().astype(np.uint32), position, has_spare, normal))
    # PyTorch reads past the end of a view into a larger tensor: give it a tensor of its own
    torch.set_rng_state(state["torch"].cpu().clone())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu().clone())
