"""Independent normal vectors that together are the response, against PyMC and the dense normal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from torch.distributions import MultivariateNormal

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.distributions.multivariate import normal_blocks
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

BLOCKS = torch.tensor([[0, 3, 4], [1, 2, 5]])
N, PARTICLES = 6, 2


def spelled(each: bool) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A distribution, parameters, and the dense covariance."""
    generator = torch.Generator().manual_seed(int(each))
    root = torch.randn(PARTICLES, 2 if each else 1, 3, 3, generator=generator, dtype=torch.float64)
    cov = root @ root.mT + 0.3 * torch.eye(3, dtype=torch.float64)
    own = 1 + torch.arange(9).reshape(1, 3, 3)
    places = torch.cat([own, own + 9]) if each else own
    entries = torch.cat([torch.zeros(PARTICLES, 1, dtype=torch.float64), cov.reshape(PARTICLES, -1)], 1)
    dense = torch.zeros(PARTICLES, N, N, dtype=torch.float64)
    for block, rows in enumerate(BLOCKS):
        dense[:, rows[:, None], rows] = cov[:, block if each else 0]
    mu = torch.randn(PARTICLES, N, generator=generator, dtype=torch.float64)
    return normal_blocks(BLOCKS, places), mu, entries, dense


@pytest.mark.parametrize("missing", [(), (0,), (3, 2), (1, 2, 5), tuple(range(N))])
@pytest.mark.parametrize("each", [False, True])
def test_parts_are_those_of_the_dense_normal(each: bool, missing: tuple[int, ...]) -> None:
    distribution, mu, entries, dense = spelled(each)
    value = torch.linspace(-1.0, 2.0, N, dtype=torch.float64)
    given = torch.ones(N, dtype=torch.bool)
    given[list(missing)] = False
    found = distribution.subsets(value, given, mu, entries)
    assert distribution.part is not None
    torch.testing.assert_close(distribution.part(value, given, mu, entries), found.given)

    def wanted(particle: int, which: torch.Tensor) -> float:
        if not bool(which.any()):
            return 0.0
        law = MultivariateNormal(mu[particle, which], dense[particle][which][:, which])
        return float(law.log_prob(value[which]))

    for particle in range(PARTICLES):
        assert float(found.given[particle]) == pytest.approx(wanted(particle, given), abs=1e-10)
        for row in range(N):
            other = given.clone()
            other[row] = not given[row]
            assert float(found.changed[particle, row]) == pytest.approx(wanted(particle, other), abs=1e-9)
    if not missing:
        total = distribution.log_prob(value, mu, entries)
        torch.testing.assert_close(total, found.given)


def test_a_covariance_that_is_none_has_density_zero() -> None:
    distribution, mu, entries, _ = spelled(False)
    entries[0, 1] = -1.0
    value = torch.zeros(N, dtype=torch.float64)
    assert distribution.log_prob(value, mu, entries).isfinite().tolist() == [False, True]
    found = distribution.subsets(value, torch.ones(N, dtype=torch.bool), mu, entries)
    assert found.given.isfinite().tolist() == [False, True]


def test_draws_have_the_covariance() -> None:
    distribution, mu, entries, dense = spelled(True)
    generator = torch.Generator().manual_seed(0)
    draws = distribution.sample(generator, (40_000, N), mu[:1], entries[:1])
    found = torch.cov(draws.T)
    assert float((found - dense[0]).abs().max()) < 0.1 * float(dense[0].diagonal().max())


ROWS = 12
RNG = np.random.default_rng(6)
DATA = {"x": RNG.normal(size=ROWS), "g": np.repeat([0, 1], 6)}
Y = RNG.normal(size=ROWS)
SCHEMA = DataSchema({"x": "float64", "g": "int64"}, "y", "float64", ROWS)
PRIORS = """
with pm.Model() as model:
    s = pm.HalfNormal("s", 1, shape=3)
    r = pm.Uniform("r", -0.4, 0.4)
    b = pm.Normal("b", 0, 1)
    S = pm.math.stack([s[0], s[1], s[2]])
    cov = S[:, None] * S[None, :] * (r + (1 - r) * np.eye(3))
"""
RESHAPED = '    pm.MvNormal("obs", mu=b * x.reshape(4, 3), cov=cov, observed=y.reshape(4, 3))'
OBSERVED = {
    "vectors along rows": RESHAPED,
    "vectors across rows": '    pm.MvNormal("obs", mu=b, cov=cov, observed=y.reshape(3, 4).T)',
    "one mean of all": '    pm.MvNormal("obs", mu=[0.0, 1.0, 2.0], cov=cov, observed=y.reshape(4, 3))',
    "a covariance of each": (
        '    pm.MvNormal("obs", mu=b * x.reshape(4, 3), cov=cov * np.arange(1.0, 5.0)[:, None, None],'
        " observed=y.reshape(4, 3))"
    ),
    "in two variables": (
        '    pm.MvNormal("one", mu=b, cov=cov, observed=y[g == 0].reshape(2, 3))\n'
        '    pm.MvNormal("two", mu=-b, cov=2 * cov, observed=y[g == 1].reshape(2, 3))'
    ),
    "of two lengths": (
        '    pm.MvNormal("one", mu=b, cov=cov, observed=y[g == 0].reshape(2, 3))\n'
        '    pm.MvNormal("two", mu=-b, cov=cov[:2, :2], observed=y[g == 1].reshape(3, 2))'
    ),
}


def built(name: str) -> Density:
    _, document = model_and_graph(PRIORS + OBSERVED[name], SCHEMA, DATA)
    return build_density(parse_graph(json.dumps(document), SCHEMA), DATA, Y)


@pytest.mark.long
@pytest.mark.parametrize("name", OBSERVED)
def test_the_density_is_pymcs(name: str) -> None:
    density = built(name)
    blocks = density.compiled.response_term.distribution.name == "NormalBlocks"
    assert blocks is (name != "of two lengths")
    theta = torch.randn(3, density.dimension, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_prior, rows = density.log_prior_and_likelihood(theta)
    scope: dict[str, Any] = {"pm": pm, "np": np, "y": Y, **DATA}
    exec(PRIORS + OBSERVED[name], scope)
    model = scope["model"]
    logp = model.compile_logp()
    for particle, total in zip(theta, log_prior + rows.sum(1), strict=True):
        values = {p.name: particle[p.start : p.stop].numpy().reshape(p.shape) for p in density.parameters}
        point = {model.rvs_to_values[free].name: values[free.name] for free in model.free_RVs}
        assert float(total) == pytest.approx(float(logp(point)), abs=1e-8)


def test_a_vector_in_another_order() -> None:
    source = (
        PRIORS + '    pm.MvNormal("obs", mu=b * np.arange(12.0), cov=np.eye(12) * s[0], observed=y[::-1])'
    )
    _, document = model_and_graph(source, SCHEMA, DATA)
    density = build_density(parse_graph(json.dumps(document), SCHEMA), DATA, Y)
    theta = torch.full((1, density.dimension), 0.3, dtype=torch.float64)
    own = density.constrain(theta)
    mean, variance = float(own["b"]) * np.arange(12.0)[::-1], float(own["s"][0, 0])
    wanted = -0.5 * ((Y - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum()
    assert float(density.log_likelihood(theta).sum()) == pytest.approx(wanted, abs=1e-9)
