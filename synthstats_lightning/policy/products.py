"""Products of rows with a frozen weight in float32 on a CPU, by the faster of the libraries in PyTorch.

PyTorch leaves such products to a BLAS: MKL, in its builds for x86. On AMD processors MKL does without their
AVX-512, which oneDNN, the library behind PyTorch's other operations, uses. oneDNN also has a layout for
weights that many products with few rows use, as in decoding: a BLAS rearranges the weight anew in every
product. Which library multiplies follows from the processor and the sizes, never from a measurement, so that
equal seeds give equal log-probabilities in every process.
"""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

WORK = 2**21
"""Rows times entries of the weight, from which on a product is worth the detour."""
ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
"""Numbers of rows that oneDNN is given. It compiles code for every number of rows and shape of a weight, and
keeps a thousand of them: 2 GB, where all are different."""
LARGE = 2**20
"""Entries of a large weight: on Zen 4 a step of Qwen3-0.6B's layers takes 13 % longer without oneDNN."""
PACKED = 2**16
"""Entries of the smallest weight with a layout of its own; without any, 5 % longer there."""
ZEN_4, ZEN_5 = 25, 26
"""Families of AMD's processors with AVX-512; from the second on it does twice the work of AVX2 a cycle."""
CPU_INFO = Path("/proc/cpuinfo")


def linear(
    x: Float[Tensor, "*rows width"],
    weight: Float[Tensor, "out width"],
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*rows out"]:
    """`x Wᵀ + bias`, as `torch.nn.functional.linear`, up to rounding.

    Args:
        x: The rows; the only argument that gradients are computed for where W is frozen.
        weight: W, or what `packed` made of it.
        bias: Added to each row; frozen where W is.
    """
    if not (weight.is_mkldnn or _by_one_dnn(x, weight)):
        return functional.linear(x, weight, bias)
    if torch.is_grad_enabled() and x.requires_grad:
        output: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return output
    return _one_dnn(x, weight, bias)


def times(x: Float[Tensor, "*rows out"], weight: Float[Tensor, "out width"]) -> Float[Tensor, "*rows width"]:
    """`x W`, the gradient of `linear` for its rows; without a gradient itself."""
    return _one_dnn(x, weight.T, None) if _by_one_dnn(x, weight) else x @ weight


@torch.no_grad()
def packed(weight: Float[Tensor, "out width"]) -> Float[Tensor, "out width"]:
    """A copy of W in oneDNN's layout where that is faster for few rows, else W itself.

    Only `linear` knows what to do with it.
    """
    return _packed(weight) if weight.numel() >= max(PACKED, least_entries()) and _possible(weight) else weight


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
    """The product in blocks of rows whose numbers are in `ROWS`."""
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    number, most = len(rows), ROWS[-1]
    if number <= most:
        product = _block(rows, weight, bias)
    else:
        product = x.new_empty(number, weight.shape[0])
        for start in range(0, number, most):
            product[start : start + most] = _block(rows[start : start + most], weight, bias)
    return product.view(*x.shape[:-1], product.shape[-1])


def _block(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    number = len(rows)
    wanted = next(count for count in ROWS if count >= number)
    if wanted > number:
        rows = functional.pad(rows, (0, 0, 0, wanted - number))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product[:number]


def _packed(weight: Tensor) -> Tensor:
    copy: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return copy


def _by_one_dnn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.numel() // max(x.shape[-1], 1) * weight.numel() >= WORK
        and x.dtype == torch.float32
        and weight.numel() >= least_entries()
        and _possible(weight)
    )


def _possible(weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and not weight.requires_grad
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


@functools.cache
def least_entries() -> float:
    """Entries of the smallest weight that oneDNN multiplies faster than MKL here; infinite where none is.

    On Zen 4, where AVX-512 does no more work a cycle than AVX2, oneDNN takes 1.1 to 1.5 times MKL's time with
    small weights: a whole step of the tiny policy is 8 % shorter without it.
    """
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return math.inf
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not CPU_INFO.is_file():
        return math.inf
    text = CPU_INFO.read_text()
    family = re.search(r"^cpu family\s*:\s*(\d+)", text, re.MULTILINE)
    if "AuthenticAMD" not in text or family is None or int(family[1]) < ZEN_4:
        return math.inf
    return float(LARGE) if int(family[1]) < ZEN_5 else 0.0
