"""Point predictions and mixtures of predictions by hand."""

import numpy as np
import pytest

from synthstats_lightning.evaluation.prediction import Prediction, of_model, of_models, point_predictions
from synthstats_lightning.scoring.prediction.forecast import Forecast


def forecast(draws, log_density, evidence=0.0, quantity=None):
    draws = np.array(draws, dtype=float)
    quantities = {} if quantity is None else {"k": np.array(quantity, dtype=float)}
    return Forecast(
        evidence, np.zeros(0), np.array(log_density), draws, quantities, "importance", 100.0, "hash"
    )


def predicted(draws, weights):
    return Prediction(np.zeros(1), np.array(draws, dtype=float)[:, None], np.array(weights), {})


@pytest.mark.parametrize(
    ("draws", "weights", "median"),
    [
        ([3, 1, 2], [1 / 3] * 3, 2),
        ([4, 1, 2, 3], [0.25] * 4, 2.5),
        ([1, 2, 3], [0.1, 0.1, 0.8], 3),
        ([1, 2, 3], [0.5, 0.25, 0.25], 1.5),
        ([1, np.nan, 5], [0.4, 0.5, 0.1], 1),
        ([7], [1.0], 7),
        ([1, 1e300, 2], [1 / 3] * 3, 2),
    ],
)
def test_weighted_median(draws, weights, median):
    assert point_predictions(predicted(draws, weights), "continuous")[0] == pytest.approx(median)


def test_weighted_median_against_repetition():
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=(30, 4)), rng.integers(0, 5, 30)
    found = point_predictions(Prediction(np.zeros(4), values, counts / counts.sum(), {}), "count")
    np.testing.assert_allclose(found, np.median(np.repeat(values, counts, axis=0), axis=0))


def test_binary_prediction_is_a_probability():
    found = point_predictions(predicted([1, 0, 1, np.nan], [0.1, 0.3, 0.2, 0.4]), "binary")
    assert found[0] == pytest.approx(0.5)


def test_no_draw_is_defined():
    with pytest.raises(ValueError, match="no predictive draw that is defined"):
        point_predictions(predicted([np.nan], [1.0]), "continuous")


def test_mixture_of_models():
    one = forecast([[0.0], [1.0]], [np.log(0.2)], quantity=[1.0, 3.0])
    two = forecast([[5.0], [5.0], [6.0], [6.0]], [np.log(0.6)], quantity=[10.0] * 4)
    mixed = of_models([one, two], np.array([0.25, 0.75]))
    assert mixed.log_density[0] == pytest.approx(np.log(0.25 * 0.2 + 0.75 * 0.6))
    np.testing.assert_allclose(mixed.weights, [0.125, 0.125, 0.1875, 0.1875, 0.1875, 0.1875])
    assert point_predictions(mixed, "continuous")[0] == 5.0
    assert mixed.weights @ mixed.quantities["k"] == pytest.approx(0.25 * 2 + 0.75 * 10)


def test_a_model_without_weight_changes_nothing():
    one, two = forecast([[0.0], [1.0]], [-1.0]), forecast([[9.0]], [-np.inf])
    mixed, alone = of_models([one, two], np.array([1.0, 0.0])), of_model(one)
    np.testing.assert_allclose(mixed.log_density, alone.log_density)
    assert point_predictions(mixed, "continuous") == point_predictions(alone, "continuous")
