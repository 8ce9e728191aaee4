"""Designs that are known up to a factor of each column, against the covariance in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock
from synthstats_lightning.scoring.settings import MANY_ROWS
from tests.scoring.marginals.test_density import Builder

COLUMNS = 5
POINTS = {"tau": [-0.4, 0.3], "lam": [[0.1, -0.5, 0.6, 0.0, -1.0], [0.4] * 5], "sigma": [0.2, -0.3]}
"""Logs of the common scale, each column's and the rows'."""


def target(rows: int, spelling: str, scales: str = "one") -> tuple[GaussianBlock, Any, Any]:
    """A regression whose coefficients are products, with its design and response."""
    rng = np.random.default_rng(rows)
    design, value = rng.normal(size=(rows, COLUMNS)), rng.normal(size=rows)
    b = Builder()
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    lam = b.random("HalfCauchy", "lam", 1.0, shape=(COLUMNS,))
    z = b.random("Normal", "z", 0.0, 1.0, shape=(COLUMNS,))
    level = b.random("Normal", "level", 1.0, 2.0)
    factor = b.op("mul", tau, lam)
    if spelling == "one product":
        beta = b.op("mul", z, factor)
    elif spelling == "one after the other":
        beta = b.op("div", b.op("mul", b.op("mul", z, lam), tau), b.op("square", tau))
    else:
        beta = b.op("mul", factor, z, lam)  # not read where one number comes after
    columns = [b.covariate(f"x{k}") for k in range(COLUMNS)]
    matrix = b.op("stack", *columns, axis=1)
    if spelling == "one number after":
        # half of it divides what was multiplied, twice
        effects = b.op("div", b.op("mul", b.op("dot", matrix, b.op("mul", z, lam)), tau, 0.5), 0.5)
        mean = b.op("add", level, b.op("mul", b.op("div", effects, tau), tau))
    elif spelling == "in parts":
        # as a periodic process has cosines and sines
        first, rest = ({"index": [{"slice": each}]} for each in ([None, 2, None], [2, None, None]))
        some = b.op("mul", b.op("index", factor, **first), b.op("index", z, **first))
        others = b.op("mul", b.op("index", z, **rest), b.op("index", factor, **rest))
        low, high = (b.op("stack", *each, axis=1) for each in (columns[:2], columns[2:]))
        mean = b.op("add", level, b.op("dot", low, some), b.op("dot", high, others))
    else:
        mean = b.op("add", level, b.op("dot", matrix, beta))
    sigma = b.random("HalfNormal", "sigma", 0.0, 1.0)
    if scales == "each":
        sigma = b.op("mul", sigma, b.op("exp", b.covariate("x0")))
    b.random("Normal", "y", mean, sigma, shape=(rows,))
    density = b.density({f"x{k}": design[:, k] for k in range(COLUMNS)}, value)
    members = [p for p in density.parameters if p.name in ("z", "level")]
    return GaussianBlock(density, members), design, value


def points(found: GaussianBlock) -> torch.Tensor:
    """`POINTS` in the order of a target's columns."""
    names = [p.name for p in found.density.parameters if p.name in POINTS]
    return torch.cat([torch.tensor(POINTS[n], dtype=torch.float64).reshape(2, -1) for n in names], 1)


def covariances(spelling: str, design: Any, scales: str) -> list[Any]:
    """Covariance of the response at both points."""
    found = []
    for tau, lam, sigma in zip(*POINTS.values(), strict=True):
        t, each = np.exp(tau), np.exp(np.asarray(lam))
        factors = {
            "one product": t * each,
            "one after the other": each / t,
            "three": t * each**2,
            "one number after": t * each,
            "in parts": t * each,
        }
        factor = factors[spelling]
        scale = np.exp(sigma) * (np.exp(design[:, 0]) if scales == "each" else np.ones(len(design)))
        matrix = design * factor
        found.append(4.0 + matrix @ matrix.T + np.diag(scale**2))
    return found


SPELLINGS = ["one product", "one after the other", "three", "one number after", "in parts"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("scales", ["one", "each"])
def test_densities_are_those_of_the_covariance(spelling: str, scales: str) -> None:
    block, design, value = target(30, spelling, scales)
    assert block._multiples is not None
    theta = points(block)
    given = torch.arange(30) != 7
    whole = block.log_prior_and_likelihood(theta)[1].sum(1)
    some = block.log_likelihood_given(theta, given)
    found = block.marginals(theta)
    for index, cov in enumerate(covariances(spelling, design, scales)):
        law = stats.multivariate_normal(np.ones(30), cov)
        assert float(whole[index]) == pytest.approx(law.logpdf(value), abs=1e-8)
        kept = given.numpy()
        without = stats.multivariate_normal(np.ones(29), cov[np.ix_(kept, kept)]).logpdf(value[kept])
        assert float(some[index]) == pytest.approx(without, abs=1e-8)
        assert float(found.changed[index, 7]) == pytest.approx(without, abs=1e-8)


@pytest.mark.parametrize("spelling", ["one product", "three"])
def test_many_rows_are_few_statistics(spelling: str) -> None:
    rows = MANY_ROWS + 100
    block, design, value = target(rows, spelling)
    assert block.is_sufficient
    theta = points(block)
    found = block.marginals(theta)
    for index, cov in enumerate(covariances(spelling, design, "one")):
        # Woodbury's identity and the determinant lemma would be the code under test
        law = stats.multivariate_normal(np.ones(rows), cov)
        assert float(found.given[index]) == pytest.approx(law.logpdf(value), rel=1e-9)
        inverse = np.linalg.inv(cov)
        variance = 1.0 / inverse[7, 7]
        residual = (inverse @ (value - 1.0))[7] * variance
        own = stats.norm(0.0, np.sqrt(variance)).logpdf(residual)
        assert float(found.given[index] - found.changed[index, 7]) == pytest.approx(own, abs=1e-7)


@pytest.mark.parametrize("scales", ["one", "each"])
def test_gradients_are_differences(scales: str) -> None:
    block, _, _ = target(30, "one product", scales)
    theta = points(block)

    def log_density(x: torch.Tensor) -> torch.Tensor:
        return block.log_likelihood_given(x, torch.ones(30, dtype=torch.bool))

    assert torch.autograd.gradcheck(log_density, (theta.requires_grad_(),), eps=1e-6, atol=1e-5)


def test_draws_are_those_of_the_parameter_itself() -> None:
    block, design, value = target(30, "one product")
    theta = points(block)[:1].expand(4_000, -1)
    draws = block.complete(theta, torch.Generator().manual_seed(0), torch.ones(30, dtype=torch.bool))
    (start,) = [p.start for p in block.density.parameters if p.name == "z"]
    factor = np.exp(POINTS["tau"][0]) * np.exp(np.asarray(POINTS["lam"][0]))
    (cov, _) = covariances("one product", design, "one")
    mean = (design * factor).T @ np.linalg.solve(cov, value - 1.0)
    found = draws[:, start : start + COLUMNS].mean(0).numpy()
    np.testing.assert_allclose(found, mean, atol=0.06)


def test_what_moves_more_than_factors_is_mapped_for_each_particle() -> None:
    b = Builder()
    rate = b.random("HalfNormal", "rate", 0.0, 1.0)
    z = b.random("Normal", "z", 0.0, 1.0, shape=(COLUMNS,))
    columns = [b.op("exp", b.op("mul", rate, b.covariate(f"x{k}"))) for k in range(COLUMNS)]
    mean = b.op("dot", b.op("stack", *columns, axis=1), b.op("mul", z, rate))
    b.random("Normal", "y", mean, 0.5, shape=(30,))
    rng = np.random.default_rng(0)
    design, value = rng.normal(size=(30, COLUMNS)), rng.normal(size=30)
    density = b.density({f"x{k}": design[:, k] for k in range(COLUMNS)}, value)
    block = GaussianBlock(density, [p for p in density.parameters if p.name == "z"])
    assert block._multiples is None
    matrix = np.exp(0.8 * design) * 0.8
    law = stats.multivariate_normal(np.zeros(30), matrix @ matrix.T + 0.25 * np.eye(30))
    theta = torch.tensor([[np.log(0.8)]], dtype=torch.float64)
    found = block.log_likelihood_given(theta, torch.ones(30, dtype=torch.bool))
    assert float(found[0]) == pytest.approx(law.logpdf(value), abs=1e-8)


@pytest.mark.parametrize("spelling", ["an origin", "two ways"])
def test_factors_that_are_none_of_a_column_are_not_taken_out(spelling: str) -> None:
    b = Builder()
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    z = b.random("Normal", "z", 0.0, 1.0, shape=(COLUMNS,))
    matrix = b.op("stack", *[b.covariate(f"x{k}") for k in range(COLUMNS)], axis=1)
    if spelling == "an origin":
        mean = b.op("mul", tau, b.op("add", 1.0, b.op("dot", matrix, z)))
    else:
        mean = b.op("add", b.op("mul", tau, b.op("dot", matrix, z)), b.op("sum", z, axis=[0]))
    b.random("Normal", "y", mean, 0.5, shape=(30,))
    rng = np.random.default_rng(0)
    design, value = rng.normal(size=(30, COLUMNS)), rng.normal(size=30)
    density = b.density({f"x{k}": design[:, k] for k in range(COLUMNS)}, value)
    block = GaussianBlock(density, [p for p in density.parameters if p.name == "z"])
    assert block._multiples is None
    t = np.exp(0.4)
    level, matrix = (t, t * design) if spelling == "an origin" else (0.0, t * design + 1.0)
    law = stats.multivariate_normal(np.full(30, level), matrix @ matrix.T + 0.25 * np.eye(30))
    theta = torch.tensor([[0.4]], dtype=torch.float64)
    assert float(block.log_prior_and_likelihood(theta)[1].sum()) == pytest.approx(law.logpdf(value), abs=1e-8)
