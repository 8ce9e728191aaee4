from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.scoring.auditing.strata import Axis, Coordinates, Scale, stratify


def integrate(points, count, function, seed=0):
    """Sum over cells of the mean of two weights."""
    generator = np.random.default_rng(seed)
    total = 0.0
    for cell in stratify(points, count):
        for _ in range(2):
            point, log_density = cell.draw(generator)
            total += 0.5 * function(point) / np.exp(log_density)
    return total


@pytest.mark.parametrize("rows", [1, 2])
def test_integrates_a_density_like_the_points(rows):
    points = np.random.default_rng(1).normal(size=(8192, rows))
    found = [integrate(points, 128, lambda x: stats.norm.pdf(x).prod(), seed) for seed in range(5)]
    np.testing.assert_allclose(found, 1.0, atol=0.08)
    assert np.mean(found) == pytest.approx(1.0, abs=0.03)


def test_integrates_a_density_unlike_the_points_without_bias():
    points = np.random.default_rng(2).normal(size=(2048, 1))
    shifted = [
        integrate(
            points,
            32,
            lambda x: math.exp(-0.5 * ((x[0] - 6.0) / 3.0) ** 2) / (3.0 * math.sqrt(2 * math.pi)),
            seed,
        )
        for seed in range(100)
    ]
    error = np.std(shifted) / np.sqrt(len(shifted))
    assert abs(np.mean(shifted) - 1.0) < 4 * error
    assert error < 0.1


def holds(cell, point):
    """Whether a point lies in a cell."""
    return all(
        (x > axis.knots[0] or axis.below > 0)
        and (x <= axis.knots[-1] or axis.above > 0)
        and (x <= axis.knots[0] or axis.below < 1)
        and (x > axis.knots[-1] or axis.above < 1)
        for x, axis in zip(point, cell.axes, strict=True)
    )


def test_cells_cover_space_once():
    points = np.random.default_rng(3).normal(size=(4096, 2))
    cells = stratify(points, 16)
    assert len(cells) == 16 + 4
    for point in np.random.default_rng(4).uniform(-8, 8, (200, 2)):
        assert sum(holds(cell, point) for cell in cells) == 1
    for cell in cells:
        generator = np.random.default_rng(5)
        assert all(holds(cell, cell.draw(generator)[0]) for _ in range(20))


def test_density_of_draws_is_the_reported_one():
    axis = Axis(np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.3, 1.0]), 0.2, 0.1)
    generator = np.random.default_rng(6)
    x, log_density = np.array([axis.draw(generator) for _ in range(20_000)]).T
    # the mean of 1/density over draws from an interval is the interval's length
    for low, high in ((0, 1), (1, 3), (-1, 0), (3, 4)):
        inverse = np.exp(-log_density) * ((x > low) & (x <= high))
        assert inverse.mean() == pytest.approx(high - low, rel=0.1)
    assert np.mean(x < 0) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("draws", [np.geomspace(1e-250, 10, 100), np.linspace(-5, 500, 100)])
def test_scale_goes_back_and_forth(draws):
    scale = Scale.of(draws)
    stretched = scale.forward(draws)
    assert np.isfinite(stretched).all()
    back, log_derivative = np.array([scale.backward(t) for t in stretched]).T
    np.testing.assert_allclose(back, draws, rtol=1e-9, atol=1e-12)
    step = 1e-6
    slope = [(scale.backward(t + step)[0] - scale.backward(t - step)[0]) / (2 * step) for t in stretched]
    np.testing.assert_allclose(np.log(slope), log_derivative, atol=1e-5)
    assert scale.backward(1e4)[0] == np.inf


def test_coordinates_undo_correlation_and_keep_volume():
    rng = np.random.default_rng(7)
    common = rng.normal(size=(5000, 1))
    points = np.exp(common + 0.3 * rng.normal(size=(5000, 3)))
    coordinates = Coordinates(points)
    assert abs(np.corrcoef(coordinates.points.T) - np.eye(3)).max() < 1e-6
    t = coordinates.points[0]
    point, log_volume = coordinates.backward(t)
    np.testing.assert_allclose(point, points[0], rtol=1e-9)
    step = 1e-6
    jacobian = [
        (coordinates.backward(t + step * e)[0] - coordinates.backward(t - step * e)[0]) / (2 * step)
        for e in np.eye(3)
    ]
    assert np.linalg.slogdet(jacobian)[1] == pytest.approx(log_volume, abs=1e-4)


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="points must be at least 64 for 16 cells, got 10"):
        stratify(np.zeros((10, 2)), 16)
