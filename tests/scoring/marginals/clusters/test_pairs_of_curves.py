"""Curves with a size and a rate of each group: both are integrated out together, not one of them."""

from __future__ import annotations

import numpy as np
import torch
from scipy import special, stats

from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.integration import EASILY_LEFT, integrate
from tests.scoring.marginals.test_density import Builder

GROUPS, EACH = 7, 12
RNG = np.random.default_rng(15)
GROUP, DAY = np.repeat(np.arange(GROUPS), EACH), np.tile(np.arange(float(EACH)), GROUPS)
MEAN = np.exp(RNG.normal(3.0, 0.3, GROUPS)[GROUP] - np.exp(RNG.normal(-1.5, 0.3, GROUPS))[GROUP] * DAY)
Y = RNG.poisson(MEAN)


def decays() -> Density:
    b = Builder()
    rate = b.random("Normal", "rate", -1.5, 1.0)
    size = b.random("Normal", "size", 3.0, 1.0, shape=(GROUPS,))
    own = b.random("Normal", "own", 0.0, 0.5, shape=(GROUPS,))
    of_row = [b.op("take", x, b.covariate("g"), axis=0) for x in (size, own)]
    falling = b.op("mul", b.op("exp", b.op("add", rate, of_row[1])), b.covariate("day"))
    b.random("Poisson", "y", b.op("exp", b.op("sub", of_row[0], falling)), shape=(len(Y),))
    return b.density({"g": GROUP, "day": DAY}, Y)


def by_quadrature(rate: float) -> float:
    """Each group's two parameters over a grid that covers both priors."""
    size, own = np.linspace(-1.0, 7.0, 801), np.linspace(-3.0, 3.0, 601)
    cell = np.log(size[1] - size[0]) + np.log(own[1] - own[0])
    prior = stats.norm.logpdf(size, 3.0, 1.0)[:, None] + stats.norm.logpdf(own, 0.0, 0.5)
    total = 0.0
    for group in range(GROUPS):
        counts = Y[group == GROUP]
        density = prior.copy()
        for day, count in enumerate(counts):
            log_mean = size[:, None] - np.exp(rate + own) * day
            density += count * log_mean - np.exp(log_mean) - special.gammaln(count + 1.0)
        total += special.logsumexp(density) + cell
    return total


def test_two_parameters_of_each_group_are_taken_where_one_leaves_many() -> None:
    density = decays()
    one = integrate_groups(density)
    assert isinstance(one, GroupIntegrated)
    assert one.dimension > EASILY_LEFT
    found = integrate(density)
    assert isinstance(found, ClusterIntegrated)
    assert found.dimension == 1
    theta = torch.tensor([[-1.8], [-1.3]], dtype=torch.float64)
    rows = found.marginal_likelihood(theta)
    for particle, rate in enumerate(theta[:, 0].tolist()):
        assert abs(float(rows[particle]) - by_quadrature(rate)) < 0.01
