"""A block under copies of rows that are evaluated once against the same under each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density import equal_rows
from synthstats_lightning.scoring.marginals.density import Density
from tests.scoring.marginals.laplace.test_target import of
from tests.scoring.marginals.test_density import Builder

ROWS = 90
RNG = np.random.default_rng(2)
GROUP = RNG.integers(0, 5, ROWS)
URBAN = RNG.integers(0, 2, ROWS)
YES = (RNG.uniform(size=ROWS) < 1 / (1 + np.exp(0.5 - URBAN - 0.3 * GROUP))).astype(float)
SOME = torch.arange(ROWS) % 4 > 0


def survey() -> Density:
    """Yes or no by group and place."""
    b = Builder()
    spread = b.random("HalfNormal", "spread", 0.0, 1.0)
    effect = b.random("Normal", "effect", 0.2, spread, shape=(5,))
    slope = b.random("Normal", "slope", 0.0, 1.0)
    there = b.op("take", effect, b.covariate("g"), axis=0)
    chance = b.op("sigmoid", b.op("add", there, b.op("mul", slope, b.covariate("u"))))
    b.random("Bernoulli", "y", chance, shape=(ROWS,))
    return b.density({"g": GROUP, "u": URBAN}, YES)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Density, Density]:
    copied = survey()
    monkeypatch.setattr(equal_rows, "FEWEST_ROWS", ROWS + 1)
    return copied, survey()


def test_copies_count_as_often_as_they_are_there(both: tuple[Density, Density]) -> None:
    copied, plain = (of(density) for density in both)
    assert copied.copies.number == 20
    assert copied.likelihood.elements == 20
    assert plain.likelihood.elements == ROWS
    theta = torch.tensor([[0.1], [-0.7], [0.9]], dtype=torch.float64)
    for given in (torch.ones(ROWS, dtype=torch.bool), SOME):
        found, wanted = (each.smooth.log_likelihood_given(theta, given) for each in (copied, plain))
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_the_gradient_knows_of_copies(both: tuple[Density, Density]) -> None:
    slopes = []
    for density in both:
        theta = torch.tensor([[0.1], [-0.7]], dtype=torch.float64, requires_grad=True)
        of(density).smooth.log_likelihood(theta).sum().backward()
        slopes.append(theta.grad)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("every", [True, False], ids=["all rows", "some rows"])
def test_one_copy_is_left_out_or_added(both: tuple[Density, Density], every: bool) -> None:
    """By draws, by the approximation, and predicted: within the draws' error of every row by itself."""
    given = torch.ones(ROWS, dtype=torch.bool) if every else SOME
    theta = torch.tensor([[0.1], [-0.7]], dtype=torch.float64)
    copied, plain = (of(density) for density in both)
    found, wanted = (each.marginals_by(theta, given, 512, each.movers) for each in (copied, plain))
    torch.testing.assert_close(found.given, wanted.given, rtol=0, atol=0.01)
    # of 90 rows each changes the density by its own, of the order of 0.5 nats
    own, expected = (each.given[:, None] - each.changed for each in (found, wanted))
    torch.testing.assert_close(own, expected, rtol=0, atol=0.01)
    assert bool((own[:, given] < 0).all())
    rough, known = (each.smooth.marginals(theta, given) for each in (copied, plain))
    torch.testing.assert_close(
        rough.given[:, None] - rough.changed, known.given[:, None] - known.changed, rtol=0, atol=0.01
    )
    if not every:
        added, reached = (each.added_densities(theta, given)[:, ~given] for each in (copied, plain))
        torch.testing.assert_close(added, reached, rtol=0, atol=0.05)
