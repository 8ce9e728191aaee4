"""Products with a large weight, by either library, against float64."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from synthstats_lightning.policy import products
from synthstats_lightning.policy.products import LARGE, linear, one_dnn_is_faster, packed, times


@pytest.fixture(params=[False, True], ids=["blas", "one_dnn"])
def one_dnn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(products, "one_dnn_is_faster", lambda few, threads: request.param)
    return bool(request.param)


@pytest.fixture
def never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(few: bool, threads: int) -> bool:
        raise AssertionError("asked for a trial")

    monkeypatch.setattr(products, "one_dnn_is_faster", fail)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_large_weight_is_large() -> None:
    assert normal(2048, 512).numel() == LARGE


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8, 1), (2, 3, 8), (49,), (300,), (0,), (2, 0)])
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
    assert torch.allclose(times(exact.float(), weight).double(), exact @ weight.double(), rtol=1e-4, atol=1.0)


def test_slopes_pass_through(one_dnn: bool) -> None:
    x, weight, bias = normal(9, 512).requires_grad_(), normal(2048, 512, seed=1), normal(2048, seed=2)
    grad = normal(9, 2048, seed=3)
    linear(x, weight, bias).backward(grad)
    assert x.grad is not None
    assert torch.allclose(x.grad.double(), grad.double() @ weight.double(), atol=1e-3)


def test_a_weight_that_learns_has_a_slope(never_asked: None) -> None:
    x, weight = normal(9, 512), normal(2048, 512, seed=1).requires_grad_()
    linear(x, weight).sum().backward()
    assert weight.grad is not None
    assert torch.allclose(weight.grad, x.sum(0).expand(2048, -1), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_blas(dtype: torch.dtype, never_asked: None) -> None:
    x, weight = normal(8, 512).to(dtype), normal(2048, 512).to(dtype)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert torch.equal(times(linear(x, weight), weight), linear(x, weight) @ weight)
    assert packed(weight) is weight


def test_small_weights_are_left_to_blas(never_asked: None) -> None:
    x, weight = normal(8, 511), normal(2048, 511)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert packed(weight) is weight


def test_deterministic_runs_are_left_to_blas(never_asked: None, deterministic: None) -> None:
    x, weight = normal(8, 512), normal(2048, 512)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert packed(weight) is weight


def test_autocast_is_left_to_blas(never_asked: None) -> None:
    x, weight = normal(8, 512), normal(2048, 512)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
        assert packed(weight) is weight


def test_one_dnn_can_be_switched_off(never_asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = normal(2048, 512)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert packed(weight) is weight


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("slow", ["blas", "one_dnn"])
def test_a_trial_finds_the_faster_library_once(few: bool, slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"blas": (functional, "linear"), "one_dnn": (products, "_one_dnn")}
    calls: list[str] = []
    for name, place in names.items():

        def product(x: Tensor, weight: Tensor, bias: Tensor | None, name: str = name) -> None:
            calls.append(name)
            time.sleep(0.005 if name == slow else 0.0)

        monkeypatch.setattr(*place, product)
    one_dnn_is_faster.cache_clear()
    assert one_dnn_is_faster(few, 1) is (slow == "blas")
    number = len(calls)
    assert one_dnn_is_faster(few, 1) is (slow == "blas")
    assert len(calls) == number > 0
    one_dnn_is_faster.cache_clear()


def test_compiled_code_is_left_to_the_compiler(never_asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    x, weight = normal(8, 512), normal(2048, 512)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert packed(weight) is weight
