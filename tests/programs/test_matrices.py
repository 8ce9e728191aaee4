"""Linear algebra of the graph language against SciPy, and the domain of its Bessel functions."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from synthstats_lightning.programs import OPERATIONS
from synthstats_lightning.programs.special import MAX_ORDER, scaled_bessel


def test_scaled_bessel_functions_of_whole_orders() -> None:
    # exp(-x) times the mean of exp(x cos(a)) cos(k a) over the circle
    angle = (np.arange(4096) + 0.5) * (2.0 * np.pi / 4096)
    for order in (0, 1, 7):
        for x in (0.3, 2.0, 25.0):
            mean = (np.exp(x * (np.cos(angle) - 1.0)) * np.cos(order * angle)).mean()
            found = scaled_bessel(np.array(order), np.array(x))
            np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(scaled_bessel(np.array([0, 1, 4]), np.zeros(3)), [1.0, 0.0, 0.0])


def test_other_orders_and_negative_arguments_have_none() -> None:
    order = np.array([0.5, -1.0, MAX_ORDER + 1, 2.0, 2.0, np.nan])
    x = np.array([1.0, 1.0, 1.0, -1.0, np.inf, 1.0])
    assert np.isnan(scaled_bessel(order, x)).all()


def test_matrices_against_scipy() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 4)) + 4.0 * np.eye(4)
    covariance = matrix @ matrix.T
    right = rng.normal(size=(4, 2))
    values = {
        "cholesky": ([covariance], {}, scipy.linalg.cholesky(covariance, lower=True)),
        "inverse": ([matrix], {}, scipy.linalg.inv(matrix)),
        "determinant": ([matrix], {}, scipy.linalg.det(matrix)),
        "log_determinant": ([matrix], {}, np.log(abs(scipy.linalg.det(matrix)))),
        "solve": ([matrix, right], {}, scipy.linalg.solve(matrix, right)),
        "solve_triangular": (
            [matrix, right],
            {"lower": True},
            scipy.linalg.solve_triangular(matrix, right, lower=True),
        ),
    }
    for name, (inputs, attributes, wanted) in values.items():
        operation = OPERATIONS[name]
        shape, dtype = operation.infer([x.shape for x in inputs], ["float64"] * len(inputs), attributes)
        found = operation.evaluate(inputs, attributes)
        assert (found.shape, str(found.dtype)) == (shape, dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_matrices_without_factor_or_inverse_give_nan() -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert np.isnan(OPERATIONS["cholesky"].evaluate([indefinite], {})).all()
    assert np.isnan(OPERATIONS["inverse"].evaluate([np.ones((2, 2))], {})).all()
    assert np.isnan(OPERATIONS["solve"].evaluate([np.ones((2, 2)), np.ones(2)], {})).all()
