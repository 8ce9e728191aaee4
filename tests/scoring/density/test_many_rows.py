"""Evaluations of many rows in chunks against single ones: values, totals and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density import many_rows
from synthstats_lightning.scoring.density import target as targets
from synthstats_lightning.scoring.density.target import evaluate, evaluate_totals, value_and_gradient
from synthstats_lightning.scoring.prediction.given_rows import GivenRows
from tests.scoring.marginals.test_density import log_linear

THETA = torch.randn(11, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "MANY_ROWS", 1)
    monkeypatch.setattr("synthstats_lightning.scoring.prediction.given_rows.MANY_ROWS", 1)
    monkeypatch.setattr(many_rows, "CHUNK", 27 * 4)


def test_chunks_have_every_particle_once() -> None:
    parts = [list(range(100))[some] for some in many_rows.chunks(100, 27)]
    assert [each for part in parts for each in part] == list(range(100))
    assert {len(part) for part in parts} == {4}
    assert many_rows.chunks(3, 10**9) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_tables_and_totals_are_those_of_single_particles() -> None:
    density = log_linear()
    found, totals = evaluate(density, THETA), evaluate_totals(density, THETA)
    for i in range(len(THETA)):
        log_prior, rows = density.log_prior_and_likelihood(THETA[i : i + 1])
        np.testing.assert_allclose(found.log_likelihood[i], rows[0], rtol=1e-13)
        np.testing.assert_allclose(totals.log_joint[i], log_prior[0] + rows.sum(), rtol=1e-13)
    torch.testing.assert_close(found.log_joint, totals.log_joint)


def test_totals_have_the_gradients_of_the_density() -> None:
    density = log_linear()
    theta = THETA.clone()
    theta[3, 2] = -800.0  # a scale that underflows: no density there, and a gradient of 0
    value, gradient = value_and_gradient(lambda x: evaluate_totals(density, x).log_joint, theta)

    def whole(x: torch.Tensor) -> torch.Tensor:
        log_prior, rows = density.log_prior_and_likelihood(x)
        return log_prior + rows.sum(1)

    exact, slope = value_and_gradient(whole, theta)
    usable = exact.isfinite()
    torch.testing.assert_close(value[usable], exact[usable])
    torch.testing.assert_close(gradient[usable], slope[usable])
    assert bool(gradient.isfinite().all())
    assert not bool(value[~usable].isfinite().any())


def test_some_rows_together() -> None:
    density = log_linear()
    given = torch.arange(27) % 3 != 0
    some = GivenRows(density, given)
    log_prior, total = some.log_prior_and_likelihood(THETA)
    exact = density.log_likelihood(THETA)[:, given].sum(1)
    torch.testing.assert_close(total[:, 0], exact)
    torch.testing.assert_close(log_prior, density.log_prior(THETA))
    torch.testing.assert_close(targets.log_likelihood_of(density, THETA, given), exact)
