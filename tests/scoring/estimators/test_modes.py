from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.modes import MOST_UNSEEN, survey_modes
from synthstats_lightning.scoring.estimators.optimise import Optimum
from synthstats_lightning.scoring.estimators.pilot import draw_pilot, find_modes
from synthstats_lightning.scoring.estimators.symmetry import (
    MOST_IMAGES,
    Exchange,
    find_symmetries,
    label_swaps,
    orbit,
)
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import hard_targets, targets
from tests.scoring.marginals.test_density import Builder

SETTINGS = EngineSettings()


def search(target, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pilot = draw_pilot(target, SETTINGS, generator)
    return pilot, find_modes(target, pilot, SETTINGS, generator, Deadline(20.0))


def arrived(*points, joined=0):
    """Starts that converged at points of a standard normal's curvature, and others that joined the first."""
    theta = torch.tensor([*points, *[points[0]] * joined]).double()
    converged = torch.arange(len(theta)) < len(points)
    return Optimum(
        theta,
        torch.zeros(len(theta)).double(),
        torch.eye(theta.shape[1]).double().repeat(len(theta), 1, 1),
        converged,
        torch.where(converged, -1, 0),
    )


def valleys(dimension):
    """A target with nothing but valleys between points, and no symmetry."""
    slope = torch.linspace(0.1, 0.2, dimension).double()
    return targets.make(
        [targets.normal_prior(0, 10)] * dimension, lambda t: -100 * (3 * t + slope).sin() ** 2, dimension
    )


def test_modes_seen_once_say_how_much_was_not_seen():
    target = valleys(1)
    pilot = draw_pilot(target, SETTINGS, torch.Generator().manual_seed(0))
    assert survey_modes(target, arrived([0.0], [5.0], [9.0]), pilot).unseen == pytest.approx(1.0)
    assert survey_modes(target, arrived([0.0], [5.0], joined=2), pilot).unseen == pytest.approx(1 / 4)
    assert survey_modes(target, arrived([0.0], [5.0], [5.1], joined=2), pilot).unseen == 0.0
    assert survey_modes(target, arrived([0.0]), pilot).unseen == 0.0


def test_negligible_modes_do_not_count():
    target = valleys(1)
    pilot = draw_pilot(target, SETTINGS, torch.Generator().manual_seed(0))
    optimum = arrived([0.0], [5.0], joined=3)
    low = optimum._replace(value=torch.tensor([0.0, -6.0, 0.0, 0.0, 0.0]).double())
    assert survey_modes(target, low, pilot).unseen < 0.001


def test_a_flat_mode_is_one_mode():
    target = targets.make([targets.normal_prior(0, 10)], lambda t: 0.0 * t, 1)
    pilot = draw_pilot(target, SETTINGS, torch.Generator().manual_seed(0))
    optimum = arrived([0.0], [3.0], [6.0])
    found = survey_modes(target, optimum._replace(value=target.log_prior(optimum.theta)), pilot)
    assert found.unseen == 0.0


def test_signs_are_found_on_the_density_and_expanded():
    exact = hard_targets.squares(groups=4)
    pilot, optimum = search(exact.target)
    modes = survey_modes(exact.target, optimum, pilot)
    assert modes.unseen <= MOST_UNSEEN
    free = (modes.optimum.theta[0, 1:].abs() > 0.6).sum()
    signs = {tuple(row) for row in modes.optimum.theta[:, 1:].sign().int().tolist()}
    assert free >= 2
    assert len(signs) >= 2**free > int(optimum.converged.sum()) // 2


def test_a_prior_that_prefers_a_sign_is_no_symmetry():
    exact = hard_targets.squares(groups=4)
    lopsided = targets.make(
        [targets.normal_prior(0, 1), targets.normal_prior(0.001, 1), *[targets.normal_prior(0, 1)] * 3],
        exact.target.likelihood,
        8,
    )
    pilot, optimum = search(lopsided)
    kept = optimum.converged
    found = find_symmetries(lopsided, Optimum(*(part[kept] for part in optimum)), pilot)
    assert all(float(exchange.sign[1]) == 1.0 for exchange in found)


def test_labels_are_exchanged():
    exact = hard_targets.labels(components=2)
    pilot, _ = search(exact.target)
    theta = torch.tensor([[-3.0, 3.0], [3.0, -3.0]]).double()
    precision = torch.tensor([[4.0, 0.0], [0.0, 9.0]]).double()
    modes = Optimum(
        theta,
        torch.zeros(2).double(),
        torch.stack([precision, precision]),
        torch.ones(2, dtype=torch.bool),
        torch.full((2,), -1),
    )
    (exchange,) = find_symmetries(exact.target, modes, pilot)
    assert exchange.point(torch.tensor([1.0, 2.0]).double()).abs().tolist() == [2.0, 1.0]
    assert exchange.matrix(precision).diagonal().tolist() == [9.0, 4.0]


def test_labels_with_shares_are_exchanged():
    """Shares of three labels are a simplex, two of whose coordinates are the third's combination."""
    b = Builder()
    shares = b.random("Dirichlet", "w", [1.0, 1.0, 1.0], shape=(3,))
    mu = b.random("Normal", "mu", 0.0, 3.0, shape=(3,))
    b.random("Normal", "other", 0.0, 1.0, shape=(2,))
    sigma = b.random("HalfNormal", "sigma", 0.0, 1.0, shape=(3,))
    fields = {"distribution": "Mixture", "components": ["Normal"], "name": "y", "shape": [4]}
    b.add(Node("random", (shares, mu, sigma), fields))
    density = b.density({}, np.array([-2.0, 0.3, 0.4, 2.2]))
    swaps = label_swaps(density, density.dimension)
    assert len(swaps) == 3
    pilot = draw_pilot(density, SETTINGS, torch.Generator().manual_seed(0))
    one = Optimum(
        pilot.theta[:1],
        torch.zeros(1).double(),
        torch.eye(density.dimension).double()[None],
        torch.ones(1, dtype=torch.bool),
        torch.full((1,), -1),
    )
    held = find_symmetries(density, one, pilot, swaps)
    assert len(held) == 3
    there = orbit(one, held)
    assert there is not None
    values = density.constrain(there.optimum.theta)
    for name in ("w", "mu", "sigma"):
        orders = {tuple(round(float(x), 9) for x in row) for row in values[name]}
        assert orders == set(permutations(round(float(x), 9) for x in values[name][0]))


def test_an_orbit_that_is_too_large_is_not_expanded():
    modes = arrived([2.0] * 8)
    flips = [Exchange(torch.arange(8), 1.0 - 2.0 * row) for row in torch.eye(8).double()]
    six = orbit(modes, flips[:6])
    assert len(six.optimum.theta) == 2**6 <= MOST_IMAGES
    assert set(six.source) == {0}
    assert MOST_IMAGES < 2**8
    assert orbit(modes, flips) is None


@pytest.mark.parametrize("case", [hard_targets.squares, hard_targets.labels, hard_targets.factor])
def test_many_modes_have_their_evidence(case):
    exact = case()
    generator = torch.Generator().manual_seed(0)
    found = estimate_posterior(exact.target, SETTINGS, generator, Deadline(60.0)).particles
    assert found.estimator == "importance"
    assert abs(found.log_evidence - exact.evidence) < 4 * found.log_evidence_se
    assert found.log_evidence_se < 0.1


def test_a_saddle_on_the_axis_of_a_symmetry_is_no_mode():
    """All parameters at 0 have no gradient, and starts that fall there hide both modes."""
    exact = hard_targets.factor()
    pilot, optimum = search(exact.target)
    assert any(bool((point == 0).all()) for point in optimum.theta[optimum.converged])
    modes = survey_modes(exact.target, optimum, pilot).optimum
    first, second = modes.theta
    torch.testing.assert_close(first, -second, atol=0.1, rtol=0)
