"""Parabolas on average over a normal predictor, and what they make of a proposal."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.laplace.check import _some_rows
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from tests.scoring.marginals.laplace.test_target import of, walk


def target():
    found = of(walk(False))
    return found.started_at(torch.tensor([[0.2]], dtype=torch.float64))


def test_of_counts_they_are_those_of_a_log_normal_rate() -> None:
    """Of `y eta - exp(eta)` the mean slope is `y - exp(m + v / 2)`, minus the mean curvature that rate."""
    found = target()
    part = next(found._parts(torch.tensor([[0.2], [-0.7]], dtype=torch.float64), 1))
    given = torch.ones(6, dtype=torch.bool)
    mean = torch.tensor([[0.1, 0.4, 0.7, -0.2, 1.0, 0.3]] * 2, dtype=torch.float64)
    variance = torch.tensor([[0.3], [0.02]], dtype=torch.float64).expand(2, 6)
    sites = found.likelihood.sites(part.outer, mean, given)
    averaged = found.likelihood.averaged(part.outer, mean, variance, sites, given)
    rate = (mean + 0.5 * variance).exp()
    counts = sites.slope + mean.exp()
    torch.testing.assert_close(averaged.slope, counts - rate, rtol=2e-4, atol=2e-4)
    torch.testing.assert_close(averaged.curvature, rate, rtol=5e-3, atol=1e-4)
    nothing = found.likelihood.averaged(part.outer, mean, torch.full((2, 6), torch.inf), sites, given)
    assert torch.equal(nothing.slope, sites.slope)
    assert torch.equal(nothing.curvature, sites.curvature)


def test_of_a_wide_predictor_they_go_as_far_as_the_curvature_may_grow() -> None:
    found = target()
    part = next(found._parts(torch.tensor([[0.2]], dtype=torch.float64), 1))
    given = torch.ones(6, dtype=torch.bool)
    mean = torch.tensor([[-1.7, 0.0, 0.7, -0.2, 1.0, 0.3]], dtype=torch.float64)
    sites = found.likelihood.sites(part.outer, mean, given)
    averaged = found.likelihood.averaged(part.outer, mean, torch.full((1, 6), 3.0).double(), sites, given)
    torch.testing.assert_close(averaged.curvature, 1.5 * mean.exp())
    # of counts slope and curvature both move by what the rate does
    torch.testing.assert_close(sites.slope - averaged.slope, 0.5 * mean.exp(), rtol=0.2, atol=0.0)


def test_draws_weigh_more_evenly_than_around_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = torch.linspace(-1.0, 0.5, 8, dtype=torch.float64)[:, None]
    averaged = target().log_weights(theta, 512).std(1).mean()
    around = target()
    monkeypatch.setattr(type(around.likelihood), "averaged", lambda self, o, m, v, sites, g: sites)
    assert float(averaged) < 0.6 * float(around.log_weights(theta, 512).std(1).mean())


@pytest.mark.parametrize("entries", [1, 2, 4, 6])
def test_variances_are_the_diagonal_of_all_covariances(entries: int) -> None:
    random, size, elements = np.random.default_rng(entries), 12, 7
    columns = torch.from_numpy(random.integers(0, size + 1, (elements, entries)))
    coefficients = torch.from_numpy(random.normal(size=(3, elements, entries)))
    coefficients = torch.where(columns == size, 0.0, coefficients)
    design = Design(Affine(columns, coefficients, torch.zeros(1, elements, dtype=torch.float64)), size)
    root = torch.from_numpy(random.normal(size=(3, size, size)))
    covariance = root @ root.mT
    every = torch.arange(elements)
    torch.testing.assert_close(design.variances(covariance), design.covariances(covariance, every, every))


def test_some_rows_alone_are_left_out_as_they_are_among_all() -> None:
    found = target()
    theta, every = torch.tensor([[-0.3], [0.4]], dtype=torch.float64), torch.ones(6, dtype=torch.bool)
    chosen = torch.tensor([False, True, False, True, True, False])
    some = found.movers.of(chosen, found.likelihood.groups)
    whole, part = (found.marginals_by(theta, every, 8, movers) for movers in (found.movers, some))
    assert some.every == found.movers.every
    assert some.most <= 3
    torch.testing.assert_close(part.given, whole.given)
    torch.testing.assert_close(part.changed[:, chosen], whole.changed[:, chosen])


def test_a_check_follows_all_of_few_rows_and_a_share_of_many() -> None:
    assert _some_rows(40).all()
    assert int(_some_rows(900).sum()) == 150
    assert torch.equal(_some_rows(900), _some_rows(900))
