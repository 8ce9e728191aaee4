"""Ordered logistic rows by their thresholds against PyMC and the probabilities of all categories."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from mpmath import mp, mpf

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density import reparametrise
from synthstats_lightning.scoring.distributions.categories import CumulativeLogit
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 12
RNG = np.random.default_rng(5)
DATA = {"x": RNG.normal(size=ROWS), "g": RNG.integers(0, 3, ROWS)}
Y = np.resize([0, 1, 2, 3], ROWS)
SCHEMA = DataSchema({"x": "float64", "g": "int64"}, "y", "int64", ROWS)
OWN = CumulativeLogit.distribution
ORDERED = "transform=pm.distributions.transforms.ordered, initval=[-1.0, 0.0, 1.0]"
PROGRAMS = {
    "ordered": f"""
with pm.Model() as model:
    cut = pm.Normal("cut", 0, 2, shape=3, {ORDERED})
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("obs", eta=b * x, cutpoints=cut, observed=y)
""",
    "not ordered": """
with pm.Model() as model:
    cut = pm.Normal("cut", [-1.0, 0.0, 1.0], 1.5, shape=3)
    a = pm.Normal("a", 0, 1, shape=3)
    pm.OrderedLogistic("obs", eta=a[g], cutpoints=cut, observed=y)
""",
    "thresholds of each row": """
with pm.Model() as model:
    cut = pm.Normal("cut", [[-1.0, 0.0, 1.0]], 0.2, shape=(3, 3))
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("obs", eta=b * x, cutpoints=cut[g], observed=y)
""",
    "a single threshold": """
with pm.Model() as model:
    cut = pm.Normal("cut", 0, 1, shape=1)
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("obs", eta=b * x, cutpoints=cut, observed=y)
""",
}


def built(name: str) -> tuple[Density, np.ndarray]:
    response = Y if name != "a single threshold" else Y % 2
    _, document = model_and_graph(PROGRAMS[name], SCHEMA, DATA)
    return build_density(parse_graph(json.dumps(document), SCHEMA), DATA, response), response


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_those_of_all_categories_and_of_pymc(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    density, response = built(name)
    theta = torch.randn(9, density.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theta.requires_grad_(True)
    found = density.log_likelihood(theta)
    assert density.compiled.response_term.distribution is OWN
    (slope,) = torch.autograd.grad(found[found.isfinite()].sum(), theta)
    assert not slope.isnan().any()
    monkeypatch.setattr(reparametrise, "category_form", lambda *_: None)
    plain, _ = built(name)
    assert plain.compiled.response_term.distribution is not OWN
    wanted = plain.log_likelihood(theta)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    (other,) = torch.autograd.grad(wanted[wanted.isfinite()].sum(), theta)
    torch.testing.assert_close(slope, other, rtol=1e-8, atol=1e-10)

    scope: dict[str, Any] = {"pm": pm, "np": np, "y": response, **DATA}
    exec(PROGRAMS[name], scope)
    model = scope["model"]
    logp = model.compile_logp(vars=model.observed_RVs, sum=True)
    for particle, total in zip(theta.detach(), found.detach().sum(1), strict=True):
        own = density.constrain(particle[None])
        point = {}
        for free in model.free_RVs:
            value = model.rvs_to_values[free]
            there = own[free.name][0].numpy()
            transform = model.rvs_to_transforms[free]
            point[value.name] = there if transform is None else transform.forward(there).eval()
        expected = float(logp(point))
        if math.isfinite(expected):
            assert float(total) == pytest.approx(expected, abs=1e-9)
        else:
            assert float(total) == -math.inf


def test_tails_keep_their_digits() -> None:
    mp.dps = 60
    thresholds = torch.tensor([[-30.0, -29.5, 31.0]], dtype=torch.float64)
    shift = torch.tensor([[-60.0], [0.0], [45.0], [700.0]], dtype=torch.float64)

    def sigmoid(x: float) -> Any:
        return 1 / (1 + mp.exp(-mpf(x)))

    for category in range(4):
        value = torch.full((4,), float(category), dtype=torch.float64)
        found = OWN.log_prob(value, thresholds, shift)
        for at, own in zip(shift[:, 0].tolist(), found.tolist(), strict=True):
            above = mpf(1) if category == 3 else sigmoid(float(thresholds[0, category]) - at)
            below = mpf(0) if category == 0 else sigmoid(float(thresholds[0, category - 1]) - at)
            assert own == pytest.approx(float(mp.log(above - below)), rel=1e-12)


def test_thresholds_that_fall_are_impossible_and_equal_ones_leave_a_category_out() -> None:
    shift = torch.zeros(4, 1, dtype=torch.float64)
    value = torch.arange(4.0, dtype=torch.float64)
    falling = torch.tensor([[0.0, -1.0, 2.0]], dtype=torch.float64)
    assert (OWN.log_prob(value, falling, shift) == -math.inf).all()
    equal = torch.tensor([[0.0, 0.0, 2.0]], dtype=torch.float64)
    found = OWN.log_prob(value, equal, shift)
    assert found.isfinite().tolist() == [True, False, True, True]
    assert float(found.exp().sum()) == pytest.approx(1.0)
    assert (OWN.log_prob(torch.tensor([4.0], dtype=torch.float64), equal, shift[:1]) == -math.inf).all()


def test_draws_have_the_probabilities() -> None:
    thresholds = torch.tensor([-1.0, 0.2, 1.5], dtype=torch.float64)
    shift = torch.tensor([0.4], dtype=torch.float64)
    draws = OWN.sample(torch.Generator().manual_seed(0), (40_000,), thresholds, shift)
    values = torch.arange(4.0, dtype=torch.float64)
    wanted = OWN.log_prob(values, thresholds.expand(1, 3), shift.expand(4, 1)).exp()
    shares = torch.bincount(draws.long(), minlength=4) / len(draws)
    assert float((shares - wanted).abs().max()) < 4 * (0.25 / len(draws)) ** 0.5
