"""Products of rows with a large weight in float32 on a CPU, by the faster of the libraries in PyTorch.

PyTorch leaves such products to a BLAS, MKL in its builds for x86, which on an AMD processor took twice the
time of oneDNN, the library behind its other operations. oneDNN also has a layout for weights that many
products with few rows use, as in decoding: a BLAS rearranges the weight anew in every product.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

LARGE = 2**20
"""Entries of the smallest weight for which there is a choice: every new number of rows costs oneDNN half a
millisecond of compiling."""
FEW_ROWS = 48
"""Up to so many rows the few-row trial speaks, from there on the other."""
TRIAL_ROWS = {True: 8, False: 256}
"""Rows of a trial, by whether they are few."""
TRIAL_WEIGHTS = {True: 32, False: 4}
"""Weights of `LARGE` entries in a trial: more than caches hold where reading them counts."""
TRIALS = 3
GAIN = 0.8
"""oneDNN is taken where it needs less than this share of the time."""


def linear(
    x: Float[Tensor, "*rows width"],
    weight: Float[Tensor, "out width"],
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*rows out"]:
    """`x Wᵀ + bias`, as `torch.nn.functional.linear`, up to rounding.

    On a CPU, for a large frozen W in float32, by oneDNN where a trial finds that faster in this process.
    `torch.use_deterministic_algorithms` (Lightning's `deterministic`) leaves it to BLAS, since a trial may
    end differently in another process.

    Args:
        x: The rows; the only argument that gradients are computed for.
        weight: W, or what `packed` made of it.
        bias: Added to each row.
    """
    if not (weight.is_mkldnn or _by_one_dnn(x, weight)):
        return functional.linear(x, weight, bias)
    if torch.is_grad_enabled() and x.requires_grad:
        output: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return output
    return _one_dnn(x, weight, bias)


def times(x: Float[Tensor, "*rows out"], weight: Float[Tensor, "out width"]) -> Float[Tensor, "*rows width"]:
    """`x W`, the gradient of `linear` for its rows; chosen as there, and without a gradient itself."""
    return _one_dnn(x, weight.T, None) if _by_one_dnn(x, weight) else x @ weight


@torch.no_grad()
def packed(weight: Float[Tensor, "out width"]) -> Float[Tensor, "out width"]:
    """A copy of W in oneDNN's layout if `linear` would take oneDNN for few rows, else W itself.

    Only `linear` knows what to do with it.
    """
    if not _open_to_choice(weight) or not one_dnn_is_faster(True, torch.get_num_threads()):
        return weight
    copy: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return copy


class _Linear(torch.autograd.Function):
    """`x Wᵀ + bias` by oneDNN, with W and the bias frozen."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(weight)
        return _one_dnn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = context.saved_tensors
        return times(grad, weight), None, None


def _one_dnn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product.view(*x.shape[:-1], product.shape[-1])


def _by_one_dnn(x: Tensor, weight: Tensor) -> bool:
    if not _open_to_choice(weight) or x.dtype != torch.float32 or not x.numel():
        return False
    return one_dnn_is_faster(x.numel() // x.shape[-1] <= FEW_ROWS, torch.get_num_threads())


def _open_to_choice(weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and weight.numel() >= LARGE
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and not weight.requires_grad
        and not torch.is_autocast_enabled("cpu")
        and not torch.are_deterministic_algorithms_enabled()
        and bool(torch.backends.mkldnn.enabled)
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


@functools.cache
def one_dnn_is_faster(few: bool, threads: int) -> bool:
    """Whether oneDNN needs less than `GAIN` of the time of BLAS here, by one trial in this process.

    Args:
        few: Of products of few rows, rather than of many.
        threads: Of PyTorch; the answer may differ with them.
    """
    side = round(LARGE**0.5)
    ways: tuple[Callable[[Tensor, Tensor, None], Tensor], ...] = (functional.linear, _one_dnn)
    seconds: tuple[list[float], list[float]] = ([], [])
    with torch.inference_mode():
        weights = torch.ones(TRIAL_WEIGHTS[few], side, side)
        x = torch.ones(TRIAL_ROWS[few], side)
        for _ in range(TRIALS):
            for product, found in zip(ways, seconds, strict=True):
                start = time.perf_counter()
                for weight in weights:
                    product(x, weight, None)
                found.append(time.perf_counter() - start)
    plain, one_dnn = map(min, seconds)
    return one_dnn < GAIN * plain
