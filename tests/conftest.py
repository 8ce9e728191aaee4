"""Shared by all rooms: one thread for PyTorch, because tests share the cores with worker processes."""

import gc
import os
import warnings
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# PyTensor notes a stack for every variable otherwise: a fifth of the time of comparisons with PyMC
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0,cxx=")

import lightning.pytorch  # noqa: F401 - its log handler keeps the stream that it finds at import
import pytest
import torch

from synthstats_lightning.pool.arviz_module import arviz_module
from tests.support import shape_checks, warm

torch.set_num_threads(1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # of ArviZ's next line, once a day
    arviz_module()  # before tests import it in several processes at once
gc.disable()  # until all tests are collected: nothing that they import is garbage


def pytest_collection_finish() -> None:
    """A full collection takes 0.7 s once all tests are imported, and Lightning has two in every run."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup() -> None:
    shape_checks.begin()


@pytest.fixture(scope="session", autouse=True)
def end_of_warm_workers() -> Iterator[None]:
    """What tests have shared ends with the last."""
    yield
    warm.end()
