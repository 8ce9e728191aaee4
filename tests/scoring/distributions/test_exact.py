"""Log-densities against 50 digits at the corners of every parameter's range; a few by default."""

from __future__ import annotations

import math
from types import ModuleType

import mpmath as mp
import pytest
import torch

from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.numerics import transforms
from tests.support.benchmark_modules import benchmark_module

TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def corners() -> ModuleType:
    return benchmark_module("scoring_parts.corners")


def test_every_distribution_has_a_formula(corners: ModuleType) -> None:
    assert set(corners.NAMES) == set(DISTRIBUTIONS)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_few_corners(corners: ModuleType, name: str) -> None:
    worst = corners.worst_error(name, 3, 6)
    assert worst.compared >= 6
    assert worst.error <= TOLERANCE, worst.case


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_many_corners(corners: ModuleType, name: str) -> None:
    worst = corners.worst_error(name, 300, 300, seed=1)
    assert worst.error <= TOLERANCE, worst.case


def test_a_wrong_density_is_seen(corners: ModuleType) -> None:
    assert corners.relative_error(-3.0, mp.mpf(-3) - mp.mpf(10) ** -8) > TOLERANCE
    assert corners.relative_error(math.nan, mp.mpf(-3)) == math.inf
    assert corners.relative_error(-5.0, mp.mpf(-10) ** 301) == math.inf


def prior_in_coordinates(distribution: Distribution, u: torch.Tensor, *parameters: float) -> torch.Tensor:
    """Log-density of the logarithm or logit of a value, by its logarithms."""
    tensors = [torch.tensor(p, dtype=torch.float64) for p in parameters]
    assert distribution.from_logs is not None
    unit = distribution.support == "unit"
    value, log_jacobian = transforms.unit(u) if unit else (transforms.positive(u)[0], u)
    statistics, base = distribution.from_logs(value, *transforms.logs(u, unit))
    normaliser = distribution.log_normaliser(*tensors)
    offset = torch.zeros((), dtype=torch.float64) if normaliser is None else -normaliser
    offset = offset if base is None else offset + base
    return distribution.log_kernel(offset, statistics, *tensors) + log_jacobian


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Gamma", (0.001, 1000.0)),
        ("Gamma", (5e3, 1e-4)),
        ("InverseGamma", (0.001, 0.001)),
        ("Beta", (0.001, 0.003)),
        ("Beta", (0.01, 5e3)),
        ("LogNormal", (3.0, 1500.0)),
        ("LogitNormal", (-4.0, 900.0)),
        ("Weibull", (0.002, 1e-50)),
        ("Kumaraswamy", (0.002, 0.004)),
        ("HalfStudentT", (0.002, 1e60)),
    ],
)
def test_priors_beyond_double_precision_keep_their_mass(name: str, parameters: tuple[float, ...]) -> None:
    """The density of the coordinate integrates to one, and half of the draws lie below its median."""
    distribution = DISTRIBUTIONS[name]
    u = torch.sinh(torch.linspace(-11.0, 11.0, 60_001, dtype=torch.float64))
    log_density = prior_in_coordinates(distribution, u, *parameters)
    mass = torch.cumulative_trapezoid(log_density.exp(), u)
    assert float(mass[-1]) == pytest.approx(1.0, abs=1e-4)
    assert distribution.sample_coordinate is not None
    tensors = [torch.tensor(p, dtype=torch.float64) for p in parameters]
    draws = distribution.sample_coordinate(torch.Generator().manual_seed(0), (4_000,), *tensors)
    for share in (0.1, 0.5, 0.9):
        quantile = u[int((mass < share).sum())]
        assert float((draws < quantile).to(torch.float64).mean()) == pytest.approx(share, abs=0.03)
