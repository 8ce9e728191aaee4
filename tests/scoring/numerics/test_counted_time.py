"""Counted processor time: of known operations, of gradients, and beside a clock."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch

from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.numerics.counted_time import (
    FACTOR,
    NUMBER,
    OPERATION,
    PRODUCT,
    counted_time,
)

X = torch.linspace(0.5, 2.0, 600, dtype=torch.float64).reshape(20, 30)


def test_known_operations() -> None:
    assert counted_time(lambda: X + X) == pytest.approx((OPERATION, 600 * NUMBER))
    assert counted_time(lambda: X.exp()).growing == pytest.approx(5 * 600 * NUMBER)
    assert counted_time(lambda: X.T) == (OPERATION, 0.0), "a view has no numbers of its own"
    product = counted_time(lambda: X @ X.T)
    assert product == pytest.approx((2 * OPERATION, 400 * NUMBER + 20 * 20 * 30 * PRODUCT))
    square = (X @ X.T + torch.eye(20, dtype=torch.float64)).expand(3, 20, 20)
    factor = counted_time(lambda: torch.linalg.cholesky_ex(square)[0]).growing
    assert factor == pytest.approx(3 * 20 * 20 * (NUMBER + 20 * FACTOR), rel=0.01)


def test_so_many_times_the_numbers() -> None:
    few, many = counted_time(lambda: (X + 1.0).log()), counted_time(lambda: (X.repeat(7, 1) + 1.0).log())
    repeated = counted_time(lambda: X.repeat(7, 1))
    assert few.of(7) == pytest.approx(many.of(1) - repeated.of(1))


def test_gradients_count_and_nothing_else_changes() -> None:
    def density(theta: torch.Tensor) -> torch.Tensor:
        return -(theta.exp() @ torch.ones(30, dtype=torch.float64)).log()

    value, gradient = value_and_gradient(density, X)
    found = []
    whole = counted_time(lambda: found.extend(value_and_gradient(density, X)))
    assert torch.equal(found[0], value)
    assert torch.equal(found[1], gradient)
    alone = counted_time(lambda: density(X))
    assert whole.fixed > 2 * alone.fixed
    assert whole.growing > 1.5 * alone.growing
    assert whole == counted_time(lambda: value_and_gradient(density, X)), "the same every time"


def test_the_clock_says_about_the_same() -> None:
    wide = X.repeat(50, 4)

    def density(theta: torch.Tensor) -> torch.Tensor:
        scale = theta[:, :1].exp()
        rows = -0.5 * ((theta - 1.0) / scale).square() - scale.log() + torch.log1p(theta.square())
        return rows.sum(-1)

    counted = counted_time(lambda: value_and_gradient(density, wide)).of(1)
    clocked = []
    for _ in range(15):
        began = time.thread_time()
        value_and_gradient(density, wide)
        clocked.append(time.thread_time() - began)
    assert counted / 6 < min(clocked) < 6 * counted


def test_a_scorer_that_reads_no_files_can_count() -> None:
    """PyTorch imports its compiler, two seconds of files, for most who watch what it does."""
    code = (
        "import sys, torch\n"
        "from synthstats_lightning.scoring.numerics.counted_time import counted_time\n"
        "before = set(sys.modules)\n"
        "counted_time(lambda: torch.ones(2, requires_grad=True).exp().sum().backward())\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
