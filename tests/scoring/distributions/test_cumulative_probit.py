"""Ordered probit rows by their thresholds against PyMC, mpmath and the probabilities of all categories."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from mpmath import mp, mpf

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside import unneeded
from synthstats_lightning.scoring.density import reparametrise
from synthstats_lightning.scoring.distributions.categories import CumulativeProbit, CumulativeProbitEach
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 12
RNG = np.random.default_rng(5)
DATA = {"x": RNG.normal(size=ROWS), "g": RNG.integers(0, 3, ROWS)}
Y = np.resize([0, 1, 2, 3], ROWS)
SCHEMA = DataSchema({"x": "float64", "g": "int64"}, "y", "int64", ROWS)
OWN, EACH = CumulativeProbit.distribution, CumulativeProbitEach.distribution
CUT = """
with pm.Model() as model:
    cut = pm.Normal(
        "cut", 0, 1.5, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1.0, 0.0, 1.0]
    )
    b = pm.Normal("b", 0, 1)
"""
FREE = """
with pm.Model() as model:
    cut = pm.Normal("cut", [-1.0, 0.0, 1.0], 0.7, shape=3)
    a = pm.Normal("a", 0, 1, shape=3)
"""
PROGRAMS = {
    "ordered": CUT + '    pm.OrderedProbit("obs", eta=b * x, cutpoints=cut, observed=y)\n',
    "a latent deviation": CUT
    + '    s = pm.HalfNormal("s", 1)\n'
    + '    pm.OrderedProbit("obs", eta=b * x, cutpoints=cut, sigma=s, observed=y)\n',
    "a deviation of each row": CUT
    + '    pm.OrderedProbit("obs", eta=b * x, cutpoints=cut, sigma=pm.math.exp(b * x), observed=y)\n',
    "not ordered": FREE + '    pm.OrderedProbit("obs", eta=a[g], cutpoints=cut, sigma=2.0, observed=y)\n',
    "by hand": FREE
    + "    below = pm.math.invprobit((cut - a[g][:, None]) / 1.5)\n"
    + "    ends = np.zeros((12, 1)), np.ones((12, 1))\n"
    + "    upto = pm.math.concatenate([ends[0], below, ends[1]], axis=1)\n"
    + '    pm.Categorical("obs", p=upto[:, 1:] - upto[:, :-1], observed=y)\n',
}


@pytest.fixture
def differences(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What workers of the sandbox make of PyMC's ordered probit."""
    with monkeypatch.context() as changed:
        changed.setattr(pm.OrderedProbit, "compute_p", pm.OrderedProbit.compute_p)
        unneeded._difference_probits()
        yield


def built(name: str, canonical: bool = True) -> Density:
    _, document = model_and_graph(PROGRAMS[name], SCHEMA, DATA)
    graph = parse_graph(json.dumps(document), SCHEMA)
    return build_density(canonicalise(graph) if canonical else graph, DATA, Y)


@pytest.mark.usefixtures("differences")
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_those_of_all_categories(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    density = built(name)
    theta = torch.randn(9, density.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theta.requires_grad_(True)
    found = density.log_likelihood(theta)
    own = EACH if name == "a deviation of each row" else OWN
    assert density.compiled.response_term.distribution is own
    (slope,) = torch.autograd.grad(found[found.isfinite()].sum(), theta)
    assert not slope.isnan().any()
    monkeypatch.setattr(reparametrise, "category_form", lambda *_: None)
    plain = built(name)
    assert plain.compiled.response_term.distribution is not own
    wanted = plain.log_likelihood(theta)
    # differences of probabilities near 1 lose digits
    near = wanted > -14
    torch.testing.assert_close(found[near], wanted[near], rtol=1e-9, atol=1e-9)
    everywhere = bool(near.all())
    if everywhere:
        (other,) = torch.autograd.grad(wanted.sum(), theta)
        torch.testing.assert_close(slope, other, rtol=1e-6, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_those_of_pymc(name: str, request: pytest.FixtureRequest) -> None:
    scope: dict[str, Any] = {"pm": pm, "np": np, "y": Y, **DATA}
    exec(PROGRAMS[name], scope)
    model = scope["model"]
    logp = model.compile_logp(vars=model.observed_RVs, sum=True)
    request.getfixturevalue("differences")
    density = built(name, canonical=False)  # which would rename its variables
    assert density.compiled.response_term.distribution in (OWN, EACH)
    theta = torch.randn(9, density.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    totals = density.log_likelihood(theta).sum(1).tolist()
    finite = 0
    for particle, total in zip(theta, totals, strict=True):
        there = density.constrain(particle[None])
        point = {}
        for free in model.free_RVs:
            value, transform = model.rvs_to_values[free], model.rvs_to_transforms[free]
            at = there[free.name][0].numpy()
            point[value.name] = at if transform is None else transform.forward(at).eval()
        expected = float(logp(point))
        if math.isfinite(expected):
            finite += 1
            # PyMC divides by a square root of two in single precision
            assert total == pytest.approx(expected, abs=1e-5)
        else:
            # falling thresholds, or probabilities that PyMC takes out of logarithms and that are 0 there
            assert total < -700
    assert finite >= 3


def test_tails_keep_their_digits() -> None:
    mp.dps = 900
    thresholds = torch.tensor([[-6.0, -5.9999, 7.0]], dtype=torch.float64)
    shift = torch.tensor([[-20.0], [0.0], [9.0], [30.0]], dtype=torch.float64)
    sigma = torch.tensor(0.75, dtype=torch.float64)

    def below(threshold: float, at: float) -> Any:
        return mp.ncdf((mpf(threshold) - mpf(at)) / mpf(0.75))

    for category in range(4):
        value = torch.full((4,), float(category), dtype=torch.float64)
        found = OWN.log_prob(value, thresholds, shift, sigma)
        each = EACH.log_prob(value, thresholds, shift, sigma.expand(4, 1))
        assert torch.equal(found, each)
        for at, own in zip(shift[:, 0].tolist(), found.tolist(), strict=True):
            above = mpf(1) if category == 3 else below(float(thresholds[0, category]), at)
            under = mpf(0) if category == 0 else below(float(thresholds[0, category - 1]), at)
            assert own == pytest.approx(float(mp.log(above - under)), rel=1e-10)


def test_slopes_are_those_of_differences_far_out() -> None:
    """Small deviations and distant thresholds leave no slope without a number."""
    thresholds = torch.tensor([[-1.0, 0.0, 40.0]], dtype=torch.float64)
    shift = torch.tensor([[0.3], [-50.0], [80.0], [0.0]], dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor(0.01, dtype=torch.float64, requires_grad=True)
    value = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    total = OWN.log_prob(value, thresholds, shift, sigma)
    assert total.isfinite().all()
    by_shift, by_sigma = torch.autograd.grad(total.sum(), (shift, sigma))
    assert by_shift.isfinite().all()
    assert by_sigma.isfinite()
    step = 1e-6
    with torch.no_grad():
        up, down = (OWN.log_prob(value, thresholds, shift + h, sigma) for h in (step, -step))
    torch.testing.assert_close(by_shift[:, 0], (up - down) / (2 * step), rtol=1e-4, atol=1e-4)


def test_thresholds_that_fall_are_impossible_and_equal_ones_leave_a_category_out() -> None:
    shift, sigma = torch.zeros(4, 1, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    value = torch.arange(4.0, dtype=torch.float64)
    falling = torch.tensor([[0.0, -1.0, 2.0]], dtype=torch.float64)
    assert (OWN.log_prob(value, falling, shift, sigma) == -math.inf).all()
    equal = torch.tensor([[0.0, 0.0, 2.0]], dtype=torch.float64)
    found = OWN.log_prob(value, equal, shift, sigma)
    assert found.isfinite().tolist() == [True, False, True, True]
    assert float(found.exp().sum()) == pytest.approx(1.0)
    assert float(OWN.log_prob(torch.tensor([4.0], dtype=torch.float64), equal, shift[:1], sigma)) == -math.inf


@pytest.mark.parametrize("own", [OWN, EACH], ids=["one deviation", "one each"])
def test_draws_have_the_probabilities(own: Any) -> None:
    thresholds = torch.tensor([-1.0, 0.2, 1.5], dtype=torch.float64)
    shift, sigma = torch.tensor([0.4], dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    scale = sigma if own is OWN else sigma[None]
    draws = own.sample(torch.Generator().manual_seed(0), (40_000,), thresholds, shift, scale)
    values = torch.arange(4.0, dtype=torch.float64)
    wanted = OWN.log_prob(values, thresholds.expand(1, 3), shift.expand(4, 1), sigma).exp()
    shares = torch.bincount(draws.long(), minlength=4) / len(draws)
    assert float((shares - wanted).abs().max()) < 4 * (0.25 / len(draws)) ** 0.5
