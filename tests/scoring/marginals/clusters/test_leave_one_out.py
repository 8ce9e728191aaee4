"""Leave-one-out of groups of several latents: what the nodes lack is not counted once for each row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp
from torch import Tensor

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density.target import Evaluation
from synthstats_lightning.scoring.estimators.importance import Draws, weigh
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.marginals.clusters.integrator import integrate_clusters
from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.integration import checked_at, integrate
from synthstats_lightning.scoring.prediction.reweighting import by_reweighting, rows_of
from synthstats_lightning.scoring.settings import Deadline
from tests.sandbox.in_process import model_and_graph

EFFECTS = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=2)
    s = pm.Exponential("s", 1)
    b = pm.Normal("b", 0, SCALE, shape=(8, 2))
    eta = a + b[lake]
    full = pm.math.concatenate([np.zeros((len(lake), 1)), eta], axis=1)
    pm.Categorical("food", p=pm.math.softmax(full, axis=1), observed=food)
"""


def graph_of(source: str, columns: dict[str, NDArray[Any]], response: str, dtype: str) -> Any:
    rows = len(next(iter(columns.values())))
    schema = DataSchema({name: str(x.dtype) for name, x in columns.items()}, response, dtype, rows)
    _, document = model_and_graph(source, schema, columns)
    return parse_graph(json.dumps(document), schema)


def meals(per_lake: int) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    rng = np.random.default_rng(2)
    lake = np.repeat(np.arange(8), per_lake)
    logits = np.c_[np.zeros(len(lake)), rng.normal(0, 0.8, (8, 2))[lake]]
    food = np.array([rng.choice(3, p=np.exp(each - logsumexp(each))) for each in logits])
    return {"lake": lake}, food


def integrated(scale: str) -> ClusterIntegrated:
    columns, food = meals(12)
    graph = graph_of(EFFECTS.replace("SCALE", scale), columns, "food", "int64")
    found = integrate_clusters(build_density(graph, columns, food))
    assert isinstance(found, ClusterIntegrated)
    return found


def test_what_evidence_lacks_is_not_counted_once_for_each_row() -> None:
    target = integrated("s")
    generator = torch.Generator().manual_seed(1)
    theta = torch.tensor([0.0, 0.0, -0.3]) + 0.3 * torch.randn(
        100, 3, generator=generator, dtype=torch.float64
    )
    with torch.no_grad():
        prior, rows = target.log_prior_and_likelihood(theta)
        proposal = -0.5 * ((theta - torch.tensor([0.0, 0.0, -0.3])) / 0.3).square().sum(1)
        found = weigh_each(theta, prior, rows, proposal)
        loo = by_reweighting(target, found, 0, Deadline(60.0), rows_of(target, found))
        # as if evidence had been taken from fewer nodes, which lack 0.004 nats
        lacking = found._replace(
            log_likelihood=rows - 0.004 / rows.shape[1], log_weight=found.log_weight - 0.004
        )
        other = by_reweighting(target, lacking, 0, Deadline(60.0), rows_of(target, lacking))
        # by hand: the weights and each row's density under one rule
        total, changed = target.marginals(theta)
        posterior, folds = total + prior - proposal, changed + (prior - proposal)[:, None]
        expected = posterior.logsumexp(0) - folds.logsumexp(0)
    assert torch.allclose(loo.pointwise, expected, atol=1e-9)
    assert float((loo.pointwise - other.pointwise).sum()) == pytest.approx(0.0, abs=1e-9)


def weigh_each(theta: Tensor, prior: Tensor, rows: Tensor, proposal: Tensor) -> Particles:
    """Draws of a proposal as particles."""
    return weigh(Draws(theta, Evaluation(prior, rows), proposal, None, prior + rows.sum(1) - proposal))


def test_effects_that_are_not_pooled_are_left_to_the_estimators() -> None:
    columns, food = meals(12)
    fixed = graph_of(EFFECTS.replace("SCALE", "1.5"), columns, "food", "int64")
    density = build_density(fixed, columns, food)
    assert integrate_clusters(density) is None
    assert isinstance(integrate(density), Density)


CURVES = """
with pm.Model() as model:
    mu = pm.Normal("mu", [0.5, -1.0, 3.0], 0.5, shape=3)
    omega = pm.HalfNormal("omega", 0.5, shape=3)
    z = pm.Normal("z", 0, 1, shape=(6, 3))
    theta = pm.math.exp(mu + omega * z)
    up, down, height = theta[:, 0][subject], theta[:, 1][subject], theta[:, 2][subject]
    level = height * (pm.math.exp(-down * t) - pm.math.exp(-(down + up) * t))
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.LogNormal("y", pm.math.log(level + 1e-3), sigma, observed=y)
"""


def test_rows_that_say_much_of_a_latent_get_nodes_of_their_own() -> None:
    """Without its first row the rise of a curve is hardly known: nodes that all rows placed are too few."""
    rng = np.random.default_rng(5)
    t, subject = np.tile([0.4, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0, 9.0, 12.0, 16.0], 6), np.repeat(np.arange(6), 10)
    rates = np.exp(np.array([0.5, -1.5, 3.0]) + 0.3 * rng.normal(size=(6, 3)))[subject]
    level = rates[:, 2] * (np.exp(-rates[:, 1] * t) - np.exp(-(rates[:, 1] + rates[:, 0]) * t))
    y = level * np.exp(0.1 * rng.normal(size=60))
    columns = {"subject": subject, "t": t}
    target = integrate(build_density(graph_of(CURVES, columns, "y", "float64"), columns, y))
    assert isinstance(target, ClusterIntegrated)
    assert not target.quadrature.own.any()
    near = torch.tensor([0.5, -1.5, 3.0, -0.4, -0.4, -0.4, -2.3], dtype=torch.float64)
    theta = near + 0.05 * torch.randn(60, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = checked_at(target, theta)
    assert isinstance(found, ClusterIntegrated)
    assert found.quadrature.own[0]
    assert not found.quadrature.own.all()
    exact = [given_its_others(theta[0], t, subject, y, row) for row in (0, 10, 31)]
    with torch.no_grad():
        errors = [
            [
                float(each.given[0] - each.changed[0, row]) - value
                for row, value in zip((0, 10, 31), exact, strict=True)
            ]
            for each in (target.marginals(theta[:1]), found.marginals(theta[:1]))
        ]
    common, own = np.abs(errors)
    assert own.max() < 0.04
    assert common.max() > 3 * own.max()


def given_its_others(
    theta: Tensor, t: NDArray[Any], subject: NDArray[Any], y: NDArray[Any], row: int
) -> float:
    """Log density of a row given its curve's others and the other parameters, on a grid of its latents."""
    mu, omega, sigma = theta[:3].numpy(), theta[3:6].exp().numpy(), float(theta[6].exp())
    axis = np.linspace(-5.0, 5.0, 121)
    z = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1)
    up, down, height = np.moveaxis(np.exp(mu + omega * z), -1, 0)
    prior = stats.norm.logpdf(z).sum(-1)
    rest = prior.copy()
    for other in np.flatnonzero(subject == subject[row]):
        level = height * (np.exp(-down * t[other]) - np.exp(-(down + up) * t[other]))
        density = stats.norm.logpdf(np.log(y[other]), np.log(level + 1e-3), sigma) - np.log(y[other])
        if other == row:
            own = density
        else:
            rest += density
    return float(logsumexp(rest + own) - logsumexp(rest))
