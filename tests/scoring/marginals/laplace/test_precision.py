"""Precisions by the entries that can differ from 0 against the same as matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.marginals.gaussian.arrow import Arrow
from synthstats_lightning.scoring.marginals.gaussian.band import Band
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.precision import (
    DensePrecision,
    SparseFactor,
    SparsePrecision,
    equations,
    find_shape,
)

PARTICLES, SIZE, POINTS = 3, 42, 4
RNG = np.random.default_rng(8)


def rows_of(columns: np.ndarray, scale: float, shared: bool = False) -> Rows:
    particles = 1 if shared else PARTICLES
    entries = torch.from_numpy(RNG.normal(size=(particles, *columns.shape)))
    affine = Affine(
        torch.from_numpy(columns), entries, torch.from_numpy(RNG.normal(size=(particles, len(columns))))
    )
    one, nothing = torch.full((1, 1), scale, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    return Rows(affine, one, nothing, torch.ones(1, dtype=torch.bool))


def people() -> tuple[list[Rows], Rows]:
    """Forty elements that are tied to two others alone, in shuffled columns."""
    order = RNG.permutation(SIZE)
    single = rows_of(order[:, None], 0.7, shared=True)
    read = np.stack([order[np.arange(120) % 40], order[40 + np.arange(120) % 2]], 1)
    return [single], rows_of(read, 1.0)


def steps() -> tuple[list[Rows], Rows]:
    """A walk of which each row reads two places that follow each other."""
    places = np.arange(SIZE)
    walk = rows_of(np.stack([places[1:], places[:-1]], 1), 0.5)
    return [rows_of(places[:1, None], 0.3), walk], rows_of(np.stack([places[1:], places[:-1]], 1), 1.0)


@pytest.mark.parametrize(("made", "kind"), [(people, Arrow), (steps, Band)])
def test_entries_say_what_matrices_say(made, kind) -> None:
    prior, design_rows = made()
    design = Design(design_rows.affine, SIZE)
    shape = find_shape(prior, design.rows, SIZE)
    assert shape is not None
    assert isinstance(shape.pattern, kind)
    dense, slope = equations(prior, SIZE, None)
    sparse, other = equations(prior, SIZE, shape)
    assert isinstance(dense, DensePrecision)
    assert isinstance(sparse, SparsePrecision)
    torch.testing.assert_close(other.expand_as(slope), slope)
    x = torch.from_numpy(RNG.normal(size=(PARTICLES, SIZE)))
    torch.testing.assert_close(sparse.times(x), dense.times(x))
    torch.testing.assert_close(sparse.diagonal.expand_as(dense.diagonal), dense.diagonal)
    weight = torch.from_numpy(RNG.uniform(0.1, 2.0, size=(PARTICLES, len(design_rows.affine.columns))))
    usable = torch.tensor([True, True, False])
    wanted = dense.plus(design, weight).factor(usable)
    found = sparse.plus(design, weight).factor(usable)
    assert isinstance(found, SparseFactor)
    assert found.exists.tolist() == wanted.exists.tolist() == [True, True, False]
    torch.testing.assert_close(found.half_log_determinant, wanted.half_log_determinant)
    right = torch.from_numpy(RNG.normal(size=(PARTICLES, POINTS, SIZE)))
    torch.testing.assert_close(found.solve(right), wanted.solve(right))
    torch.testing.assert_close(found.covariance(), wanted.covariance())
    torch.testing.assert_close(found.variances(design), wanted.variances(design))
    # draws differ by a rotation: noise of each direction in turn makes the same covariance
    unit = torch.eye(SIZE, dtype=torch.float64).expand(PARTICLES, -1, -1)
    away = found.away(unit)
    torch.testing.assert_close(away.mT @ away, wanted.covariance())


@pytest.mark.parametrize("made", [people, steps])
def test_some_particles_and_some_of_another(made) -> None:
    prior, design_rows = made()
    design = Design(design_rows.affine, SIZE)
    shape = find_shape(prior, design.rows, SIZE)
    every = torch.ones(PARTICLES, dtype=torch.bool)
    chosen = torch.tensor([False, True, False])
    right = torch.from_numpy(RNG.normal(size=(PARTICLES, POINTS, SIZE)))
    solved = []
    for each in (None, shape):
        precision, _ = equations(prior, SIZE, each)
        ones = torch.ones(PARTICLES, len(design_rows.affine.columns), dtype=torch.float64)
        first, second = (precision.plus(design, times * ones).factor(every) for times in (1.0, 3.0))
        mixed = first.where(second, chosen)
        solved.append(mixed.solve(right))
        torch.testing.assert_close(solved[-1][1], second.solve(right)[1])
        torch.testing.assert_close(solved[-1][0], first.solve(right)[0])
        index = torch.tensor([1, 0])
        torch.testing.assert_close(mixed.select(index).solve(right[index]), solved[-1][index])
        none = torch.tensor([True, False, True])
        identity = precision.plus(design, ones).usable(none).factor(every)
        torch.testing.assert_close(identity.solve(right)[1], right[1])
    torch.testing.assert_close(*solved)
