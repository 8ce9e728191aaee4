"""Shared by all rooms: one thread for PyTorch, because tests share the cores with worker processes."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import lightning.pytorch  # noqa: F401 - its log handler keeps the stream that it finds at import
import torch

from tests.support import shape_checks

torch.set_num_threads(1)


def pytest_runtest_setup() -> None:
    shape_checks.begin()
