from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.distributions import DISTRIBUTIONS, distribution_of
from synthstats_lightning.scoring.marginals import normalisation
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.marginals.normalisation import log_mass, reciprocal_log_mass
from tests.scoring.auditing.test_audit import graph_of

F = torch.float64
NUMBERS = [
    ("Normal", (3.0, 0.1)),
    ("HalfCauchy", (2.0,)),
    ("Gamma", (0.5, 3.0)),
    ("Beta", (0.5, 2.0)),
    ("Uniform", (-1.0, 4.0)),
    ("Triangular", (0.0, 0.3, 1.0)),
    ("VonMises", (1.0, 4.0)),
    ("Pareto", (3.0, 1.0)),
    ("Poisson", (3.0,)),
    ("Poisson", (2e6,)),
    ("Binomial", (10.0, 0.3)),
    ("Geometric", (0.1,)),
    # counts that pile up at an end, of a median and a spread far from it
    ("NegativeBinomial", (0.0531, 8e-7)),
    ("NegativeBinomial", (0.297, 3.6e-5)),
    ("NegativeBinomial", (0.0437, 1.3e-13)),
    ("BetaBinomial", (22797.0, 0.0809, 1.17)),
    ("BetaBinomial", (990.0, 0.0667, 0.042)),
]


def given(values):
    return [torch.tensor(value, dtype=F) for value in values]


@pytest.mark.parametrize(("name", "parameters"), NUMBERS)
def test_numbers_have_a_mass_of_one_and_an_excess_is_seen(name, parameters):
    law, generator = DISTRIBUTIONS[name], torch.Generator().manual_seed(1)
    assert log_mass(law, *given(parameters), generator=generator) == pytest.approx(0.0, abs=2e-3)

    def kernel(offset, statistics, *rest):
        return law.log_kernel(offset, statistics, *rest) + 0.1

    forged = replace(law, log_kernel=kernel)
    assert log_mass(forged, *given(parameters), generator=generator) == pytest.approx(0.1, abs=2e-3)


@pytest.mark.parametrize("seed", range(30))
def test_overdispersed_counts_are_no_forgeries(seed):
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    size, mean, trials = 10 ** rng.uniform((-2, -1, 0), (1.5, 12, 5))
    for name, parameters in (
        ("NegativeBinomial", (size, size / (size + mean))),
        ("BetaBinomial", (round(trials), *10 ** rng.uniform(-2, 2, 2))),
    ):
        assert log_mass(DISTRIBUTIONS[name], *given(parameters), generator=generator) < 1e-3


@pytest.mark.parametrize(
    "attributes",
    [
        {"distribution": "Hurdle", "components": ["Gamma"]},
        {"distribution": "Censored", "components": ["Normal"], "bounds": ["lower", "upper"]},
        {"distribution": "Truncated", "components": ["Normal"], "bounds": ["lower"]},
        {"distribution": "Mixture", "components": ["Normal", "StudentT"]},
    ],
)
def test_composites(attributes):
    parameters = {
        "Hurdle": (0.3, 2.0, 1.5),
        "Censored": (-0.5, 1.0, 0.0, 1.0),
        "Truncated": (0.7, 0.0, 1.0),
        "Mixture": ([0.2, 0.8], 0.0, 1.0, 4.0, 5.0, 0.1),
    }[attributes["distribution"]]
    found = log_mass(
        distribution_of(attributes), *given(parameters), generator=torch.Generator().manual_seed(1)
    )
    assert found == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("dimension", [1, 3, 40])
@pytest.mark.parametrize("heavy", [False, True])
def test_mass_of_vectors_by_exact_draws(dimension, heavy):
    generator = np.random.default_rng(dimension)
    draws = generator.normal(size=(2000, dimension))
    log_density = -0.5 * (draws**2).sum(1) - 0.5 * dimension * math.log(2 * math.pi)
    if heavy:  # a Student t of 3 degrees of freedom in each coordinate
        draws = generator.standard_t(3.0, size=(2000, dimension))
        one = math.lgamma(2.0) - math.lgamma(1.5) - 0.5 * math.log(3.0 * math.pi)
        log_density = (one - 2.0 * np.log1p(draws**2 / 3.0)).sum(1)
    assert reciprocal_log_mass(draws, log_density) < 0.0
    assert reciprocal_log_mass(draws, log_density + 5.0 + 0.2 * dimension) > 1.0


PLACES = np.linspace(0.0, 1.0, 40)
SMOOTH = {
    "process": np.exp(-0.5 * (np.subtract.outer(PLACES, PLACES) / 0.2) ** 2) + 1e-6 * np.eye(40),
    "walk": 25.0 + 0.01 * np.minimum.outer(np.arange(60), np.arange(60)) + 1e-9 * np.eye(60),
}
"""Covariances of vectors that hardly vary in most directions."""


@pytest.mark.parametrize("name", SMOOTH)
def test_mass_of_vectors_that_hardly_vary_in_most_directions(name):
    factor = np.linalg.cholesky(SMOOTH[name])
    dimension = len(factor)
    constant = np.log(np.diag(factor)).sum() + 0.5 * dimension * math.log(2 * math.pi)
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(32 * dimension, dimension))
        draws, log_density = noise @ factor.T, -0.5 * (noise**2).sum(1) - constant
        assert reciprocal_log_mass(draws, log_density) < 0.0
        assert reciprocal_log_mass(draws, log_density + 2.0 + 0.2 * dimension) > 1.0


def test_every_random_node_of_a_model_is_named():
    graph = graph_of(
        ("HalfNormal", [0.0, 1.0]),
        ("Bernoulli", [0.5]),
        respond={"distribution": "Normal"},
        inputs=["v1", "v0"],
    )
    density = build_density(graph, {"x": np.zeros(2)}, np.array([0.1, -2.0]))
    masses = density.log_masses(torch.zeros(1, density.dimension, dtype=F), torch.Generator().manual_seed(0))
    assert [mass.law for mass in masses] == ["HalfNormal", "Bernoulli", "Normal"]
    assert all(mass.excess < 2e-3 for mass in masses)


def test_masses_of_constants_are_theirs_alone_and_found_once(monkeypatch):
    graph = graph_of(
        ("HalfCauchy", [1.5]),
        ("Gamma", [0.5, 3.0]),
        respond={"distribution": "Normal"},
        inputs=["v1", "v0"],
    )
    density = build_density(graph, {"x": np.zeros(2)}, np.array([0.1, -2.0]))
    theta, asked, law = torch.zeros(1, density.dimension, dtype=F), [], normalisation._of_number

    def counted(node, generator):
        asked.append(node.distribution.name)
        return law(node, generator)

    monkeypatch.setattr(normalisation, "_of_number", counted)
    monkeypatch.setattr(normalisation, "_known", {})
    first, second = (density.log_masses(theta, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    assert asked == ["HalfCauchy", "Gamma", "Normal", "Normal"]
    monkeypatch.setattr(normalisation, "_known", {})
    other = density.log_masses(theta, torch.Generator().manual_seed(3))
    # bit for bit, whatever was looked at before
    assert [mass.excess for mass in first[:2]] == [mass.excess for mass in second[:2]]
    assert [mass.excess for mass in first[:2]] == [mass.excess for mass in other[:2]]
    exact = [log_mass(DISTRIBUTIONS["Gamma"], *given((0.5, 3.0)), generator=torch.Generator())]
    assert first[1].excess == pytest.approx(exact[0], abs=2e-3)


def test_another_density_with_the_same_name_and_constants_is_looked_at():
    honest = DISTRIBUTIONS["Normal"]

    def kernel(offset, statistics, *rest):
        return honest.log_kernel(offset, statistics, *rest) + 0.1

    forged = replace(honest, log_kernel=kernel)
    parameters = [each[None] for each in given((3.0, 0.1))]
    for law, excess in ((honest, 0.0), (forged, 0.1), (honest, 0.0)):
        node = normalisation._Node("v0", law, (), parameters, True, constant=True)
        assert normalisation._of_constants(node) == pytest.approx(excess, abs=2e-3)
