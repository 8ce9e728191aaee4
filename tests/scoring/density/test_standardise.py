"""Standardised coordinates are the same model: density with Jacobian, prior draws and evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets
from tests.scoring.test_engine import constant, document

SCHEMA = DataSchema({"error": "float64"}, "y", "float64", 8)
COVARIATES = {"error": targets.EIGHT_SCHOOLS_SIGMA}


def random(distribution, name, inputs, shape=()):
    return {
        "op": "random",
        "distribution": distribution,
        "inputs": inputs,
        "name": name,
        "shape": list(shape),
    }


def schools() -> ModelGraph:
    """mu ~ N(0, 5), tau ~ HalfCauchy(5), theta ~ N(mu, tau), y ~ N(theta, error), centred."""
    nodes = [
        constant(0.0),
        constant(5.0),
        random("Normal", "mu", [0, 1]),
        random("HalfCauchy", "tau", [1]),
        random("Normal", "theta", [2, 3], [8]),
        {"op": "covariate", "name": "error"},
        random("Normal", "y", [4, 5], [8]),
    ]
    return parse_graph(document(nodes), SCHEMA)


def positive_and_unit() -> ModelGraph:
    """Latents on the positive axis and the unit interval whose widths are parameters."""
    nodes = [
        constant(0.0),
        constant(1.0),
        constant(3.0),
        random("HalfNormal", "tau", [0, 1]),
        random("LogNormal", "rate", [0, 3], [8]),
        random("Gamma", "shape", [2, 1]),
        random("Gamma", "level", [5, 1], [8]),
        random("Beta", "share", [5, 2], [8]),
        {"op": "mul", "inputs": [4, 6]},
        {"op": "add", "inputs": [8, 7]},
        {"op": "covariate", "name": "error"},
        random("Normal", "y", [9, 10], [8]),
    ]
    return parse_graph(document(nodes), SCHEMA)


def density(graph: ModelGraph) -> Density:
    return build_density(graph, COVARIATES, targets.EIGHT_SCHOOLS_Y)


@pytest.mark.parametrize("graph", [schools, positive_and_unit])
@pytest.mark.parametrize("anchored", [False, True])
def test_the_density_differs_by_the_jacobian_alone(graph, anchored):
    centred = density(graph())
    funnels = {parameter.name for parameter in centred.funnels}
    assert funnels == ({"theta"} if graph is schools else {"rate", "level", "share"})
    point = 0.3 * torch.randn(centred.dimension, generator=torch.Generator().manual_seed(1)).double()
    other = centred.standardised(point if anchored else None)
    assert {p.name for p in other.parameters if p.transform is Transform.STANDARDISED} == funnels
    theta = torch.randn(5, other.dimension, generator=torch.Generator().manual_seed(2)).double()

    def to_centred(u: torch.Tensor) -> torch.Tensor:
        return other.transferred(u[None], centred)[0]

    for u in theta:
        jacobian = torch.autograd.functional.jacobian(to_centred, u)
        log_determinant = torch.linalg.slogdet(jacobian)[1]
        there = to_centred(u)[None]
        expected = centred.log_prior(there) + log_determinant
        torch.testing.assert_close(other.log_prior(u[None]), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(other.log_likelihood(u[None]), centred.log_likelihood(there))
    for name, values in other.constrain(theta).items():
        there = torch.stack([to_centred(u) for u in theta])
        torch.testing.assert_close(values, centred.constrain(there)[name])


@pytest.mark.parametrize("graph", [schools, positive_and_unit])
def test_prior_draws_are_those_of_the_model(graph):
    centred = density(graph())
    other = centred.standardised(torch.zeros(centred.dimension, dtype=torch.float64))
    draws = [each.sample_prior(2000, torch.Generator().manual_seed(3)) for each in (centred, other)]
    for name, values in centred.constrain(draws[0]).items():
        torch.testing.assert_close(other.constrain(draws[1])[name], values, rtol=1e-6, atol=1e-9)


def test_the_non_centred_form_has_standard_normal_coordinates():
    other = density(schools()).standardised()
    (theta,) = [p for p in other.parameters if p.name == "theta"]
    draws = other.sample_prior(4000, torch.Generator().manual_seed(0))[:, theta.start : theta.stop]
    np.testing.assert_allclose(draws.mean(0), 0, atol=0.08)
    np.testing.assert_allclose(draws.std(0), 1, atol=0.05)


def test_a_normal_likelihood_leaves_standard_normal_coordinates_given_the_others():
    """Known noise: the anchors are exact wherever they are taken, and so is the conditional posterior."""
    centred = density(schools())
    other = centred.standardised(torch.zeros(centred.dimension, dtype=torch.float64))
    (theta,) = [p for p in other.parameters if p.name == "theta"]
    point = torch.zeros(3, other.dimension, dtype=torch.float64)
    (tau,) = [p for p in other.parameters if p.name == "tau"]
    point[:, tau.start] = torch.tensor([-6.0, 1.0, 8.0])
    point.requires_grad_(True)
    log_prior, log_likelihood = other.log_prior_and_likelihood(point)
    (gradient,) = torch.autograd.grad((log_prior + log_likelihood.sum(-1)).sum(), point)
    # u = 0 is the conditional mode whatever tau is
    np.testing.assert_allclose(gradient[:, theta.start : theta.stop], 0, atol=1e-4)


def test_a_model_without_funnels_stays_as_it_is():
    nodes = [
        constant(0.0),
        constant(5.0),
        random("Normal", "mu", [0, 1]),
        random("Normal", "theta", [2, 1], [8]),
        {"op": "covariate", "name": "error"},
        random("Normal", "y", [3, 4], [8]),
    ]
    plain = density(parse_graph(document(nodes), SCHEMA))
    assert plain.funnels == ()
    assert plain.standardised() is plain


def test_centred_eight_schools_are_importance_sampled_to_a_hundredth_of_a_nat():
    _, evidence = targets.eight_schools()
    errors = []
    for seed in range(5):
        posterior = estimate_posterior(
            density(schools()), EngineSettings(), torch.Generator().manual_seed(seed), Deadline(60.0)
        )
        assert posterior.particles.estimator == "importance"
        errors.append(posterior.particles.log_evidence - evidence)
        assert posterior.particles.log_evidence_se < 0.03
    assert max(map(abs, errors)) < 0.06


def log_evidence_of_schools(rows: int) -> float:
    """Of the first schools, by quadrature over log tau; the rest is normal."""
    y, error = targets.EIGHT_SCHOOLS_Y[:rows], targets.EIGHT_SCHOOLS_SIGMA[:rows]
    log_tau = np.arange(-16, 12, 0.02)
    log_density = []
    for tau in np.exp(log_tau):
        covariance = np.diag(error**2 + tau**2) + 25.0
        log_det = np.linalg.slogdet(covariance)[1]
        log_density.append(-0.5 * (rows * np.log(2 * np.pi) + log_det + y @ np.linalg.solve(covariance, y)))
    prior = np.log(2 / (np.pi * 5)) - np.log1p(np.exp(2 * log_tau) / 25) + log_tau
    return float(np.logaddexp.reduce(np.array(log_density) + prior) + np.log(0.02))


def test_shown_rows_of_a_hierarchy_only_condition():
    score = score_graph(schools(), COVARIATES, targets.EIGHT_SCHOOLS_Y, shown_rows=3)
    exact = log_evidence_of_schools(8) - log_evidence_of_schools(3)
    assert score.evidence == pytest.approx(exact, abs=0.08)
    assert score.diagnostics["elpd"].estimator.startswith("psis+")


def test_the_same_bits_again():
    first, second = (score_graph(schools(), COVARIATES, targets.EIGHT_SCHOOLS_Y) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
