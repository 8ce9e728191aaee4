"""Products of few rows with a large matrix, against the plain product in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from synthstats_lightning.policy.few_rows import FEW_ROWS, LARGE, linear


@pytest.mark.parametrize("shape", [(7,), (8, 1), (2, 3, 8), (48,), (6,), (49,)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_layout_are_those_of_the_plain_product(shape, with_bias):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, 512, generator=generator)
    weight = torch.randn(2048, 512, generator=generator)
    bias = torch.randn(2048, generator=generator) if with_bias else None
    assert weight.numel() >= LARGE
    found = linear(x, weight, bias)
    exact = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert found.shape == exact.shape
    assert found.is_contiguous()
    assert (found.double() - exact).abs().max() < 1e-4
    if x[..., 0].numel() not in FEW_ROWS:
        assert torch.equal(found, functional.linear(x, weight, bias))


def test_slopes_pass_through():
    weight = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(1))
    x = torch.ones(8, 1024, requires_grad=True)
    linear(x, weight).sum().backward()
    assert torch.allclose(x.grad, weight.sum(0).expand(8, -1), atol=1e-3)


def test_other_types_go_the_plain_way():
    weight = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(1)).double()
    x = torch.ones(8, 1024, dtype=torch.float64)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
