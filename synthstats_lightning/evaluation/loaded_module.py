"""The module of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from synthstats_lightning.module import GFlowNetModule

HELD = ("state_dict", "hyper_parameters", "pytorch-lightning_version")
"""What a checkpoint of `fit` holds, beside more."""


class LoadedModule(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        module: The module, on the CPU.
        saved: The whole checkpoint.
    """

    module: GFlowNetModule
    saved: dict[str, Any]


def saved_run(checkpoint: Path) -> dict[str, Any]:
    """A checkpoint of `fit`, on the CPU.

    Args:
        checkpoint: A whole checkpoint.

    Raises:
        ValueError: If something else has written it.
    """
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    if not isinstance(saved, dict) or any(name not in saved for name in HELD):
        raise ValueError(
            f"{checkpoint} must be a checkpoint that `fit` has written, and is of something else"
        )
    return saved


def load_module(checkpoint: Path) -> LoadedModule:
    """The module of a checkpoint of `fit`.

    Args:
        checkpoint: A whole checkpoint.

    Raises:
        ValueError: If something else has written it.
    """
    saved = saved_run(checkpoint)
    return LoadedModule(GFlowNetModule.load_from_checkpoint(checkpoint, map_location="cpu"), saved)
