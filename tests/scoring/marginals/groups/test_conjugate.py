"""Conjugate latents: closed forms against nodes, brute force and scipy, and models they are no forms of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import special, stats

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.closed_form import ConjugateIntegrated
from synthstats_lightning.scoring.marginals.groups.exponential import exponential_rows
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings, row_groups
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes, integrate_groups
from synthstats_lightning.scoring.marginals.groups.target import TOLERANCE, GroupIntegrated
from tests.scoring.marginals.groups.models import (
    COUNTS,
    EXPOSURE,
    ROWS,
    SUCCESSES,
    TRIALS,
    G,
    X,
    density_of,
    log_integral,
)

TIMES = np.round(np.exp(np.array([0.3, -0.5, 1.2, 0.0, 2.0, -1.0])[G] + 0.4 * X) + 0.05, 2)
YES = (SUCCESSES > TRIALS / 2).astype(np.int64)


def shapes() -> tuple[Any, Any, Any]:
    return pm.Normal("b", 0, 1), pm.Exponential("alpha", 0.5), pm.HalfNormal("beta", 3)


def gamma_poisson(y: Any) -> None:
    b, alpha, beta = shapes()
    w = pm.Gamma("w", alpha, beta, shape=6)
    pm.Poisson("y", EXPOSURE * w[G] * pm.math.exp(b * X), observed=y)


def gamma_poisson_by_logarithm(y: Any) -> None:
    b, alpha, beta = shapes()
    w = pm.Gamma("w", alpha, beta, shape=6)
    pm.Poisson("y", pm.math.exp(pm.math.log(w)[G] + b * X), observed=y)


def exponential_poisson(y: Any) -> None:
    _, alpha, _ = shapes()
    w = pm.Exponential("w", alpha, shape=6)
    pm.Poisson("y", EXPOSURE * w[G], observed=y)


def gamma_exponential(y: Any) -> None:
    b, alpha, beta = shapes()
    w = pm.Gamma("w", alpha, beta, shape=6)
    pm.Exponential("y", w[G] * pm.math.exp(b * X), observed=y)


def gamma_gamma(y: Any) -> None:
    b, alpha, beta = shapes()
    k = pm.HalfNormal("k", 2)
    w = pm.Gamma("w", alpha, beta, shape=6)
    pm.Gamma("y", k, w[G] * pm.math.exp(b * X), observed=y)


def inverse_gamma_exponential(y: Any) -> None:
    b, alpha, beta = shapes()
    w = pm.InverseGamma("w", alpha, beta, shape=6)
    pm.Exponential("y", scale=w[G] * pm.math.exp(b * X), observed=y)


def censored(y: Any) -> None:
    b, alpha, beta = shapes()
    w = pm.Gamma("w", alpha, beta, shape=6)
    rate = w[G] * pm.math.exp(b * X)
    pm.Censored("y", pm.Exponential.dist(rate), lower=None, upper=EXPOSURE, observed=y)


def beta_binomial(y: Any) -> None:
    mu, phi = pm.Beta("mu", 2, 2), pm.HalfNormal("phi", 10)
    p = pm.Beta("p", mu * phi, (1 - mu) * phi, shape=6)
    pm.Binomial("y", n=TRIALS, p=p[G], observed=y)


def beta_bernoulli(y: Any) -> None:
    mu, phi = pm.Beta("mu", 2, 2), pm.HalfNormal("phi", 10)
    p = pm.Beta("p", mu * phi, (1 - mu) * phi, shape=6)
    pm.Bernoulli("y", p[G], observed=y)


def beta_geometric(y: Any) -> None:
    mu, phi = pm.Beta("mu", 2, 2), pm.HalfNormal("phi", 10)
    p = pm.Beta("p", mu * phi, (1 - mu) * phi, shape=6)
    pm.Geometric("y", p[G], observed=y)


MODELS = [
    (gamma_poisson, COUNTS),
    (gamma_poisson_by_logarithm, COUNTS),
    (exponential_poisson, COUNTS),
    (gamma_exponential, TIMES),
    (gamma_gamma, TIMES),
    (inverse_gamma_exponential, TIMES),
    (censored, np.minimum(TIMES, EXPOSURE)),
    (beta_binomial, SUCCESSES),
    (beta_bernoulli, YES),
    (beta_geometric, COUNTS + 1),
]


def both(build: Any, response: Any) -> tuple[ConjugateIntegrated, GroupIntegrated, Density]:
    """A model by closed forms, and by nodes."""
    density = density_of(build, response)
    found = integrate_groups(density)
    assert isinstance(found, ConjugateIntegrated)
    return found, by_nodes(density, find_groupings(density.compiled)[0]), density


@pytest.mark.parametrize(("build", "response"), MODELS, ids=lambda each: getattr(each, "__name__", ""))
def test_closed_forms_are_the_integrals_by_nodes(build: Any, response: Any) -> None:
    closed, other, density = both(build, response)
    assert closed.dimension == density.dimension - 6
    assert (closed.integration.method, closed.integration.error) == ("exact", 0.0)
    assert closed.checked
    theta = closed.sample_prior(400, torch.Generator().manual_seed(1))
    # at the ends, where priors put most of a gamma or beta, nodes fail their own check
    middle = theta[(theta.abs() < 1.5).all(1)][:40]
    usual, refined = (other._checks(middle, fine) for fine in (False, True))
    middle = middle[((usual - refined).abs() < TOLERANCE).all(0)]
    some, one = torch.arange(ROWS) % 4 != 1, torch.arange(ROWS) == 2
    # the check is of all rows: one of few is as near as twice the nodes say
    finer = GroupIntegrated(density, other.others, other.quadrature.finer(2.0))
    apart = (other.marginals(middle, one).changed - finer.marginals(middle, one).changed).abs().amax(1)
    assert int((apart < TOLERANCE).sum()) > max(5, len(middle) - 2)
    middle = middle[apart < TOLERANCE]
    for given in (None, some, one, torch.zeros(ROWS, dtype=torch.bool)):
        mine, nodes = closed.marginals(middle, given), other.marginals(middle, given)
        torch.testing.assert_close(mine.given, nodes.given, rtol=1e-6, atol=0.01)
        torch.testing.assert_close(mine.changed, nodes.changed, rtol=1e-6, atol=0.01)
    total = closed.marginals(middle).given
    torch.testing.assert_close(closed.marginal_likelihood(middle), total, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(closed.log_likelihood(middle).sum(1), total, rtol=1e-10, atol=1e-9)


def test_small_shapes_against_brute_force_in_the_logarithm() -> None:
    """Gamma(0.01, 0.01), as people write a prior that says little: a long tail towards rates of nothing."""

    def build(y: Any) -> None:
        b = pm.Normal("b", 0, 1)
        w = pm.Gamma("w", 0.01, 0.01, shape=6)
        pm.Poisson("y", EXPOSURE * w[G] * pm.math.exp(b * X), observed=y)

    response = np.where(G == 2, 0, COUNTS)
    closed = integrate_groups(density_of(build, response))
    assert isinstance(closed, ConjugateIntegrated)
    b = 0.7
    expected = 0.0
    for group in range(6):
        rows = group == G
        exposure = EXPOSURE[rows] * np.exp(b * X[rows])

        def log_density(u: Any, rows: Any = rows, exposure: Any = exposure) -> Any:
            log_mean = u[:, None] + np.log(exposure)
            poisson = response[rows] * log_mean - np.exp(log_mean) - special.gammaln(response[rows] + 1)
            prior = 0.01 * u - 0.01 * np.exp(u) + 0.01 * np.log(0.01) - special.gammaln(0.01)
            return prior + poisson.sum(1)

        expected += log_integral(log_density, -4000.0, 12.0, 4_000_001)
    found = closed.marginal_likelihood(torch.tensor([[b]], dtype=torch.float64))
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_one_rate_is_the_negative_binomial_of_scipy() -> None:
    def build(y: Any) -> None:
        w = pm.Gamma("w", 2.0, 3.0, shape=ROWS)
        pm.Poisson("y", EXPOSURE * w, observed=y)

    closed = integrate_groups(density_of(build, COUNTS))
    assert isinstance(closed, ConjugateIntegrated)
    assert not closed.coupled
    expected = stats.nbinom.logpmf(COUNTS, 2.0, 3.0 / (3.0 + EXPOSURE))
    found = closed.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=0, atol=1e-10)


def test_one_probability_is_the_beta_binomial_of_scipy() -> None:
    def build(y: Any) -> None:
        p = pm.Beta("p", 1.5, 0.5, shape=ROWS)
        pm.Binomial("y", n=TRIALS, p=p, observed=y)

    closed = integrate_groups(density_of(build, SUCCESSES))
    assert isinstance(closed, ConjugateIntegrated)
    expected = stats.betabinom.logpmf(SUCCESSES, TRIALS, 1.5, 0.5)
    found = closed.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=0, atol=1e-10)


def test_many_trials_lose_no_digits() -> None:
    """Twice a normaliser's own rounding at a million trials, where a constant in single precision shows."""
    tries = TRIALS * 1_000_000
    hits = np.round(0.3 * tries).astype(np.int64)

    def build(y: Any) -> None:
        p = pm.Beta("p", 1.5, 0.5, shape=ROWS)
        pm.Binomial("y", n=tries, p=p, observed=y)

    closed = integrate_groups(density_of(build, hits))
    assert isinstance(closed, ConjugateIntegrated)
    expected = stats.betabinom.logpmf(hits, tries, 1.5, 0.5)
    found = closed.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=0, atol=1e-6)


def test_large_exposures_lose_no_digits() -> None:
    people = np.round(EXPOSURE * 1e9)

    def build(y: Any) -> None:
        w = pm.Gamma("w", 1.0, 1e9, shape=ROWS)
        pm.Poisson("y", people * w, observed=y)

    closed = integrate_groups(density_of(build, COUNTS))
    assert isinstance(closed, ConjugateIntegrated)
    expected = stats.nbinom.logpmf(COUNTS, 1.0, 1e9 / (1e9 + people))
    found = closed.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=0, atol=1e-9)


def test_slopes_that_almost_overflow_lose_no_digits() -> None:
    """Some rows' exposures are exponentials of hundreds, as under a `Normal(0, 1000)` slope."""
    half = (np.arange(ROWS) % 2).astype(float)

    def build(y: Any) -> None:
        b = pm.Normal("b", 0, 1000)
        w = pm.Gamma("w", 0.01, 0.01, shape=6)
        pm.Poisson("y", EXPOSURE * w[G] * pm.math.exp(b * half), observed=y)

    closed = integrate_groups(density_of(build, COUNTS))
    assert isinstance(closed, ConjugateIntegrated)
    slopes = np.array([-650.0, -350.0, 1.0, 350.0, 450.0, 600.0])
    expected = []
    for slope in slopes:
        log_exposure = np.log(EXPOSURE) + slope * half
        total = float(np.sum(COUNTS * log_exposure - special.gammaln(COUNTS + 1)))
        for group in range(6):
            count, rows = 0.01 + COUNTS[group == G].sum(), group == G
            rate = np.logaddexp.reduce([np.log(0.01), *log_exposure[rows]])
            total += 0.01 * np.log(0.01) - special.gammaln(0.01) + special.gammaln(count) - count * rate
        expected.append(total)
    found = closed.marginal_likelihood(torch.from_numpy(slopes)[:, None])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-6)
    beyond = closed.marginal_likelihood(torch.tensor([[660.0], [705.0], [800.0]], dtype=torch.float64))
    assert (beyond < 0.0).all()


def test_draws_have_the_conjugate_posterior() -> None:
    for build, response in ((gamma_poisson, COUNTS), (beta_binomial, SUCCESSES)):
        closed, _, density = both(build, response)
        count = 20_000
        theta = torch.full((count, closed.dimension), 0.2, dtype=torch.float64)
        given = torch.arange(ROWS) % 4 != 1
        drawn = closed.complete(theta, torch.Generator().manual_seed(3), given)
        parameter = closed.quadrature.integrand.parameter
        values = density.constrain(drawn)[parameter.name].numpy()
        rest = closed.others.constrain(theta[:1])
        kept = given.numpy()
        for group in range(6):
            rows = kept & (group == G)
            if build is gamma_poisson:
                alpha, beta, b = (float(rest[name]) for name in ("alpha", "beta", "b"))
                rate = beta + float((EXPOSURE * np.exp(b * X))[rows].sum())
                exact = stats.gamma(alpha + COUNTS[rows].sum(), scale=1 / rate)
            else:
                mu, phi = float(rest["mu"]), float(rest["phi"])
                failures = (TRIALS - SUCCESSES)[rows].sum()
                exact = stats.beta(mu * phi + SUCCESSES[rows].sum(), (1 - mu) * phi + failures)
            assert stats.kstest(values[:, group], exact.cdf).pvalue > 1e-4


def test_gradients_are_those_of_differences() -> None:
    for build, response in ((gamma_gamma, TIMES), (beta_binomial, SUCCESSES)):
        closed, _, _ = both(build, response)
        theta = torch.full((1, closed.dimension), 0.3, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(closed.marginal_likelihood, (theta,), atol=1e-5)


def test_hyperparameters_that_are_not_allowed_have_no_mass() -> None:
    def build(y: Any) -> None:
        alpha = pm.Normal("alpha", 1, 2)
        w = pm.Gamma("w", alpha, 1.0, shape=6)
        pm.Poisson("y", w[G], observed=y)

    closed = integrate_groups(density_of(build, COUNTS))
    assert isinstance(closed, ConjugateIntegrated)
    found = closed.marginal_likelihood(torch.tensor([[-0.5], [0.5]], dtype=torch.float64))
    assert found.isfinite().tolist() == [False, True]


def squared(y: Any) -> None:
    w = pm.Gamma("w", 2, 1, shape=6)
    pm.Poisson("y", w[G] ** 2, observed=y)


def shifted(y: Any) -> None:
    w = pm.Gamma("w", 2, 1, shape=6)
    pm.Poisson("y", w[G] + 0.5, observed=y)


def turned(y: Any) -> None:
    w = pm.InverseGamma("w", 3, 1, shape=6)
    pm.Poisson("y", w[G], observed=y)


def other_prior(y: Any) -> None:
    w = pm.LogNormal("w", 0, 1, shape=6)
    pm.Poisson("y", w[G], observed=y)


def halved(y: Any) -> None:
    p = pm.Beta("p", 2, 2, shape=6)
    pm.Binomial("y", n=TRIALS, p=0.5 * p[G], observed=y)


def one_less(y: Any) -> None:
    p = pm.Beta("p", 2, 2, shape=6)
    pm.Binomial("y", n=TRIALS, p=1 - p[G], observed=y)


def weibull(y: Any) -> None:
    w = pm.Gamma("w", 2, 1, shape=6)
    pm.Weibull("y", 1.5, w[G], observed=y)


@pytest.mark.parametrize(
    ("build", "response"),
    [
        (squared, COUNTS),
        (shifted, COUNTS),
        (turned, COUNTS),
        (other_prior, COUNTS),
        (halved, SUCCESSES),
        (one_less, SUCCESSES),
        (weibull, TIMES),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_other_models_go_by_nodes(build: Any, response: Any) -> None:
    assert isinstance(integrate_groups(density_of(build, response)), GroupIntegrated)


def test_a_form_is_read_of_the_slope() -> None:
    density = density_of(gamma_exponential, TIMES)
    (grouping, *_) = find_groupings(density.compiled)
    rows = exponential_rows(Integrand(density.compiled, grouping), grouping)
    assert rows is not None
    assert rows.slope.terms == {(): -1.0}
    assert rows.kind.turn == -1.0
    assert row_groups(grouping.element, grouping.size).shared
