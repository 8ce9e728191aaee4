"""Categories by their logits against PyMC and the probabilities that they are recognised in."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import torch
from scipy import special

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density import reparametrise
from synthstats_lightning.scoring.distributions.categories import CategoricalLogit
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 12
RNG = np.random.default_rng(6)
DATA = {"x": RNG.normal(size=ROWS)}
Y = np.resize([0, 1, 2], ROWS)
SCHEMA = DataSchema({"x": "float64"}, "y", "int64", ROWS)
OWN = CategoricalLogit.distribution
START = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 2, shape=3)
    b = pm.Normal("b", 0, 1, shape=3)
    eta = a + b * x[:, None]
"""
PROGRAMS = {
    "logits": START + '    pm.Categorical("obs", logit_p=eta, observed=y)\n',
    "softmax": START + '    pm.Categorical("obs", p=pm.math.softmax(eta, axis=1), observed=y)\n',
    "by hand": START
    + "    odds = pm.math.exp(eta)\n"
    + '    pm.Categorical("obs", p=odds / odds.sum(1, keepdims=True), observed=y)\n',
    "by hand, the axis given back": START
    + "    odds = pm.math.exp(eta)\n"
    + '    pm.Categorical("obs", p=odds / odds.sum(1)[:, None], observed=y)\n',
    "one vector for all": START + '    pm.Categorical("obs", p=pm.math.softmax(a), observed=y)\n',
}


def built(name: str) -> Density:
    _, document = model_and_graph(PROGRAMS[name], SCHEMA, DATA)
    return build_density(canonicalise(parse_graph(json.dumps(document), SCHEMA)), DATA, Y)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_those_of_all_probabilities_and_of_pymc(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    density = built(name)
    assert density.compiled.response_term.distribution is OWN
    theta = 2.0 * torch.randn(
        9, density.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    theta.requires_grad_(True)
    found = density.log_likelihood(theta)
    (slope,) = torch.autograd.grad(found.sum(), theta)
    monkeypatch.setattr(reparametrise, "category_form", lambda *_: None)
    plain = built(name)
    assert plain.compiled.response_term.distribution is not OWN
    wanted = plain.log_likelihood(theta)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    (other,) = torch.autograd.grad(wanted.sum(), theta)
    torch.testing.assert_close(slope, other, rtol=1e-8, atol=1e-10)

    scope: dict[str, Any] = {"pm": pm, "np": np, "pt": pt, "y": Y, **DATA}
    exec(PROGRAMS[name], scope)
    model = scope["model"]
    logp = model.compile_logp(vars=model.observed_RVs, sum=True)
    for particle, total in zip(theta.detach().numpy(), found.detach().sum(1), strict=True):
        # the one with the wider prior comes first, and `b` may be unused
        point = {"a": particle[:3], "b": particle[3:] if len(particle) > 3 else np.zeros(3)}
        assert float(total) == pytest.approx(float(logp(point)), abs=1e-9)


def test_probabilities_by_hand_have_no_scores_that_overflow() -> None:
    """The exponential of a logit of 800 is infinite; its share is 1."""
    density = built("by hand")
    theta = torch.tensor([[800.0, 0.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    found = density.log_likelihood(theta)[0]
    np.testing.assert_allclose(found.numpy(), np.where(Y == 0, 0.0, -800.0))


def test_impossible_categories_leave_the_others_theirs() -> None:
    logits = torch.tensor([[0.3, -math.inf, -0.4]], dtype=torch.float64)
    value = torch.arange(4.0, dtype=torch.float64)
    found = OWN.log_prob(value, logits.expand(4, 3))
    wanted = [*(np.array([0.3, -np.inf, -0.4]) - special.logsumexp([0.3, -0.4])), -np.inf]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_draws_have_the_probabilities() -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64)
    draws = OWN.sample(torch.Generator().manual_seed(0), (40_000,), logits)
    shares = torch.bincount(draws.long(), minlength=4) / len(draws)
    assert float((shares - logits.softmax(0)).abs().max()) < 4 * (0.25 / len(draws)) ** 0.5
