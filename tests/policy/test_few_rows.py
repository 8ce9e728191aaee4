"""Products of few rows with a large matrix, against the plain product in float64."""

from __future__ import annotations

import time

import pytest
import torch
from torch.nn import functional

from synthstats_lightning.policy import few_rows
from synthstats_lightning.policy.few_rows import FEW_ROWS, LARGE, linear, rows_together


@pytest.fixture(params=[0, 3, 4, 1000])
def turned(request, monkeypatch):
    monkeypatch.setattr(few_rows, "rows_together", lambda *shape: request.param)
    return request.param


@pytest.mark.parametrize("shape", [(7,), (8, 1), (2, 3, 8), (48,), (1,), (49,)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_layout_are_those_of_the_plain_product(shape, with_bias, turned):
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
    if not turned or x[..., 0].numel() not in FEW_ROWS:
        assert torch.equal(found, functional.linear(x, weight, bias))


def test_slopes_pass_through(turned):
    weight = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(1))
    x = torch.ones(8, 1024, requires_grad=True)
    linear(x, weight).sum().backward()
    assert torch.allclose(x.grad, weight.sum(0).expand(8, -1), atol=1e-3)


def test_other_types_go_the_plain_way(monkeypatch):
    monkeypatch.setattr(few_rows, "rows_together", None)
    weight = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(1)).double()
    x = torch.ones(8, 1024, dtype=torch.float64)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


def test_deterministic_runs_go_the_plain_way(monkeypatch):
    monkeypatch.setattr(few_rows, "rows_together", None)
    weight, x = torch.ones(1024, 1024), torch.ones(8, 1024)
    with pytest.raises(TypeError, match="not callable"):
        linear(x, weight)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(linear(x, weight), functional.linear(x, weight))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("slow", [True, False])
def test_a_trial_finds_the_faster_order(slow, monkeypatch):
    plain = functional.linear

    def linear(x, weight):
        time.sleep(0.05 if slow else 0.0)
        return plain(x, weight) if slow else x[:, :1]

    monkeypatch.setattr(functional, "linear", linear)
    rows_together.cache_clear()
    assert (rows_together(8, 2048, 1024, 1) > 0) is slow
    assert (rows_together(8, 2048, 1024, 1) > 0) is slow
    assert rows_together.cache_info().misses == 1
    rows_together.cache_clear()


def test_a_trial_of_a_vocabulary_takes_little_memory():
    assert rows_together(3, 400_000, 2048, 1) in (0, 3)  # 3 GB
    rows_together.cache_clear()
