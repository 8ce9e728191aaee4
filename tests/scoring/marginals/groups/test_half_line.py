"""Half-normal and exponential latents of normal rows: closed forms against quadrature, scipy and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import integrate, stats

from synthstats_lightning.scoring.marginals.groups.closed_form import ConjugateIntegrated
from synthstats_lightning.scoring.marginals.groups.half_line import normal_quantile
from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from tests.scoring.marginals.groups.models import EXPOSURE, REAL, ROWS, G, X, density_of

POSITIVE = np.round(np.exp(0.3 * REAL), 3)
A, S, TAU = 0.4, 0.7, 1.3
"""Values of the parameters outside at which integrals are compared."""


def others() -> tuple[Any, Any, Any]:
    return pm.Normal("a", 0, 2), pm.HalfNormal("s", 1), pm.HalfNormal("tau", 1)


def frontier(y: Any) -> None:
    a, s, tau = others()
    u = pm.HalfNormal("u", tau, shape=ROWS)
    pm.Normal("y", a + 0.5 * X - u, s, observed=y)


def delays(y: Any) -> None:
    a, s, tau = others()
    u = pm.Exponential("u", scale=tau, shape=6)
    pm.Normal("y", a + u[G] * EXPOSURE, s, observed=y)


def panel(y: Any) -> None:
    a, s, tau = others()
    u = pm.HalfNormal("u", tau, shape=6)
    pm.Normal("y", a - (u * 2.0)[G] + 0.5 * X, s * EXPOSURE, observed=y)


def costs(y: Any) -> None:
    a, s, tau = others()
    u = pm.HalfNormal("u", tau, shape=6)
    pm.LogNormal("y", a + u[G], s, observed=y)


EACH = np.arange(ROWS)
SHAPES = {
    # which element, mean without it, slope, scale, logarithm, prior
    frontier: (EACH, A + 0.5 * X, -np.ones(ROWS), np.full(ROWS, S), False, stats.halfnorm(scale=TAU)),
    delays: (G, np.full(ROWS, A), EXPOSURE, np.full(ROWS, S), False, stats.expon(scale=TAU)),
    panel: (G, A + 0.5 * X, np.full(ROWS, -2.0), S * EXPOSURE, False, stats.halfnorm(scale=TAU)),
    costs: (G, np.full(ROWS, A), np.ones(ROWS), np.full(ROWS, S), True, stats.halfnorm(scale=TAU)),
}


def by_quadrature(build: Any, response: Any, given: Any) -> float:
    """The log density of some rows together."""
    element, mean, slope, scale, logarithm, prior = SHAPES[build]
    value = np.log(response) if logarithm else response
    jacobian = -value if logarithm else np.zeros(ROWS)
    total = 0.0
    for each in np.unique(element):
        rows = given & (element == each)

        def joint(x: float, rows: Any = rows) -> float:
            kernel = stats.norm.logpdf(value[rows], mean[rows] + slope[rows] * x, scale[rows])
            return float(np.exp(prior.logpdf(x) + kernel.sum()))

        found, _ = integrate.quad(joint, 0.0, 40.0, points=[0.1, 0.5, 1, 2, 4], epsabs=0, limit=400)
        total += np.log(found) + jacobian[rows].sum()
    return float(total)


def closed_form(build: Any) -> tuple[ConjugateIntegrated, torch.Tensor]:
    response = POSITIVE if build is costs else REAL
    closed = integrate_groups(density_of(build, response))
    assert isinstance(closed, ConjugateIntegrated)
    place = {"a": A, "s": np.log(S), "tau": np.log(TAU)}
    theta = [place[parameter.name] for parameter in closed.others.parameters]
    return closed, torch.tensor([theta], dtype=torch.float64)


@pytest.mark.parametrize("build", SHAPES)
def test_closed_forms_are_the_integrals_by_quadrature(build: Any) -> None:
    closed, theta = closed_form(build)
    response = POSITIVE if build is costs else REAL
    everything = np.ones(ROWS, dtype=bool)
    whole = by_quadrature(build, response, everything)
    found = closed.marginals(theta)
    assert float(closed.marginal_likelihood(theta)) == pytest.approx(whole, abs=1e-8)
    assert float(found.given) == pytest.approx(whole, abs=1e-8)
    for row in range(0, ROWS, 3):
        others = everything.copy()
        others[row] = False
        assert float(found.changed[0, row]) == pytest.approx(by_quadrature(build, response, others), abs=1e-8)
    some = torch.arange(ROWS) % 4 != 1
    mine = float(closed.log_likelihood_given(theta, some))
    assert mine == pytest.approx(by_quadrature(build, response, some.numpy()), abs=1e-8)


def test_single_rows_have_the_densities_of_scipy() -> None:
    for build, exact in (
        (frontier, stats.skewnorm(-TAU / S, A + 0.5 * X, np.hypot(S, TAU))),
        (delays, stats.exponnorm(TAU * EXPOSURE / S, A, S)),
    ):
        closed, theta = closed_form(build)
        nothing = torch.zeros(ROWS, dtype=torch.bool)
        found = closed.marginals(theta, nothing).changed[0].numpy()
        np.testing.assert_allclose(found, exact.logpdf(REAL), rtol=0, atol=1e-9)


@pytest.mark.parametrize("build", [frontier, delays, panel])
def test_draws_have_the_posterior_of_the_latent(build: Any) -> None:
    closed, theta = closed_form(build)
    element, mean, slope, scale, _, prior = SHAPES[build]
    given = np.arange(ROWS) % 4 != 1
    drawn = closed.complete(theta.repeat(4000, 1), torch.Generator().manual_seed(3), torch.from_numpy(given))
    values = closed.density.constrain(drawn)["u"].numpy()
    grid = np.linspace(1e-9, 30.0, 60_001)
    for each in np.unique(element)[:6]:
        rows = given & (element == each)
        kernel = stats.norm.logpdf(REAL[rows], mean[rows] + slope[rows] * grid[:, None], scale[rows]).sum(1)
        weight = np.exp(prior.logpdf(grid) + kernel - kernel.max())
        weight = np.cumsum(weight) / weight.sum()
        found = stats.kstest(values[:, each], lambda x, weight=weight: np.interp(x, grid, weight))
        assert found.pvalue > 1e-4


def test_far_below_zero_nothing_overflows_or_cancels() -> None:
    """Rows that lie far on the wrong side: their latent is next to nothing, as of an exponential there."""

    def build(y: Any) -> None:
        tau = pm.HalfNormal("tau", 1)
        u = pm.Exponential("u", scale=tau, shape=ROWS)
        pm.Normal("y", u, 0.01, observed=y)

    response = -1.0 - np.arange(ROWS) / 3
    closed = integrate_groups(density_of(build, response))
    assert isinstance(closed, ConjugateIntegrated)
    theta = torch.zeros(1, 1, dtype=torch.float64)
    # exponnorm underflows there: the density of the row without the latent, and what the latent adds
    a, b = 1e4, response / 1e-4 - 1.0
    expected = stats.norm.logpdf(response, 0, 0.01) - np.log(-b) + np.log1p(-a / b**2 + 3 * a**2 / b**4)
    found = closed.log_likelihood(theta).numpy()[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    every = torch.ones(ROWS, dtype=torch.bool)
    drawn = closed.complete(theta.repeat(2000, 1), torch.Generator().manual_seed(1), every)
    mean = closed.density.constrain(drawn)["u"].numpy().mean(0)
    np.testing.assert_allclose(mean, -1 / b, rtol=0.15)


def test_gradients_are_those_of_differences() -> None:
    for build in (frontier, delays, costs):
        closed, theta = closed_form(build)
        assert torch.autograd.gradcheck(closed.marginal_likelihood, (theta.requires_grad_(),), atol=1e-5)


def test_quantiles_of_probabilities_that_underflow() -> None:
    wanted = torch.tensor([-0.5, -5.0, -37.0, -60.0, -1e4], dtype=torch.float64)
    found = normal_quantile(torch.from_numpy(stats.norm.logcdf(wanted.numpy())))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def squared(y: Any) -> None:
    a, s, tau = others()
    u = pm.HalfNormal("u", tau, shape=6)
    pm.Normal("y", a - u[G] ** 2, s, observed=y)


def scaling(y: Any) -> None:
    a, s, _ = others()
    u = pm.HalfNormal("u", 1, shape=6)
    pm.Normal("y", a, s + u[G], observed=y)


def heavy(y: Any) -> None:
    a, s, tau = others()
    u = pm.HalfNormal("u", tau, shape=6)
    pm.StudentT("y", nu=4, mu=a - u[G], sigma=s, observed=y)


@pytest.mark.parametrize("build", [squared, scaling, heavy])
def test_other_models_have_no_such_form(build: Any) -> None:
    assert not isinstance(integrate_groups(density_of(build, REAL)), ConjugateIntegrated)
