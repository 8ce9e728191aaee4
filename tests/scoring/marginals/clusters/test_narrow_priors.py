"""Groups whose latents have a prior far narrower than where modes were found before (BUGS' `blocker`)."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, logsumexp

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.clusters.integrator import integrate_clusters
from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

TRIALS = """
with pm.Model() as model:
    mu = pm.Normal("mu", 0, 10, shape=12)
    d = pm.Normal("d", 0, 10)
    tau = pm.HalfNormal("tau", 1)
    delta = pm.Normal("delta", d, tau, shape=12)
    pm.Binomial("r", n=n, p=pm.math.invlogit(mu[study] + delta[study] * treated), observed=r)
"""
RNG = np.random.default_rng(1)
STUDY, TREATED = np.repeat(np.arange(12), 2), np.tile([0, 1], 12)
N = RNG.integers(40, 300, 24)
R = RNG.binomial(N, expit(RNG.normal(-1.5, 0.5, 12)[STUDY] - 0.3 * TREATED))


def trials() -> ClusterIntegrated:
    columns = {"study": STUDY, "treated": TREATED, "n": N}
    schema = DataSchema(dict.fromkeys(columns, "int64"), "r", "int64", len(N))
    _, document = model_and_graph(TRIALS, schema, columns)
    found = integrate_clusters(build_density(parse_graph(json.dumps(document), schema), columns, R))
    assert isinstance(found, ClusterIntegrated)
    return found


def without_spread(effect: float, given: np.ndarray) -> float:
    """Log density of some rows where all effects are one number: an integral for each study."""
    mu = np.linspace(-9.0, 6.0, 6001)
    total = 0.0
    for study in range(12):
        log_joint = stats.norm.logpdf(mu, 0, 10) + np.log(mu[1] - mu[0])
        for row in np.nonzero((study == STUDY) & given)[0]:
            log_joint = log_joint + stats.binom.logpmf(R[row], N[row], expit(mu + effect * TREATED[row]))
        total += float(logsumexp(log_joint))
    return total


@pytest.mark.parametrize(("effect", "log_tau"), [(-3.0, -7.0), (-0.3, -9.0), (2.5, -11.0)])
def test_effects_that_hardly_differ_after_others_that_did(effect: float, log_tau: float) -> None:
    target = trials()
    everything, given = np.ones(24, dtype=bool), np.ones(24, dtype=bool)
    given[[3, 8]] = False
    usual = torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theta = torch.tensor([[effect, log_tau]], dtype=torch.float64)
    with torch.no_grad():
        target.marginals(0.3 * usual + torch.tensor([-0.3, -1.0]))
        whole = target.marginals(theta)
        assert float(whole.given) == pytest.approx(without_spread(effect, everything), abs=0.01)
        added = target.added_densities(theta, torch.from_numpy(given))[0]
    fewer = without_spread(effect, given)
    for row in (3, 8):
        more = given.copy()
        more[row] = True
        assert float(added[row]) == pytest.approx(without_spread(effect, more) - fewer, abs=0.01)
