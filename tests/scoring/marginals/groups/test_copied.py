"""Latents of groups by the rows that differ against the same by every row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density import equal_rows
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.copied import CopiedQuadrature
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from tests.scoring.marginals.test_density import Builder

ROWS = 90
RNG = np.random.default_rng(4)
GROUP = np.concatenate([RNG.integers(0, 5, ROWS - 1), [5]])
URBAN = RNG.integers(0, 2, ROWS)
EVERY = torch.ones(ROWS, dtype=torch.bool)
SOME = torch.arange(ROWS) % 4 > 0
LAW = ("Bernoulli", "Poisson", "Geometric", "NegativeBinomial")
THETA = torch.tensor([[0.1, 0.3], [-0.7, -0.2], [0.9, 0.0]], dtype=torch.float64)


def survey(law: str) -> Density:
    """Responses by group and place; the last group has one row alone."""
    b = Builder()
    spread = b.random("HalfNormal", "spread", 0.0, 1.0)
    effect = b.random("Normal", "effect", 0.2, spread, shape=(6,))
    slope = b.random("Normal", "slope", 0.0, 1.0)
    there = b.op("take", effect, b.covariate("g"), axis=0)
    linear = b.op("add", there, b.op("mul", slope, b.covariate("u")))
    if law == "NegativeBinomial":
        many = b.lift(1.5)
        mean = b.op("exp", linear)
        b.random(law, "y", many, b.op("div", many, b.op("add", mean, many)), shape=(ROWS,))
    else:
        b.random(law, "y", b.op("exp" if law == "Poisson" else "sigmoid", linear), shape=(ROWS,))
    y = np.random.default_rng(1).integers(0, 2, ROWS).astype(float)
    return b.density({"g": GROUP, "u": URBAN}, y + (law == "Geometric"))


def of(density: Density) -> GroupIntegrated:
    (grouping,) = [each for each in find_groupings(density.compiled) if each.size == 6]
    return by_nodes(density, grouping)


@pytest.fixture(params=LAW)
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[GroupIntegrated, ...]:
    copied = of(survey(request.param))
    monkeypatch.setattr(equal_rows, "FEWEST_ROWS", ROWS + 1)
    return copied, of(survey(request.param))


def test_rows_count_as_often_as_they_are_there(both: tuple[GroupIntegrated, ...]) -> None:
    copied, plain = both
    assert isinstance(copied.quadrature, CopiedQuadrature)
    assert copied.quadrature.rows < 30
    assert plain.quadrature.rows == ROWS
    assert (copied.quadrature.form is None) == (plain.quadrature.form is None)
    for given in (EVERY, SOME):
        found, wanted = (each.log_likelihood_given(THETA, given) for each in both)
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("given", [EVERY, SOME, ~SOME], ids=["every", "some", "few"])
def test_one_copy_is_left_out_or_added(both: tuple[GroupIntegrated, ...], given: torch.Tensor) -> None:
    found, wanted = (each.marginals(THETA, given) for each in both)
    torch.testing.assert_close(found.given, wanted.given, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found.changed, wanted.changed, rtol=1e-6, atol=1e-6)


def test_gradients_draws_and_checks_are_the_same(both: tuple[GroupIntegrated, ...]) -> None:
    slopes, draws, checks = [], [], []
    for target in both:
        leaf = THETA.clone().requires_grad_(True)
        target.log_likelihood(leaf).sum().backward()
        slopes.append(leaf.grad)
        draws.append(target.complete(THETA, torch.Generator().manual_seed(3), SOME))
        checked = target.checked_at(THETA)
        assert checked is not None
        checks.append(checked.check)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(draws[0], draws[1], rtol=1e-3, atol=1e-3)
    assert checks[0] == pytest.approx(checks[1], abs=1e-6)
