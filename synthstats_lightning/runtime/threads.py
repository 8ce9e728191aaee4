"""The budget of cores: workers run single-threaded, the trainer gets the rest."""

from __future__ import annotations

import os

import torch


def trainer_threads(num_workers: int | None = None) -> int:
    """Threads for the trainer's own arithmetic: the cores that scoring workers leave, at least one."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores - (num_workers if num_workers is not None else max(1, cores - 1)))


def limit_threads() -> None:
    """Makes OpenMP threads sleep instead of spin, and PyTorch use the cores that workers leave.

    Threads that spin while another process holds the core are ruinous: 185 instead of 8 ms for a decoding
    step were measured on two cores. An explicit `OMP_NUM_THREADS` is respected.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if "OMP_NUM_THREADS" not in os.environ:
        threads = trainer_threads()
        torch.set_num_threads(threads)
        # processes of a distributed run inherit it; Lightning would share all cores among them, workers' too
        os.environ["OMP_NUM_THREADS"] = str(threads)
