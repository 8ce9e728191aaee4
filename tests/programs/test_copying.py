from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.programs.copying import copied_as_set, copied_in_order, views_of

RANDOM = np.random.default_rng(3)
X = np.sort(RANDOM.uniform(0, 10, 40))
LENGTHS = np.round(1.5 + 0.1 * X + RANDOM.normal(0, 0.1, 40), 2)
COUNTS = RANDOM.poisson(4.0, 40)
COIN = RANDOM.integers(0, 2, 40)
STRONG = 20.0


def in_order(numbers, response, spacing=None):
    return max(copied_in_order(np.asarray(numbers, float), view) for view in views_of(response, spacing))


def as_set(numbers, response, spacing=None):
    return max(copied_as_set(np.unique(numbers), view) for view in views_of(response, spacing))


@pytest.mark.parametrize(
    "numbers",
    [
        LENGTHS,
        LENGTHS / 7 - 3,
        np.round(0.37 * LENGTHS + 3, 4),
        5 - LENGTHS,
        np.log(LENGTHS),
        2 + 0.1 * np.round(np.log(LENGTHS), 4),
        LENGTHS + RANDOM.uniform(-0.004, 0.004, 40),
        np.where(np.arange(40) % 3 == 0, 0.0, LENGTHS),
    ],
    ids=["plain", "affine", "rounded", "minus", "log", "affine log", "blurred", "two thirds"],
)
def test_copies_in_the_order_of_the_response(numbers):
    found = in_order(numbers, LENGTHS, 0.01)
    assert found.bits > 60
    assert found.rows >= 26


def test_counts_and_truth_values_are_copied_too():
    assert in_order(COUNTS, COUNTS).bits > 40
    assert in_order(3.0 - 2.0 * COUNTS, COUNTS).bits > 40
    assert in_order(COIN, COIN).bits > 30


@pytest.mark.parametrize(
    ("numbers", "response"),
    [
        (np.log1p(X), LENGTHS),
        (1.5 + 0.1 * X, LENGTHS),
        (np.linspace(1.5, 2.5, 40), LENGTHS),
        (np.round(RANDOM.normal(2.0, 0.3, 40), 2), LENGTHS),
        (np.sort(COUNTS), COUNTS),
        (np.repeat(np.arange(5), 8), COUNTS),
        (np.repeat([0, 1], 20), COIN),
        (np.where(RANDOM.random(40) < 0.8, COIN, 1 - COIN), COIN),
        (np.eye(40)[7], np.eye(40)[9]),
        (np.zeros(40), COIN),
    ],
)
def test_what_honest_programs_hold_is_no_copy(numbers, response):
    assert in_order(numbers, response).bits < STRONG / 2


def test_a_random_order_or_data_set_is_no_copy_in_order():
    generator = np.random.default_rng(0)
    worst = max(in_order(generator.permutation(LENGTHS), LENGTHS, 0.01).bits for _ in range(25))
    assert worst < STRONG / 4


def test_sets_of_values():
    values = np.unique(LENGTHS)
    assert as_set(values, LENGTHS, 0.01).bits > STRONG
    assert as_set(0.5 * values + 3, LENGTHS, 0.01).bits > 0
    for ordinary in (
        [0, 1, 2, 2.5, 5, 10, 0.5, 0.1],
        np.linspace(1.5, 2.5, 11),
        np.round(np.linspace(1.0, 3.0, 41), 2),
        np.round(RANDOM.normal(2.0, 0.3, 30), 2),
        np.arange(30.0),
    ):
        assert as_set(ordinary, LENGTHS, 0.01).bits < STRONG / 2
    assert as_set(np.arange(12.0), COUNTS).bits == 0
