"""A rating scale model (Andrich 1978) by softmax: persons are integrated out, items and steps are left."""

from __future__ import annotations

import numpy as np
import torch
from scipy import special, stats

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups import integrator
from synthstats_lightning.scoring.marginals.groups.common_target import CommonIntegrated
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.integration import integrate
from tests.scoring.marginals.test_density import Builder

PERSONS, ITEMS, LEVELS = 24, 6, 4
RNG = np.random.default_rng(9)
PERSON, ITEM = np.repeat(np.arange(PERSONS), ITEMS), np.tile(np.arange(ITEMS), PERSONS)
Y = RNG.integers(0, LEVELS, PERSONS * ITEMS)


def ratings(persons: int = PERSONS) -> Density:
    b = Builder()
    rows = persons * ITEMS
    ability = b.random("Normal", "ability", 0.0, 1.0, shape=(persons,))
    item = b.random("Normal", "item", 0.0, 1.5, shape=(ITEMS,))
    step = b.random("Normal", "step", 0.0, 1.5, shape=(LEVELS - 1,))
    of_row = b.op(
        "sub",
        b.op("take", ability, b.covariate("person"), axis=0),
        b.op("take", item, b.covariate("item"), axis=0),
    )
    scaled = b.op(
        "mul", b.op("reshape", of_row, shape=[rows, 1]), b.constant([np.arange(float(LEVELS)).tolist()])
    )
    steps = b.op("concatenate", b.constant([0.0]), b.op("cumsum", step, axis=0), axis=0)
    odds = b.op("exp", b.op("sub", scaled, steps))
    total = b.op("reshape", b.op("sum", odds, axis=[1]), shape=[rows, 1])
    b.random("Categorical", "y", b.op("div", odds, total), shape=(rows,))
    return b.density({"person": PERSON[:rows], "item": ITEM[:rows]}, Y[:rows])


def by_quadrature(theta: np.ndarray) -> float:
    """The likelihood with each person's ability integrated out, by Gauss-Hermite nodes."""
    item, step = theta[:ITEMS], theta[ITEMS:]
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    steps = np.concatenate([[0.0], np.cumsum(step)])
    total = 0.0
    for person in range(PERSONS):
        rows = person == PERSON
        eta = (nodes[:, None] - item[ITEM[rows]])[..., None] * np.arange(LEVELS) - steps
        own = np.take_along_axis(eta, Y[rows][None, :, None], 2)[..., 0] - special.logsumexp(eta, 2)
        total += special.logsumexp(own.sum(1), b=weights / np.sqrt(2 * np.pi))
    return total


def test_persons_of_a_large_model_are_integrated_out_although_much_is_left() -> None:
    density = ratings()
    theta = 0.7 * torch.randn(
        3, ITEMS + LEVELS - 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    wanted = [by_quadrature(each) for each in theta.numpy()]
    prior = stats.norm.logpdf(theta.numpy(), scale=1.5).sum(1)
    found = integrate(density)
    assert isinstance(found, CommonIntegrated)
    assert found.dimension == ITEMS + LEVELS - 1 > integrator.MOST_LEFT
    assert found.curve is not None
    x = found.curve.coordinates(theta)
    log_prior, rows = found.log_prior_and_likelihood(x)
    np.testing.assert_allclose(rows.sum(1).numpy(), wanted, atol=1e-5)
    np.testing.assert_allclose((log_prior - found.curve.parameters(x)[1]).numpy(), prior, atol=1e-9)
    each = integrator.integrate_groups_of_many(density)
    assert isinstance(each, GroupIntegrated)
    log_prior, rows = each.log_prior_and_likelihood(theta)
    np.testing.assert_allclose(rows.sum(1).numpy(), wanted, atol=1e-5)
    np.testing.assert_allclose(log_prior.numpy(), prior, atol=1e-10)


def test_of_a_smaller_model_nothing_is_taken_so() -> None:
    """Of fourteen persons and nine other parameters estimators take the whole."""
    small = ratings(14)
    assert small.dimension < integrator.MANY
    assert integrator.integrate_groups_of_many(small) is None
    assert integrator.integrate_groups(small) is None
