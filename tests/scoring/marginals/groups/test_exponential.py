"""Rows that bend once: their form against densities at nodes, and where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.marginals.groups.exponential import exponential_rows
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes
from synthstats_lightning.scoring.marginals.groups.quadrature import Quadrature
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from tests.scoring.marginals.groups.models import (
    COUNTS,
    EXPOSURE,
    ROWS,
    G,
    X,
    density_of,
    integrated,
    log_integral,
)

TIMES = np.round(np.exp(np.array([0.3, -0.5, 1.2, 0.0, 2.0, -1.0])[G] + 0.4 * X) + 0.05, 2)


def effects() -> tuple[Any, Any, Any]:
    b, tau = pm.Normal("b", 0, 1), pm.HalfNormal("tau", 1)
    return b, tau, pm.Normal("a", 0.5, tau, shape=6)


def poisson_exposure(y: Any) -> None:
    b, _, a = effects()
    pm.Poisson("y", EXPOSURE * pm.math.exp(a[G] + b * X), observed=y)


def poisson_log(y: Any) -> None:
    b, _, a = effects()
    pm.Poisson("y", pm.math.exp(a[G] + b * X), observed=y)


def poisson_not_centred(y: Any) -> None:
    b, tau = pm.Normal("b", 0, 1), pm.HalfNormal("tau", 1)
    z = pm.Normal("z", 0, 1, shape=6)
    pm.Poisson("y", pm.math.exp(0.5 + tau * z[G] / 2 - b * X), observed=y)


def poisson_gamma(y: Any) -> None:
    b, theta = pm.Normal("b", 0, 1), pm.Gamma("theta", 2, 1)
    w = pm.Gamma("w", theta, theta, shape=6)
    pm.Poisson("y", EXPOSURE * w[G] * pm.math.exp(b * X), observed=y)


def exponential_rate(y: Any) -> None:
    b, _, a = effects()
    pm.Exponential("y", pm.math.exp(-a[G] - b * X), observed=y)


def gamma_rate(y: Any) -> None:
    b, _, a = effects()
    k = pm.Gamma("k", 3, 1)
    pm.Gamma("y", k, k / pm.math.exp(a[G] + b * X), observed=y)


def gamma_by_mean(y: Any) -> None:
    b, _, a = effects()
    mu = pm.math.exp(a[G] + b * X)
    pm.Gamma("y", mu=mu, sigma=mu * pm.HalfNormal("s", 1), observed=y)


def weibull(y: Any) -> None:
    b, _, a = effects()
    k = pm.Gamma("k", 3, 1)
    pm.Weibull("y", k, pm.math.exp(a[G] + b * X), observed=y)


def weibull_fixed_shape(y: Any) -> None:
    b, _, a = effects()
    pm.Weibull("y", 1.5, 1 / pm.math.sqrt(pm.math.exp(-a[G] + b * X)), observed=y)


def weibull_cut_short(y: Any) -> None:
    b, _, a = effects()
    k = pm.Gamma("k", 3, 1)
    law = pm.Weibull.dist(k, pm.math.exp(a[G] + b * X))
    pm.Censored("y", law, lower=None, upper=EXPOSURE, observed=y)


def exponential_cut_short(y: Any) -> None:
    b, _, a = effects()
    pm.Censored("y", pm.Exponential.dist(pm.math.exp(b * X - a[G])), lower=None, upper=3.0, observed=y)


FORMS = {
    poisson_exposure: COUNTS,
    poisson_log: COUNTS,
    poisson_not_centred: COUNTS,
    poisson_gamma: COUNTS,
    exponential_rate: TIMES,
    gamma_rate: TIMES,
    gamma_by_mean: TIMES,
    weibull: TIMES,
    weibull_fixed_shape: TIMES,
    weibull_cut_short: np.minimum(TIMES, EXPOSURE),
    exponential_cut_short: np.minimum(TIMES, 3.0),
}


def parts(model: Any, response: Any) -> tuple[GroupIntegrated, Any, torch.Tensor]:
    """The model without its latent, what it reads of five draws of the others, and these."""
    density = density_of(model, response)
    # one with a conjugate prior has a closed form, which is tested by itself
    found = by_nodes(density, find_groupings(density.compiled)[0])
    assert found.quadrature.form is not None
    theta = 0.5 * torch.randn(5, found.dimension, dtype=torch.float64, generator=torch.manual_seed(3))
    return found, found.outer(theta), theta


@pytest.mark.parametrize(("model", "response"), FORMS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_the_form_is_the_density_of_every_row(model, response):
    found, outer, _ = parts(model, response)
    quadrature = found.quadrature
    generator = torch.manual_seed(1)
    centre = torch.randn(5, 1, 6, dtype=torch.float64, generator=generator)
    u = centre + 2 * torch.randn(5, 7, 6, dtype=torch.float64, generator=generator)
    bends = quadrature.form.at(outer, centre)
    rows = quadrature.integrand(outer, u).rows
    torch.testing.assert_close(bends.log_likelihood((u - centre)[..., G]), rows, rtol=1e-9, atol=1e-9)
    given = torch.arange(ROWS) % 3 > 0
    by_element = torch.zeros(5, 7, 6, dtype=torch.float64)
    by_element.index_add_(2, torch.from_numpy(G), torch.where(given, rows, 0.0))
    together = bends.of_elements(given, quadrature.groups)
    torch.testing.assert_close(together.log_likelihood(u - centre), by_element, rtol=1e-9, atol=1e-9)
    shape = together.shape(u - centre) - by_element
    torch.testing.assert_close(shape, shape[:, :1].expand_as(shape), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize(("model", "response"), FORMS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_integrals_and_gradients_are_those_without_it(model, response):
    found, _, theta = parts(model, response)
    plain = GroupIntegrated(found.density, found.others, without_form(found.quadrature))
    # the second element has one row
    given = (torch.arange(ROWS) != 3) & (torch.arange(ROWS) != 4)
    for rows in (None, given):
        by_form, exact = found.marginals(theta, rows), plain.marginals(theta, rows)
        torch.testing.assert_close(by_form.given, exact.given, rtol=0, atol=1e-7)
        torch.testing.assert_close(by_form.changed, exact.changed, rtol=0, atol=1e-6)
    for rows in (torch.ones(ROWS, dtype=torch.bool), given):
        gradients = []
        for target in (found, plain):
            point = theta.clone().requires_grad_()
            total = target.log_likelihood_given(point, rows).sum()
            gradients.append(torch.autograd.grad(total, point)[0])
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


def without_form(quadrature: Quadrature) -> Quadrature:
    return Quadrature(quadrature.integrand, quadrature.groups, quadrature.reference)


@pytest.mark.parametrize("at", [-600.0, -760.0])
def test_what_vanishes_where_the_form_is_looked_at_comes_back_far_away(at):
    found, outer, _ = parts(poisson_gamma, np.where(G % 2 == 0, 0, COUNTS))
    centre = torch.full((5, 1, 6), at, dtype=torch.float64)
    u = torch.tensor([at, at + 0.5, -550.0, -5.0, 0.0, 2.0], dtype=torch.float64)[None, :, None]
    u = u.expand(5, -1, 6)
    bends = found.quadrature.form.at(outer, centre)
    assert bool((bends.known == (at == -600.0)).all())
    if at == -600.0:
        rows = found.quadrature.integrand(outer, u).rows
        torch.testing.assert_close(bends.log_likelihood((u - centre)[..., G]), rows, rtol=1e-9, atol=1e-9)


def test_against_integrals_of_scipy():
    found, _, _ = parts(gamma_rate, TIMES)
    names = [parameter.name for parameter in found.others.compiled.parameters]
    assert len(names) == 3
    theta = torch.tensor([[0.3, -0.4, 0.6], [2.0, 1.0, -1.0]], dtype=torch.float64)
    values = found.others.node_values(theta)
    own = {
        parameter.name: values[parameter.node].reshape(-1).numpy()
        for parameter in found.others.compiled.parameters
    }
    graph = found.density.compiled.graph
    kinds = {
        node.attributes["name"]: node.attributes["distribution"]
        for node in graph.nodes
        if node.op == "random"
    }
    b, tau, k = (
        own[next(n for n in names if kinds[n] == kind)] for kind in ("Normal", "HalfNormal", "Gamma")
    )
    for particle in range(2):
        exact = 0.0
        for g in range(6):
            y, x = TIMES[g == G][:, None], X[g == G][:, None]

            def log_density(a: Any, y: Any = y, x: Any = x, i: int = particle) -> Any:
                scale = np.exp(a + b[i] * x) / k[i]
                return stats.norm.logpdf(a, 0.5, tau[i]) + stats.gamma.logpdf(y, k[i], scale=scale).sum(0)

            exact += log_integral(log_density, -15, 15)
        assert float(found.marginal_likelihood(theta)[particle]) == pytest.approx(exact, abs=1e-4)


def far(y: Any) -> None:
    b, tau = pm.Normal("b", 0, 1), pm.HalfNormal("tau", 1)
    a = pm.Normal("a", 0.5, tau, shape=6)
    pm.Poisson("y", pm.math.exp(a[G] + 40.0 * b * X), observed=y)


def test_particles_far_from_the_data_keep_finite_or_no_mass():
    found = integrated(far, COUNTS)
    theta = torch.tensor([[3.0, 0.0], [30.0, 1.0], [0.01, -1.0]], dtype=torch.float64)
    by_form = found.marginal_likelihood(theta)
    exact = GroupIntegrated(found.density, found.others, without_form(found.quadrature)).marginal_likelihood(
        theta
    )
    assert not by_form.isnan().any()
    assert by_form[-1] == pytest.approx(float(exact[-1]), abs=1e-7)
    assert bool((by_form[:2] < by_form[-1] - 100).all())


def times_far(y: Any) -> None:
    b, tau = pm.Normal("b", 0, 1), pm.HalfNormal("tau", 1)
    a = pm.Normal("a", 0.5, tau, shape=6)
    pm.Exponential("y", pm.math.exp(-a[G] - 1000 * b), observed=y)


@pytest.mark.parametrize(("model", "response"), [(far, COUNTS), (times_far, TIMES)])
def test_modes_where_the_reference_overflows(model, response):
    found = integrated(model, response)
    quadrature = found.quadrature
    assert quadrature.form is not None
    tau, b = (found.others.compiled.parameters[place] for place in (1, 0))
    theta = torch.zeros(4, 2, dtype=torch.float64)
    theta[:, b.start] = torch.tensor([0.0, 0.05, 1.0, -1.0], dtype=torch.float64)
    theta[:, tau.start] = torch.tensor([0.0, 3.0, 6.0, 6.0], dtype=torch.float64)
    everything = torch.ones(ROWS, dtype=torch.bool)
    outer = found.outer(theta)
    by_form, exact = quadrature.modes(outer, everything), without_form(quadrature).modes(outer, everything)
    height = quadrature.log_density(outer, everything)
    heights = [height(modes.centre, torch.arange(4)) for modes in (by_form, exact)]
    meant = heights[1] > -1e4
    assert bool((heights[0] >= heights[1] - 0.1)[meant].all())
    found_at, exact_at = (
        GroupIntegrated(found.density, found.others, each).marginal_likelihood(theta)
        for each in (quadrature, without_form(quadrature))
    )
    usable = exact_at > -1e4
    assert bool(usable.any())
    torch.testing.assert_close(found_at[usable], exact_at[usable], rtol=0, atol=1e-5)


def vague(y: Any) -> None:
    mu, tau = pm.Normal("mu", 0, 1000), pm.Gamma("tau", 0.001, 0.001)
    a = pm.Normal("a", 0, tau=tau, shape=6)
    pm.Poisson("y", pm.math.exp(mu + a[G]), observed=y)


def test_priors_that_say_nothing():
    found = integrated(vague, COUNTS)
    assert found.quadrature.form is not None
    theta = found.sample_prior(400, torch.Generator().manual_seed(1))
    theta[:20] = torch.randn(20, 2, dtype=torch.float64, generator=torch.manual_seed(2))
    plain = GroupIntegrated(found.density, found.others, without_form(found.quadrature))
    by_form, exact = found.marginal_likelihood(theta), plain.marginal_likelihood(theta)
    # where a search finds no mode there is no mass, and beyond 700 an exponential overflows
    known = by_form.isfinite() & exact.isfinite() & (theta.abs() < 700).all(1)
    assert bool(known[:20].all())
    assert int(known.sum()) > 40
    torch.testing.assert_close(by_form[known], exact[known], rtol=1e-9, atol=1e-5)


def varying_slopes(y: Any) -> None:
    _, _, a = effects()
    pm.Poisson("y", pm.math.exp(0.2 + a[G] * X), observed=y)


def identity_link(y: Any) -> None:
    a = pm.Gamma("a", 2, pm.HalfNormal("s", 1), shape=6)
    pm.Poisson("y", 0.1 + a[G], observed=y)


def shape_too(y: Any) -> None:
    _, _, a = effects()
    mu = pm.math.exp(a[G])
    pm.Gamma("y", alpha=mu, beta=2.0, observed=y)


def shapes_by_row(y: Any) -> None:
    _, _, a = effects()
    k = pm.Gamma("k", 3, 1)
    pm.Weibull("y", k * EXPOSURE, pm.math.exp(a[G]), observed=y)


def gamma_cut_short(y: Any) -> None:
    _, _, a = effects()
    pm.Censored("y", pm.Gamma.dist(2.0, pm.math.exp(a[G])), lower=None, upper=3.0, observed=y)


def from_below(y: Any) -> None:
    _, _, a = effects()
    pm.Censored("y", pm.Exponential.dist(pm.math.exp(a[G])), lower=0.5, upper=None, observed=y)


def kinked(y: Any) -> None:
    _, _, a = effects()
    pm.Poisson("y", pm.math.exp(pm.math.abs(a[G])), observed=y)


def logit(y: Any) -> None:
    _, _, a = effects()
    pm.Bernoulli("y", logit_p=a[G], observed=y)


@pytest.mark.parametrize("model", [varying_slopes, identity_link, shape_too, shapes_by_row, kinked, logit])
def test_other_models_have_no_such_form(model):
    response = {shape_too: TIMES, shapes_by_row: TIMES, logit: (COUNTS > 1).astype(np.int64)}.get(
        model, COUNTS
    )
    compiled = density_of(model, response).compiled
    groupings = find_groupings(compiled)
    assert len(groupings) == 1
    assert exponential_rows(Integrand(compiled, groupings[0]), groupings[0]) is None


def test_times_that_were_recorded_in_whole_numbers_have_no_such_form():
    density = density_of(gamma_rate, np.ceil(TIMES), rounding=1.0)
    grouping = find_groupings(density.compiled)[0]
    assert exponential_rows(Integrand(density.compiled, grouping), grouping) is None
