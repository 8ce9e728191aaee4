"""Proposals for posteriors without one row, against normal posteriors known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.estimators.mixture import StudentMixture
from synthstats_lightning.scoring.prediction.one_line import FARTHEST, LEAST_PRECISION, stretched


def regression(seed: int, rows: int = 20, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim))
    x[0] *= 3.0  # a row of much leverage
    return x, x @ rng.normal(size=dim) + rng.normal(size=rows)


def posterior(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of coefficients with standard normal priors and noise."""
    covariance = np.linalg.inv(x.T @ x + np.eye(x.shape[1]))
    return covariance @ x.T @ y, covariance


def draws_of(mean: np.ndarray, covariance: np.ndarray, count: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).multivariate_normal(mean, covariance, count))


def mixture_at(mean: np.ndarray, covariance: np.ndarray) -> StudentMixture:
    root = torch.from_numpy(np.linalg.cholesky(covariance))[None]
    return StudentMixture(torch.zeros(1, dtype=torch.float64), torch.from_numpy(mean)[None], root, 5)


@pytest.mark.parametrize("row", [0, 3])
def test_a_normal_posterior_without_a_row_is_met(row: int) -> None:
    x, y = regression(row)
    mean, covariance = posterior(x, y)
    theta = draws_of(mean, covariance, 20_000, 1)
    residual = y[row] - theta.numpy() @ x[row]
    own = torch.from_numpy(-0.5 * residual**2 - 0.5 * math.log(2 * math.pi))
    log_weight = torch.zeros(len(theta), dtype=torch.float64)
    found = stretched(mixture_at(mean, covariance), theta, log_weight, own)
    assert found is not None
    expected_mean, expected = posterior(np.delete(x, row, 0), np.delete(y, row))
    scale = np.sqrt(np.diag(expected))
    assert np.abs((found.location[0].numpy() - expected_mean) / scale).max() < 0.1
    root = found.scale_tril[0].numpy()
    assert np.abs((root @ root.T - expected) / np.outer(scale, scale)).max() < 0.1
    # the other is wider along one line alone
    apart = found.scale_tril[1].numpy() @ found.scale_tril[1].numpy().T - root @ root.T
    values = np.sort(np.abs(np.linalg.eigvalsh(apart)))
    assert values[-2] < 1e-9 * values[-1]


def test_weights_of_draws_count() -> None:
    x, y = regression(2)
    mean, covariance = posterior(x, y)
    wide = 2.0 * covariance
    theta = draws_of(mean, wide, 20_000, 3)
    offset = theta.numpy() - mean
    log_weight = torch.from_numpy(
        -0.5 * (offset * (offset @ np.linalg.inv(covariance))).sum(1)
        + 0.5 * (offset * (offset @ np.linalg.inv(wide))).sum(1)
    )
    own = torch.from_numpy(-0.5 * (y[0] - theta.numpy() @ x[0]) ** 2)
    found = stretched(mixture_at(mean, wide), theta, log_weight, own)
    assert found is not None
    expected_mean, expected = posterior(x[1:], y[1:])
    line = x[0] / np.linalg.norm(x[0])
    width = math.sqrt(line @ expected @ line)
    assert abs(line @ (found.location[0].numpy() - expected_mean)) < 0.1 * width


def test_a_row_of_which_nothing_moves_has_none() -> None:
    mean, covariance = np.zeros(3), np.eye(3)
    theta = draws_of(mean, covariance, 500, 4)
    none = torch.zeros(500, dtype=torch.float64)
    assert stretched(mixture_at(mean, covariance), theta, none, torch.full_like(none, -2.0)) is None
    impossible = torch.full_like(none, -math.inf)
    assert stretched(mixture_at(mean, covariance), theta, none, impossible) is None


def test_moves_are_bounded() -> None:
    mean, covariance = np.zeros(2), np.eye(2)
    theta = draws_of(mean, covariance, 2000, 5)
    none = torch.zeros(len(theta), dtype=torch.float64)
    # a parabola so sharp that nothing would be left without it
    found = stretched(mixture_at(mean, covariance), theta, none, -50.0 * (theta[:, 0] - 3.0).square())
    assert found is not None
    assert float(found.scale_tril[0].norm(dim=1).max()) <= 1.05 * LEAST_PRECISION**-0.5
    assert float(found.location[0].norm()) <= 1.1 * FARTHEST * LEAST_PRECISION**-0.5
