"""The product of a large matrix with few rows, of which each step of decoding consists."""

from __future__ import annotations

import functools
import time

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

FEW_ROWS = range(2, 49)
"""Numbers of rows for which the other order may be faster."""
LARGE = 2**20
"""Entries of the smallest matrix for which it may be."""
PIECES = (4,)
"""Numbers of rows that may be multiplied at a time in the other order, besides all."""
TRIAL_BYTES = 2**27
"""Memory of the matrices of a trial: more than caches hold, because a model's do not fit there either."""
TRIALS = 3
GAIN = 0.9
"""The other order is taken where it needs less than this share of the time."""


def linear(
    x: Float[Tensor, "*rows width"],
    weight: Float[Tensor, "out width"],
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*rows out"]:
    """`x Wᵀ + bias`, as `torch.nn.functional.linear`, up to rounding.

    On a CPU, for few rows of a large matrix in float32, as `(W xᵀ)ᵀ` where a trial finds that faster: with
    all rows at once it took 0.5 to 1.8 of the time, depending on processor, shape and rows.
    `torch.use_deterministic_algorithms` (Lightning's `deterministic`) keeps the plain order, since a trial
    may end differently in another process.

    Args:
        x: The rows.
        weight: W.
        bias: Added to each row.
    """
    rows = x.numel() // x.shape[-1]
    if rows not in FEW_ROWS or weight.numel() < LARGE or not _open_to_choice(x, weight):
        return functional.linear(x, weight, bias)
    together = rows_together(rows, *weight.shape, torch.get_num_threads())
    if together == 0:
        return functional.linear(x, weight, bias)
    product = _turned(x.reshape(rows, -1), weight, together)
    if bias is not None:
        product = product + bias
    return product.view(*x.shape[:-1], len(weight))


def _turned(
    x: Float[Tensor, "rows width"], weight: Float[Tensor, "out width"], together: int
) -> Float[Tensor, "rows out"]:
    return torch.cat([(weight @ part.T).T for part in torch.split(x, together)])


def _open_to_choice(x: Tensor, weight: Tensor) -> bool:
    single = x.dtype == weight.dtype == torch.float32
    fixed = torch.are_deterministic_algorithms_enabled() or torch.compiler.is_compiling()
    return single and x.device.type == "cpu" and not fixed


@functools.cache
def rows_together(rows: int, out: int, width: int, threads: int) -> int:
    """How many rows at a time `W xᵀ` is fastest with here, from one trial in this process.

    Args:
        rows: Of x.
        out: Rows of W.
        width: Columns of both.
        threads: Of PyTorch; the answer may differ with them.

    Returns:
        A number of rows; 0 where `x Wᵀ` is as fast.
    """
    out = min(out, TRIAL_BYTES // (8 * width))
    seconds: dict[int, list[float]] = {together: [] for together in (0, rows, *PIECES) if together <= rows}
    with torch.inference_mode():
        weights = torch.ones(TRIAL_BYTES // (4 * out * width), out, width)
        x = torch.ones(rows, width)
        for _ in range(TRIALS):
            for together, found in seconds.items():
                start = time.perf_counter()
                for weight in weights:
                    _ = _turned(x, weight, together) if together else functional.linear(x, weight)
                found.append(time.perf_counter() - start)
    fastest = min(seconds, key=lambda together: min(seconds[together]))
    return fastest if min(seconds[fastest]) < GAIN * min(seconds[0]) else 0
