"""Gradients of functions that are computed again, against the functions themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from synthstats_lightning.scoring.numerics.recomputed import recomputed


def several(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Results that depend on some of the inputs, one of them on none that has a gradient."""
    return (a * b).exp(), b.sin().sum(0), c.square()


def test_gradients_are_those_of_the_function() -> None:
    a, b = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a.requires_grad_()
    b.requires_grad_()
    c = torch.ones(2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x, y: recomputed(several, x, y, c)[:2], (a, b))
    first, second, third = recomputed(several, a, b, c)
    assert not third.requires_grad
    torch.testing.assert_close(torch.autograd.grad(first.sum() + second.sum(), b)[0], a * first + b.cos())


def test_second_derivatives_are_refused() -> None:
    a = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(recomputed(lambda x: (x**3,), a)[0].sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(slope.sum(), a)


def test_the_compiler_is_not_imported() -> None:
    code = (
        "import sys, torch; from synthstats_lightning.scoring.numerics.recomputed import recomputed;"
        "x = torch.ones(2, requires_grad=True); recomputed(lambda a: (a.exp(),), x)[0].sum().backward();"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
