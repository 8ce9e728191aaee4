"""Responses of categories in other numbers than the data's: probabilities of each row, by hand."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

from tests.sandbox.conftest import COVARIATES, SCHEMA  # isort: skip

BINARY = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1])
RATING = np.array([0, 1, 2, 2, 1, 0, 2, 1, 0])
P = 1 / (1 + np.exp(-0.1 * COVARIATES["age"]))
OF_ONE = np.log(np.where(BINARY == 1, P, 1 - P))
OF_ZERO = np.log(np.where(BINARY == 1, 1 - P, P))
FEW = np.log(np.array([0.2, 0.5, 0.3]))
WORDS, ONE_TWO, TWO_ONE, SIGNS, PLAIN = ("no", "yes"), ("1", "2"), ("2", "1"), ("-1", "1"), ("0", "1")


def densities(law: str, observed: str, values: np.ndarray, levels: tuple[str, ...]) -> np.ndarray:
    """Of each row of a response of some levels."""
    schema = dataclasses.replace(SCHEMA, response="hit", response_dtype="int64", response_levels=levels)
    source = f"with pm.Model() as model:\n    pm.{law}, observed={observed})\n"
    _, document = model_and_graph(source, schema, COVARIATES)
    density = build_density(parse_graph(json.dumps(document), schema), COVARIATES, values)
    return density.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))[0].numpy()


@pytest.mark.parametrize(
    "law", ["Bernoulli('y', logit_p=0.1 * age", "Bernoulli('y', p=pm.math.sigmoid(0.1 * age)"]
)
@pytest.mark.parametrize(
    ("observed", "levels", "expected"),
    [
        ("hit", ONE_TWO, OF_ONE),
        ("hit - 1", ONE_TWO, OF_ONE),
        ("2 - hit", ONE_TWO, OF_ZERO),
        ("1 - hit", ONE_TWO, OF_ZERO),
        ("1 - hit", WORDS, OF_ZERO),
        ("hit == 'yes'", WORDS, OF_ONE),
        ("(hit == 'no').astype(int)", WORDS, OF_ZERO),
        ("(hit != 'yes') * 1", WORDS, OF_ZERO),
        ("np.where(hit == 'yes', 1, 0)", WORDS, OF_ONE),
        ("np.where(hit == 'no', 0, 1)", WORDS, OF_ONE),
        ("data.hit.map({'no': 0, 'yes': 1}).values", WORDS, OF_ONE),
        ("hit.replace({'no': 1, 'yes': 0})", WORDS, OF_ZERO),
        ("(hit + 1) / 2", SIGNS, OF_ONE),
        ("hit == 1", SIGNS, OF_ONE),
        ("hit == -1", SIGNS, OF_ZERO),
        ("hit == 1", PLAIN, OF_ONE),
        ("(hit == 0).astype(bool)", PLAIN, OF_ZERO),
        ("hit == 2", ONE_TWO, OF_ONE),
        ("hit[::-1] - 1", ONE_TWO, None),
    ],
)
def test_two_levels(law: str, observed: str, levels: tuple[str, ...], expected: np.ndarray | None) -> None:
    if expected is None:  # probabilities stand where the program puts them
        expected = np.log(np.where(BINARY == 1, P[::-1], 1 - P[::-1]))
    np.testing.assert_allclose(densities(law, observed, BINARY, levels), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "observed", ["hit == 1", "hit == 'maybe'", "hit > 0", "hit.map({'no': 1})", "hit == hit"]
)
def test_what_may_mean_either_level_is_refused(observed: str) -> None:
    with pytest.raises(TypeError, match="the response 'hit' has no values here"):
        densities("Bernoulli('y', p=0.5", observed, BINARY, ONE_TWO)


def test_an_indicator_of_a_response_without_levels_is_refused() -> None:
    with pytest.raises(TypeError, match="the response 'hit' has no values here"):
        densities("Bernoulli('y', p=0.5", "hit == 1", BINARY, ())


@pytest.mark.parametrize(
    ("observed", "levels", "expected"),
    [
        ("hit", ("1", "2", "3"), FEW[RATING]),
        ("hit - 1", ("1", "2", "3"), FEW[RATING]),
        ("3 - hit", ("1", "2", "3"), FEW[::-1][RATING]),
        ("2 - hit", ("1", "2", "3"), FEW[::-1][RATING]),
        ("hit / 5 - 1", ("5", "10", "15"), FEW[RATING]),
        ("2 - hit", (), FEW[::-1][RATING]),
    ],
)
def test_several_levels(observed: str, levels: tuple[str, ...], expected: np.ndarray) -> None:
    found = densities("Categorical('y', p=[0.2, 0.5, 0.3]", observed, RATING, levels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_numbers_of_a_count_stay_its_own() -> None:
    found = densities("Bernoulli('y', logit_p=0.1 * age", "hit - 1", BINARY + 1, ())
    np.testing.assert_allclose(found, OF_ONE, rtol=0, atol=1e-12)
    found = densities("Categorical('y', p=[0.2, 0.5, 0.3]", "hit / 2", 2 * RATING, ())
    np.testing.assert_allclose(found, FEW[RATING], rtol=0, atol=1e-12)


@pytest.mark.parametrize("observed", ["hit + 1", "hit - 1000", "hit / 3 + 1"])
def test_numbers_that_no_category_has_are_refused(observed: str) -> None:
    with pytest.raises(ProgramFailure, match="its categories are 0, 1, "):
        densities("Bernoulli('y', p=0.5", observed, BINARY, ())
