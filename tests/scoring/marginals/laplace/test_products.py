"""Sums of outer products by one sparse matrix against the dense formula."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.precision import SparsePrecision, find_shape
from synthstats_lightning.scoring.marginals.laplace.products import Products, of_triangle

ROWS, GROUPS, SIZE, PARTICLES = 50, 30, 32, 3
GENERATOR = torch.Generator().manual_seed(4)
GROUP = torch.randint(0, GROUPS, (ROWS,), generator=GENERATOR)
SLOPE = torch.randn(ROWS, dtype=torch.float64, generator=GENERATOR)
SLOPE[:3] = 0.0
WEIGHT = torch.rand(PARTICLES, ROWS, dtype=torch.float64, generator=GENERATOR)
# an intercept, a slope, an effect of each group, the first of them twice for some rows, and no column
COLUMNS = torch.stack(
    [
        torch.full((ROWS,), GROUPS),
        torch.full((ROWS,), GROUPS + 1),
        GROUP,
        torch.where(torch.arange(ROWS) < 9, GROUP, SIZE),
    ],
    1,
)
COEFFICIENTS = torch.stack(
    [torch.ones(ROWS), SLOPE, torch.ones(ROWS), torch.where(torch.arange(ROWS) < 9, 0.5, 0.0)], 1
).to(torch.float64)


def affine(factor: torch.Tensor) -> Affine:
    """Coefficients that are data times a factor of each column."""
    padded = torch.nn.functional.pad(factor, (0, 1), value=1.0)
    return Affine(COLUMNS, COEFFICIENTS * padded[:, COLUMNS], torch.zeros(1, ROWS, dtype=torch.float64))


def wanted(factor: torch.Tensor) -> torch.Tensor:
    matrix = torch.zeros(ROWS, SIZE + 1, dtype=torch.float64).scatter_add(1, COLUMNS, COEFFICIENTS)
    scaled = matrix[:, :SIZE] * factor[:, None]
    return scaled.mT @ (WEIGHT[:, :, None] * scaled)


PLAIN = torch.ones(1, SIZE, dtype=torch.float64)
SCALED = torch.exp(torch.randn(PARTICLES, SIZE, dtype=torch.float64, generator=GENERATOR))


@pytest.mark.parametrize("factor", [PLAIN, SCALED], ids=["data", "scaled"])
def test_sums_are_those_of_dense_matrices(factor: torch.Tensor) -> None:
    products = Products(affine(PLAIN), SIZE, of_triangle(SIZE))
    design = Design(affine(factor), SIZE).by(products)
    assert design.products is not None
    with torch.no_grad():
        torch.testing.assert_close(design.gram(WEIGHT), wanted(factor))
        one = design.select(torch.tensor([1])).gram(WEIGHT[1:2])
    torch.testing.assert_close(one, wanted(factor)[1:2])
    # with gradients the terms are added one by one
    torch.testing.assert_close(design.gram(WEIGHT), wanted(factor))


@pytest.mark.parametrize("factor", [PLAIN, SCALED], ids=["data", "scaled"])
def test_sums_in_a_pattern_are_those_of_dense_matrices(factor: torch.Tensor) -> None:
    design = Design(affine(factor), SIZE)
    shape = find_shape([], design.rows, SIZE)
    assert shape is not None
    design = design.by(Products(affine(PLAIN), SIZE, shape.of_entries()))
    assert design.products is not None
    empty = SparsePrecision(shape, torch.zeros(shape.pattern.numbers + 1, 1, dtype=torch.float64))
    with torch.no_grad():
        found = empty.plus(design, WEIGHT).entries
    matrix = torch.zeros(PARTICLES, SIZE, SIZE, dtype=torch.float64)
    matrix[:, shape.rows, shape.columns] = found[shape.places].T
    torch.testing.assert_close(matrix, wanted(factor))
    torch.testing.assert_close(found[:-1], empty.plus(design, WEIGHT).entries[:-1])


def test_coefficients_that_differ_in_other_ways_are_told_apart() -> None:
    products = Products(affine(PLAIN), SIZE, of_triangle(SIZE))
    columns, coefficients, origin = affine(SCALED)
    other = coefficients.clone()
    other[1, 7, 1] *= 1.0 + 1e-6
    assert products.factor(Affine(columns, coefficients, origin)) is not None
    assert products.factor(Affine(columns, other, origin)) is None
    # and then for good: most designs of that model would differ
    assert products.factor(Affine(columns, coefficients, origin)) is None
