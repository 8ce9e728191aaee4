from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs import DataSchema, ProgramFailure, parse_graph
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS, distribution_of
from synthstats_lightning.scoring.distributions.truncated import rounded
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import build_density
from tests.scoring.auditing.test_audit import graph_of

STEP = 0.25
Y = STEP * np.arange(-12.0, 24.0)


def tensors(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


@pytest.mark.parametrize(
    ("law", "parameters", "reference"),
    [
        ("Normal", (0.3, 1.7), stats.norm(0.3, 1.7)),
        ("Normal", (0.3, 0.01), stats.norm(0.3, 0.01)),
        ("Gamma", (0.7, 0.5), stats.gamma(0.7, scale=0.5)),
        ("StudentT", (4.0, 1.0, 0.5), stats.t(4.0, 1.0, 0.5)),
        ("Beta", (2.0, 3.0), stats.beta(2.0, 3.0)),
        ("Uniform", (-1.1, 2.3), stats.uniform(-1.1, 3.4)),
        ("LogNormal", (0.2, 0.8), stats.lognorm(0.8, scale=math.exp(0.2))),
    ],
)
def test_probabilities_are_those_of_intervals(law, parameters, reference):
    values = torch.tensor(Y, dtype=torch.float64)
    base = DISTRIBUTIONS[law]
    native = tensors(*parameters)
    found = rounded(base, STEP).log_prob(values, *native).exp().numpy()
    expected = (reference.cdf(Y + STEP / 2) - reference.cdf(Y - STEP / 2)) / STEP
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        (
            {"distribution": "Censored", "components": ["Normal"], "bounds": ["lower", "upper"]},
            (0.0, 3.0, 1.0, 1.5),
        ),
        ({"distribution": "Truncated", "components": ["Normal"], "bounds": ["lower"]}, (0.1, 1.0, 1.5)),
        ({"distribution": "Hurdle", "components": ["Gamma"]}, (0.6, 2.0, 0.7)),
        ({"distribution": "Mixture", "components": ["Normal", "Laplace"]}, ([0.3, 0.7], 0.0, 1.0, 2.0, 0.3)),
        ({"distribution": "Mixture", "components": ["Normal"]}, ([0.3, 0.7], [0.0, 2.0], [1.0, 0.3])),
    ],
    ids=lambda value: "".join(value["distribution"]) if isinstance(value, dict) else "",
)
def test_composites_sum_to_one_and_agree_with_their_draws(law, parameters):
    distribution = rounded(distribution_of(law), STEP)
    grid = STEP * torch.arange(-80.0, 120.0, dtype=torch.float64)
    native = tensors(*parameters)
    probability = STEP * distribution.log_prob(grid, *native).exp()
    assert float(probability.sum()) == pytest.approx(1.0, abs=1e-7)
    draws = distribution.sample(torch.Generator().manual_seed(0), (40_000,), *native)
    counts = torch.stack([(draws - value).abs() < STEP / 4 for value in grid]).double().mean(1)
    np.testing.assert_allclose(counts, probability, atol=0.012)


def test_gradients_are_finite_far_away_and_for_a_vanishing_scale():
    for scale in (1e-12, 1e-3, 1.0, 1e6):
        location, sigma = (x.requires_grad_() for x in tensors(0.3, scale))
        values = torch.tensor([0.25, 5.0, -1e8], dtype=torch.float64)
        result = rounded(DISTRIBUTIONS["Normal"], STEP).log_prob(values, location, sigma)
        assert bool((result <= -math.log(STEP)).all())
        torch.where(result.isfinite(), result, 0.0).sum().backward()
        for parameter in (location, sigma):
            assert parameter.grad is not None
            assert bool(parameter.grad.isfinite())


def test_a_vanishing_scale_gains_nothing():
    """Repeated values tempt to a spike: a density grows without bound, a probability does not."""
    y = np.array([1.5, 1.5, 1.5, 1.5])
    x = {"x": np.zeros(4)}

    def evidence(scale: float, rounding: float | None) -> float:
        graph = graph_of(respond={"distribution": "Normal"}, inputs=[1.5, scale], rows=4)
        return score_graph(graph, x, y, rounding=rounding).evidence

    assert evidence(1e-9, None) - evidence(1e-3, None) > 50
    assert evidence(1e-3, 0.5) == pytest.approx(4 * math.log(2.0), abs=1e-9)
    assert evidence(1e-9, 0.5) == evidence(1e-3, 0.5)


def test_unknown_interval_is_unsupported_in_one_line():
    graph = graph_of(respond={"distribution": "SkewNormal"}, inputs=[0.0, 1.0, 2.0])
    with pytest.raises(
        ProgramFailure, match=r"unsupported: SkewNormal for a response recorded to the nearest 0.5"
    ):
        build_density(graph, {"x": np.zeros(2)}, np.zeros(2), 0.5)
    score = score_graph(graph, {"x": np.zeros(2)}, np.array([0.5, 1.0]), rounding=0.5)
    assert str(score.failure) == "unsupported"
    assert "\n" not in score.message


def test_rounding_is_part_of_the_fingerprint():
    data = {"x": np.zeros(2)}, np.zeros(2)
    assert len({data_fingerprint(*data, rounding=step) for step in (None, 0.5, 0.25)}) == 3


def test_fine_rounding_is_the_density():
    document = {
        "format": 1,
        "nodes": [
            {"op": "constant", "value": 0.0, "dtype": "float64"},
            {"op": "constant", "value": 1.0, "dtype": "float64"},
            {"op": "random", "distribution": "Normal", "inputs": [0, 1], "name": "a", "shape": []},
            {"op": "random", "distribution": "Normal", "inputs": [2, 1], "name": "y", "shape": [3]},
        ],
        "response": 3,
        "deterministics": [],
    }
    graph = parse_graph(json.dumps(document), DataSchema({"x": "float64"}, "y", "float64", 3))
    y = np.array([0.5, -0.25, 1.0])
    theta = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    exact = build_density(graph, {"x": y}, y).log_likelihood(theta)
    fine = build_density(graph, {"x": y}, y, 2.0**-12).log_likelihood(theta)
    np.testing.assert_allclose(fine, exact, atol=1e-7)
