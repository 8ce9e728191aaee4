"""Gamma functions against 50 digits, over all sizes of their arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest
import torch

from synthstats_lightning.scoring.numerics import gamma

lgamma = mp.loggamma


def rising(x: Any, k: Any) -> Any:
    return lgamma(x + k) - lgamma(x) - lgamma(k + 1)


def factorial(k: Any) -> Any:
    return lgamma(k + 1)


def hypergeometric(a: Any, b: Any, c: Any, d: Any) -> Any:
    margins = factorial(a + b) + factorial(c + d) + factorial(a + c) + factorial(b + d)
    return margins - factorial(a + b + c + d) - sum(factorial(cell) for cell in (a, b, c, d))


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "stirling_error": (
        lambda x: lgamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2,
        "x",
    ),
    "log_gamma_ratio": (lambda x, k: lgamma(x + k) - lgamma(x), "xx"),
    "log_beta": (lambda a, b: lgamma(a) + lgamma(b) - lgamma(a + b), "xx"),
    "log_rising": (rising, "xk"),
    "log_beta_binomial": (lambda k, r, a, b: rising(a, k) + rising(b, r) - rising(a + b, k + r), "kkxx"),
    "log_hypergeometric": (hypergeometric, "kkkk"),
}


def argument(kind: str, source: random.Random) -> float:
    """A positive number of any size (`x`), or a count (`k`)."""
    size = 10.0 ** source.uniform(-6.0, 13.0)
    return float(int(size)) if kind == "k" else size


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_fifty_digits(name: str) -> None:
    exact, kinds = FUNCTIONS[name]
    source = random.Random(name)
    cases = [[argument(kind, source) for kind in kinds] for _ in range(60)]
    got = getattr(gamma, name)(*torch.tensor(cases, dtype=torch.float64).T)
    with mp.workdps(50):
        for case, value in zip(cases, got.tolist(), strict=True):
            wanted = exact(*(mp.mpf(x) for x in case))
            assert abs(mp.mpf(value) - wanted) <= 1e-11 * max(1, abs(wanted)), case


def test_beta_binomials_of_tiny_shapes() -> None:
    """Probabilities of a wide prior on log-odds leave shapes of any size: all mass is then at one end."""
    exact, _ = FUNCTIONS["log_beta_binomial"]
    tiny = (1e-100, 1e-60, 1e-20, 1e-7, 0.4)
    cases = [[k, n - k, a, b] for n in (1, 47, 12_000) for k in {0, 1, n // 2, n} for a in tiny for b in tiny]
    got = gamma.log_beta_binomial(*torch.tensor(cases, dtype=torch.float64).T)
    with mp.workdps(250):
        for case, value in zip(cases, got.tolist(), strict=True):
            wanted = exact(*(mp.mpf(x) for x in case))
            assert abs(mp.mpf(value) - wanted) <= 1e-11 * max(1, abs(wanted)), case


def test_beta_binomials_of_many_and_few_trials_beside_each_other() -> None:
    exact, _ = FUNCTIONS["log_beta_binomial"]
    cases = [
        [k, n - k, a, b]
        for n in (4_000, 12_000)
        for k in (0, 7, n // 2)
        for a in (2.5, 9e3)
        for b in (30, 8e4)
    ]
    given = torch.tensor(cases, dtype=torch.float64).T
    together = gamma.log_beta_binomial(*given)
    alone = torch.cat([gamma.log_beta_binomial(*each[:, None]) for each in given.T])
    assert torch.equal(together, alone)
    for case, value in zip(cases, together.tolist(), strict=True):
        assert abs(mp.mpf(value) - exact(*(mp.mpf(x) for x in case))) <= 2e-10, case
    shapes = given.clone().requires_grad_()
    gradient = torch.autograd.grad(gamma.log_beta_binomial(*shapes).sum(), shapes)[0][2]
    for (k, rest, a, b), value in zip(cases, gradient.tolist(), strict=True):
        n = k + rest
        wanted = mp.digamma(a + k) - mp.digamma(a) - mp.digamma(a + b + n) + mp.digamma(a + b)
        assert value == pytest.approx(float(wanted), rel=1e-7, abs=1e-11)


@pytest.mark.parametrize("size", [0.3, 40.0, 1e3, 1e6, 1e11])
def test_kernels_in_the_bulk(size: float) -> None:
    """Kernels whose large parts cancel: exact in absolute terms, whatever the shapes."""
    for z in (-3.0, -0.2, 1.0, 4.0):
        y = size * max(1.0 + z / size**0.5, 1e-3)
        a, b, p = size, 2.5 * size, min(max(0.2857 * (1.0 + z / size**0.5), 1e-6), 0.99)
        shapes = [torch.tensor(x, dtype=torch.float64) for x in (a, b, y, p)]
        got = gamma.log_gamma_kernel(shapes[0], shapes[2], shapes[2].log())
        excess = shapes[0] * (1.0 - shapes[3]) - shapes[1] * shapes[3]
        both = gamma.log_beta_kernel(shapes[0], shapes[1], shapes[3].log(), (-shapes[3]).log1p(), excess)
        with mp.workdps(50):
            ea, eb, ey, ep = (mp.mpf(x) for x in (a, b, y, p))
            wanted = ea * mp.log(ey) - ey - lgamma(ea)
            assert float(abs(mp.mpf(float(got)) - wanted)) <= 1e-10 * max(1.0, float(abs(wanted)))
            wanted = ea * mp.log(ep) + eb * mp.log(1 - ep) - lgamma(ea) - lgamma(eb) + lgamma(ea + eb)
            assert float(abs(mp.mpf(float(both)) - wanted)) <= 1e-10 * max(1.0, float(abs(wanted)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_the_plain_form(name: str) -> None:
    """Across the size at which Stirling's formula takes over."""
    exact, kinds = FUNCTIONS[name]
    for size in (30.0, 999.0, 1001.0, 3e4):
        values = [size + 3.0 * i for i in range(len(kinds))]
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(getattr(gamma, name)(*x), x)
        with mp.workdps(50):
            for i in range(len(kinds)):
                order = tuple(int(i == j) for j in range(len(kinds)))
                wanted = float(mp.diff(exact, tuple(mp.mpf(v) for v in values), order))
                assert float(slope[i]) == pytest.approx(wanted, rel=1e-7, abs=1e-9)
