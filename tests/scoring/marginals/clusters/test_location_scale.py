"""Groups with a mean and a spread of their own: pairs by quadrature where an exact block leaves many."""

from __future__ import annotations

import numpy as np
import torch
from scipy import special

from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock, integrate_gaussian
from synthstats_lightning.scoring.marginals.integration import HARDLY_LEFT, integrate
from tests.scoring.marginals.test_density import Builder

GROUPS, EACH = 20, 14
RNG = np.random.default_rng(14)
GROUP = np.repeat(np.arange(GROUPS), EACH)
SPREAD = np.exp(RNG.normal(-0.3, 0.4, GROUPS))
Y = RNG.normal(size=GROUPS)[GROUP] + SPREAD[GROUP] * RNG.normal(size=len(GROUP))


def location_and_scale() -> Density:
    b = Builder()
    a = b.random("Normal", "a", 0.0, 2.0)
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    u = b.random("Normal", "u", 0.0, tau, shape=(GROUPS,))
    log_sigma = b.random("Normal", "log_sigma", 0.0, 1.0)
    omega = b.random("HalfNormal", "omega", 0.0, 0.5)
    v = b.random("Normal", "v", 0.0, omega, shape=(GROUPS,))
    of_row = [b.op("take", x, b.covariate("g"), axis=0) for x in (u, v)]
    scale = b.op("exp", b.op("add", log_sigma, of_row[1]))
    b.random("Normal", "y", b.op("add", a, of_row[0]), scale, shape=(len(Y),))
    return b.density({"g": GROUP}, Y)


def by_quadrature(a: float, tau: float, log_sigma: float, omega: float) -> float:
    """Each group is normal given its spread, which is integrated out by Gauss-Hermite nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    noise = np.exp(2 * (log_sigma + omega * nodes))
    whole = noise + EACH * tau**2
    total = 0.0
    for group in range(GROUPS):
        rows = Y[group == GROUP] - a
        within, mean = ((rows - rows.mean()) ** 2).sum(), rows.mean()
        # one variance along the mean, another across it
        own = (EACH - 1) * np.log(noise) + np.log(whole) + within / noise + EACH * mean**2 / whole
        total += special.logsumexp(-0.5 * (own + EACH * np.log(2 * np.pi)), b=weights / np.sqrt(2 * np.pi))
    return total


def test_pairs_are_integrated_out_where_the_exact_block_leaves_a_spread_of_each_group() -> None:
    density = location_and_scale()
    exact = integrate_gaussian(density)
    assert isinstance(exact, GaussianBlock)
    assert exact.dimension > HARDLY_LEFT
    found = integrate(density)
    assert isinstance(found, ClusterIntegrated)
    assert found.dimension == 4
    theta = torch.tensor([[0.1, -0.2, -0.3, -1.0], [-0.4, 0.3, 0.1, -0.5]], dtype=torch.float64)
    rows = found.marginal_likelihood(theta)
    own = found.others.constrain(theta)
    for particle in range(len(theta)):
        values = {name: float(own[name][particle]) for name in ("a", "tau", "log_sigma", "omega")}
        assert abs(float(rows[particle]) - by_quadrature(**values)) < 0.02
