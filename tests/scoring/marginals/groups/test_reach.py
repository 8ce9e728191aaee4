"""How far nodes reach at first where tails are heavy, against a plain sum over each group's effect."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from synthstats_lightning.scoring.marginals.groups.quadrature import Quadrature
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from tests.scoring.marginals.test_density import Builder

SCHOOLS, PUPILS = 12, 15
RNG = np.random.default_rng(2)
SCHOOL = np.repeat(np.arange(SCHOOLS), PUPILS)
X = RNG.normal(size=len(SCHOOL))
PASSED = (RNG.uniform(size=len(SCHOOL)) < 0.4).astype(float)
PASSED[SCHOOL == 3] = 1.0  # of this school the data bound nothing from above
THETA = {"mu": -0.3, "tau": 0.1, "beta": 0.2}


def passed(effects: str) -> GroupIntegrated:
    """Pupils who pass, by schools whose effects have some law."""
    b = Builder()
    mu, beta = b.random("Normal", "mu", 0.0, 2.0), b.random("Normal", "beta", 0.0, 1.0)
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    law = ("StudentT", 4.0) if effects == "StudentT" else ("Normal",)
    effect = b.random(law[0], "eta", *law[1:], 0.0, 1.0, shape=(SCHOOLS,))
    own = b.op("take", b.op("mul", tau, effect), b.covariate("school"), axis=0)
    logit = b.op("add", b.op("add", mu, own), b.op("mul", beta, b.covariate("x")))
    b.random("Bernoulli", "y", b.op("sigmoid", logit), shape=(len(SCHOOL),))
    found = integrate_groups(b.density({"school": SCHOOL, "x": X}, PASSED))
    assert isinstance(found, GroupIntegrated)
    return found


def by_sums(effects: str) -> float:
    law = stats.t(4) if effects == "StudentT" else stats.norm()
    z = 40.0 * np.sinh(np.linspace(-4.0, 4.0, 60_001)) / np.sinh(4.0)
    log_weight = law.logpdf(z) + np.log(np.gradient(z))
    total = 0.0
    for school in range(SCHOOLS):
        own = school == SCHOOL
        logit = THETA["mu"] + np.exp(THETA["tau"]) * z + THETA["beta"] * X[own][:, None]
        rows = -np.logaddexp(0.0, np.where(PASSED[own][:, None] > 0, -logit, logit))
        total += logsumexp(rows.sum(0) + log_weight)
    # beyond the sum's ends nothing bounds one school but its prior
    return total


@pytest.mark.parametrize(("effects", "first"), [("StudentT", True), ("Normal", False)])
def test_heavy_tails_are_reached_at_once(effects: str, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = passed(effects)
    assert (target.quadrature.first > 0) is first
    theta = torch.tensor([[THETA[p.name] for p in target.others.parameters]], dtype=torch.float64)
    tried = []
    fallen = Quadrature._fallen

    def counted(self: Quadrature, *arguments: object) -> torch.Tensor:
        tried.append(self.first)
        return fallen(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Quadrature, "_fallen", counted)
    found = float(target.log_likelihood_given(theta, torch.ones(len(SCHOOL), dtype=torch.bool)))
    assert found == pytest.approx(by_sums(effects), abs=2e-4)
    assert len(tried) == 1
