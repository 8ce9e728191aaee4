"""The compiled form of the forward pass that yields log-probabilities."""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch

from synthstats_lightning.policy.hidden import Forward, last_hidden_states


def compiled_forward() -> Forward:
    """`last_hidden_states`, compiled at its first call for lengths of any size.

    Raises:
        ValueError: If PyTorch has nothing to compile with here.
    """
    check_compiler()
    return torch.compile(last_hidden_states, dynamic=True)


def check_compiler() -> None:
    """Checks for what `torch.compile` needs, so that its lack is an error at the start.

    Raises:
        ValueError: If there is neither Triton and a CUDA device nor a C++ compiler.
    """
    if torch.cuda.is_available():
        if importlib.util.find_spec("triton") is None:
            raise ValueError(
                "compile: true needs Triton on a CUDA device; install it with pip install triton"
            )
        return
    compiler = os.environ.get("CXX") or "g++"
    if shutil.which(compiler) is None and shutil.which("clang++") is None:
        raise ValueError(
            f"compile: true needs a C++ compiler, and there is no {compiler!r}; install one, name one in the"
            " environment variable CXX, or set compile: false"
        )
