"""Residuals of fields of neighbours against the matrices that define them."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from synthstats_lightning.scoring.marginals.gaussian.band import find_band
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import find_neighbours, neighbour_rows

SIZE = 40


def chain() -> torch.Tensor:
    weights = torch.zeros(SIZE, SIZE, dtype=torch.float64)
    at = torch.arange(SIZE - 1)
    weights[at, at + 1] = weights[at + 1, at] = 0.5 + (at % 3).to(torch.float64)
    return weights


def known(values: torch.Tensor) -> Affine:
    """Means that no column moves."""
    elements = values.shape[-1]
    columns = torch.zeros(elements, 0, dtype=torch.int64)
    return Affine(columns, torch.zeros(1, elements, 0, dtype=torch.float64), values[None])


@pytest.mark.parametrize("alphas", [[0.3, 0.95, 0.0], [0.8, -0.6, -0.99]])
def test_pairs_of_neighbours_have_the_density_of_their_precision(alphas: list[float]) -> None:
    weights, generator = chain(), torch.Generator().manual_seed(1)
    alpha = torch.tensor(alphas, dtype=torch.float64)
    tau = torch.tensor([0.7, 2.0, 30.0], dtype=torch.float64)
    mean, x = torch.randn(2, SIZE, generator=generator, dtype=torch.float64)
    found = find_neighbours(weights[None], SIZE)
    assert found is not None
    rows = neighbour_rows(0, known(mean), found, alpha, tau, torch.ones(1, dtype=torch.bool))
    precision = tau[:, None, None] * (weights.sum(0).diag() - alpha[:, None, None] * weights)
    residuals = rows.residuals(x.expand(3, -1))
    log_density = rows.log_volume - rows.log_scales().sum(-1) - 0.5 * residuals.square().sum(-1)
    wanted = MultivariateNormal(mean, precision_matrix=precision).log_prob(x)
    torch.testing.assert_close(
        log_density - 0.5 * SIZE * math.log(2 * math.pi), wanted, rtol=1e-11, atol=1e-10
    )
    design = rows.affine.matrix(SIZE) / rows.scale[:, :, None]
    torch.testing.assert_close(design.mT @ design, precision, rtol=1e-11, atol=1e-11)
    assert bool(rows.allowed.all())
    # tied to the next ones alone, so that a chain is eliminated place by place
    band = find_band([rows.affine.columns], SIZE)
    assert band is not None
    assert band.width == 1


def test_parameters_beyond_the_constraints_are_not_allowed() -> None:
    found = find_neighbours(chain()[None], SIZE)
    assert found is not None
    alpha = torch.tensor([1.0, 0.5, 0.5], dtype=torch.float64)
    tau = torch.tensor([1.0, math.inf, 1.0], dtype=torch.float64)
    rows = neighbour_rows(
        0, known(torch.zeros(SIZE, dtype=torch.float64)), found, alpha, tau, torch.ones(1, dtype=torch.bool)
    )
    assert rows.allowed.tolist() == [False, False, True]
    assert bool(rows.log_volume.isfinite().all())


@pytest.mark.parametrize("change", ["asymmetric", "negative", "an island", "several", "itself"])
def test_other_weights_are_left_to_their_matrix(change: str) -> None:
    weights = chain()
    match change:
        case "asymmetric":
            weights[0, 5] = 1.0
        case "negative":
            weights[0, 1] = weights[1, 0] = -0.1
        case "an island":
            weights[0, 1] = weights[1, 0] = 0.0
        case "itself":
            weights[3, 3] = 1.0
    given = weights.expand(2, -1, -1) if change == "several" else weights[None]
    assert find_neighbours(given, SIZE) is None
