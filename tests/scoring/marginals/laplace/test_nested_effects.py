"""Effects of rows within effects of groups, as overdispersed counts of patients have, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite import hermgauss
from scipy.special import gammaln, logsumexp

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.arrow import Arrow
from synthstats_lightning.scoring.marginals.laplace import affordable
from synthstats_lightning.scoring.marginals.laplace.integrator import integrate_laplace
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from tests.scoring.marginals.test_density import Builder

PATIENTS, VISITS = 40, 4
RNG = np.random.default_rng(5)
PATIENT = np.repeat(np.arange(PATIENTS), VISITS)
COUNTS = RNG.poisson(np.exp(1.6 + RNG.normal(0, 0.5, PATIENTS)[PATIENT] + RNG.normal(0, 0.4, len(PATIENT))))
LOG_SCALES = np.array([-0.7, -0.9])
"""Of effects of patients, and of rows."""


def nested() -> Density:
    """Counts with an effect of each patient and one of each visit, of vague precisions."""
    b = Builder()
    between, within = (b.random("HalfCauchy", name, 5.0) for name in ("between", "within"))
    patient = b.random("Normal", "patient", 0.0, between, shape=(PATIENTS,))
    visit = b.random("Normal", "visit", 0.0, within, shape=(len(PATIENT),))
    level = b.op("add", b.lift(1.6), b.op("take", patient, b.covariate("p"), axis=0), visit)
    b.random("Poisson", "y", b.op("exp", level), shape=(len(PATIENT),))
    return b.density({"p": PATIENT}, COUNTS.astype(float))


def integrated() -> LaplaceIntegrated:
    target = integrate_laplace(nested())
    assert target is not None
    return target


def by_quadrature() -> float:
    """Log density of the counts, visit by visit within patient by patient."""
    nodes, weights = hermgauss(80)
    z, log_weight = np.sqrt(2.0) * nodes, np.log(weights / np.sqrt(np.pi))
    between, within = np.exp(LOG_SCALES)
    total = 0.0
    for patient in range(PATIENTS):
        count = COUNTS[patient == PATIENT][:, None, None]
        level = 1.6 + between * z[:, None] + within * z
        rows = count * level - np.exp(level) - gammaln(count + 1.0) + log_weight
        total += logsumexp(logsumexp(rows, axis=2).sum(0) + log_weight)
    return total


def test_a_patient_and_its_visits_are_one_group() -> None:
    pattern = integrated().shape.pattern
    assert isinstance(pattern, Arrow)
    assert tuple(pattern.groups.shape) == (PATIENTS, 1 + VISITS)
    assert not len(pattern.core)


def test_the_density_is_that_of_nested_quadrature() -> None:
    target, every = integrated(), torch.ones(len(PATIENT), dtype=torch.bool)
    theta = torch.from_numpy(LOG_SCALES)[None]
    found = float(target.marginals_by(theta, every, 4_000, target.movers).given)
    assert found == pytest.approx(by_quadrature(), abs=0.05)


def test_what_moves_with_which_row_is_looked_for_anew_where_the_posterior_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a prior draw of vanishing effects of patients, visits of one patient have nothing in common."""
    # rows are too many for all of them to be followed with each
    monkeypatch.setattr(affordable, "WORK", 500.0 * len(PATIENT) * (2 * VISITS))
    draws = torch.from_numpy(LOG_SCALES) + 0.2 * torch.randn(
        64, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    far = integrated().started_at(torch.tensor([[-9.0, 0.5]], dtype=torch.float64))
    assert far.movers.most == 1
    checked = far.checked_at(draws)
    assert checked is not None
    assert checked.movers.most == VISITS
