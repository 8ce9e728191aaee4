"""Tokens per second and peak memory of a run."""

from __future__ import annotations

import resource
import time

import torch
from torch import Tensor


class Throughput:
    """Counts tokens over wall time, from one reading to the next; time on hold does not count.

    Args:
        device: Where training runs.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._held: float | None = None
        self._restart()

    def _restart(self) -> None:
        self._started = time.perf_counter()
        self._trained = torch.zeros((), dtype=torch.int64, device=self.device)
        self._sampled = torch.zeros((), dtype=torch.int64, device=self.device)

    def trained(self, mask: Tensor) -> None:
        """Counts tokens of a training batch, True in the mask."""
        self._trained += mask.sum()

    def sampled(self, mask: Tensor) -> None:
        """Counts tokens sampled for training, True in the mask; none while on hold."""
        if self._held is None:
            self._sampled += mask.sum()

    def hold(self) -> None:
        """Stops the clock, as for a validation."""
        self._held = time.perf_counter()

    def go_on(self) -> None:
        """Starts the clock again."""
        if self._held is not None:
            self._started += time.perf_counter() - self._held
            self._held = None

    def read(self) -> dict[str, float]:
        """Metrics of this process since the last reading.

        Returns:
            `perf/trained_tokens_per_second` and `perf/sampled_tokens_per_second`: program tokens a second of
            wall time; `perf/peak_memory_gib`: most memory of the process so far, in GiB, on a CUDA device
            that of PyTorch's allocator.
        """
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        metrics = {
            "perf/trained_tokens_per_second": float(self._trained) / elapsed,
            "perf/sampled_tokens_per_second": float(self._sampled) / elapsed,
            "perf/peak_memory_gib": peak_memory(self.device) / 2**30,
        }
        self._restart()
        return metrics


def peak_memory(device: torch.device) -> int:
    """Most memory of this process so far, in bytes; on a CUDA device that of PyTorch's allocator."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
