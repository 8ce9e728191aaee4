"""Products with a frozen weight, by either library, against float64."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from synthstats_lightning.policy import products
from synthstats_lightning.policy.products import (
    LARGE,
    PACKED,
    ROWS,
    least_entries,
    linear,
    packed,
    times,
)

MANY = 20_000
"""Rows that are work enough for any weight here."""


@pytest.fixture(params=[False, True], ids=["blas", "one_dnn"])
def one_dnn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(products, "least_entries", lambda: 0 if request.param else math.inf)
    return bool(request.param)


@pytest.fixture
def never_one_dnn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("left to oneDNN")

    monkeypatch.setattr(products, "least_entries", lambda: 0)
    monkeypatch.setattr(products, "_one_dnn", fail)
    monkeypatch.setattr(products, "_packed", fail)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_large_weight_is_large() -> None:
    assert normal(2048, 512).numel() == LARGE


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8, 1), (2, 3, 8), (257,), (700,), (0,), (2, 0)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_packed", [False, True])
def test_values_are_those_of_the_plain_product(
    shape: tuple[int, ...], with_bias: bool, with_packed: bool, one_dnn: bool
) -> None:
    x, weight = normal(*shape, 512), normal(2048, 512, seed=1)
    bias = normal(2048, seed=2) if with_bias else None
    given = packed(weight) if with_packed else weight
    assert given.is_mkldnn is (one_dnn and with_packed)
    found = linear(x, given, bias)
    exact = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert found.shape == exact.shape
    assert found.is_contiguous()
    assert torch.allclose(found.double(), exact, atol=1e-4)
    if not one_dnn:
        assert torch.equal(found, functional.linear(x, weight, bias))


def test_rows_that_do_not_lie_one_after_the_other(one_dnn: bool) -> None:
    x, weight = normal(2, 512, 9).mT, normal(2048, 512, seed=1)
    exact = x.double() @ weight.double().T
    assert torch.allclose(linear(x, weight).double(), exact, atol=1e-4)
    assert torch.allclose(linear(x, packed(weight)).double(), exact, atol=1e-4)
    back = times(exact.float().mT.contiguous().mT, weight)
    assert torch.allclose(back.double(), exact @ weight.double(), rtol=1e-4, atol=0.1)


@pytest.mark.parametrize("rows", [9, 600])
def test_slopes_pass_through(rows: int, one_dnn: bool) -> None:
    x, weight, bias = normal(rows, 512).requires_grad_(), normal(2048, 512, seed=1), normal(2048, seed=2)
    grad = normal(rows, 2048, seed=3)
    linear(x, weight, bias).backward(grad)
    assert x.grad is not None
    assert torch.allclose(x.grad.double(), grad.double() @ weight.double(), atol=1e-3)


def test_one_dnn_sees_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles for each, and keeps what it has compiled."""
    seen = set()
    block = products._block

    def noted(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        product = block(rows, weight, bias)
        base = product if product._base is None else product._base
        seen.add(len(base))
        assert len(product) == len(rows)
        return product

    monkeypatch.setattr(products, "_block", noted)
    weight = normal(8, 4)
    for rows in range(1, 600):
        x = normal(rows, 4, seed=rows)
        assert torch.allclose(products._one_dnn(x, weight, None), x @ weight.T, atol=1e-5)
    assert seen == set(ROWS)


def test_a_weight_that_learns_has_a_slope(never_one_dnn: None) -> None:
    x, weight = normal(9, 512), normal(2048, 512, seed=1).requires_grad_()
    linear(x, weight).sum().backward()
    assert weight.grad is not None
    assert torch.allclose(weight.grad, x.sum(0).expand(2048, -1), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_blas(dtype: torch.dtype, never_one_dnn: None) -> None:
    x, weight = normal(8, 512).to(dtype), normal(2048, 512).to(dtype)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert torch.equal(times(linear(x, weight), weight), linear(x, weight) @ weight)
    assert packed(weight) is weight


def test_little_work_is_left_to_blas(never_one_dnn: None) -> None:
    x, weight = normal(7, 100), normal(200, 100)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert packed(weight) is weight


def test_much_work_with_a_small_weight_is_not(monkeypatch: pytest.MonkeyPatch, never_one_dnn: None) -> None:
    with pytest.raises(AssertionError, match="left to oneDNN"):
        linear(normal(MANY, 100), normal(200, 100))
    for least in (LARGE, math.inf):
        monkeypatch.setattr(products, "least_entries", lambda least=least: least)
        linear(normal(MANY, 100), normal(200, 100))


@pytest.mark.parametrize("least", [0, LARGE, math.inf])
@pytest.mark.parametrize("rows", [1, 5, 32])
def test_the_processor_decides_on_the_layout(
    least: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "least_entries", lambda: least)
    for entries in (PACKED - 256, PACKED, LARGE):
        weight, x = normal(256, entries // 256, seed=1), normal(rows, entries // 256)
        given = packed(weight)
        assert given.is_mkldnn is (entries >= max(PACKED, least))
        assert torch.allclose(linear(x, given).double(), x.double() @ weight.double().T, atol=1e-3)


def test_autocast_is_left_to_blas(never_one_dnn: None) -> None:
    x, weight = normal(8, 512), normal(2048, 512)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
        assert packed(weight) is weight


def test_one_dnn_can_be_switched_off(never_one_dnn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(8, 512), normal(2048, 512)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    linear(x, weight)
    assert packed(weight) is weight


def test_compiled_code_is_left_to_the_compiler(never_one_dnn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    x, weight = normal(8, 512), normal(2048, 512)
    linear(x, weight)
    assert packed(weight) is weight


@pytest.mark.parametrize(
    ("vendor", "family", "capability", "least"),
    [
        ("AuthenticAMD", 26, "AVX512", 0),
        ("AuthenticAMD", 25, "AVX512", LARGE),
        ("AuthenticAMD", 25, "AVX2", math.inf),  # Zen 3
        ("GenuineIntel", 6, "AVX512", math.inf),
        (None, 26, "AVX512", math.inf),
    ],
)
def test_which_weights_of_which_processors(
    vendor: str | None,
    family: int,
    capability: str,
    least: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = tmp_path / "cpuinfo"
    if vendor is not None:
        info.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\n")
    monkeypatch.setattr(products, "CPU_INFO", info)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert least_entries.__wrapped__() == least
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert least_entries.__wrapped__() == math.inf
