"""Factors of chains against dense ones, and models that have them against the same without."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian import block as blocks
from synthstats_lightning.scoring.marginals.gaussian.band import SMALLEST, Band, BandFactor, find_band
from synthstats_lightning.scoring.marginals.gaussian.block import integrate_gaussian
from synthstats_lightning.scoring.marginals.gaussian.halved import HalvedFactor
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.pattern import pattern_equations
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.gaussian.solution import normal_equations
from tests.scoring.marginals.test_density import Builder

PARTICLES = 5
SHAPES = {
    "walk": ([60], 1, 0),
    "walk_and_constant": ([50], 1, 1),
    "second_order": ([50], 2, 3),
    "uneven_walks": ([30, 18, 25, 1], 1, 2),
    "wide": ([64], 4, 2),
}
"""Lengths of the chains, places that are tied, elements of the core."""


def rows_of(lengths: list[int], width: int, core: int, seed: int) -> tuple[list[Rows], int]:
    """Rows that tie neighbours in a chain and the core, in shuffled columns."""
    rng = np.random.default_rng(seed)
    size = sum(lengths) + core
    order = rng.permutation(size)
    columns, start = [], 0
    for length in lengths:
        chain = order[start : start + length]
        start += length
        for place in range(length):
            near = chain[max(0, place - width) : place + 1]
            # an entry twice, and one of no column
            own = [*near, *order[sum(lengths) :], chain[place], size]
            columns.append([*own, *[size] * (width + core + 3 - len(own))])
    read = torch.tensor(columns)
    coefficients = torch.from_numpy(rng.normal(size=(PARTICLES, *read.shape)))
    coefficients = torch.where(read == size, 0.0, coefficients)
    origin = torch.from_numpy(rng.normal(size=(1, len(read))))
    scale = torch.from_numpy(rng.uniform(0.5, 2.0, size=(PARTICLES, len(read))))
    allowed, nothing = torch.ones(1, dtype=torch.bool), torch.zeros(1, dtype=torch.float64)
    ones = torch.ones(1, size, 1, dtype=torch.float64)
    own = Affine(torch.arange(size)[:, None], ones, origin[:, :1].expand(1, size))
    prior = Rows(own, torch.full((1, 1), 0.7, dtype=torch.float64), nothing, allowed)
    return [prior, Rows(Affine(read, coefficients, origin), scale, nothing, allowed)], size


def band_of(every: list[Rows], size: int) -> Band:
    band = find_band([rows.affine.columns for rows in every], size)
    assert band is not None
    return band


@pytest.mark.parametrize("name", SHAPES)
def test_a_factor_is_that_of_the_dense_matrix(name: str) -> None:
    lengths, width, core = SHAPES[name]
    every, size = rows_of(lengths, width, core, 3)
    band = band_of(every, size)
    assert (band.chains.shape, band.width, len(band.core)) == ((max(lengths), len(lengths)), width, core)
    dense, gradient = normal_equations(every, size)
    entries, slopes = pattern_equations(every, band)
    held = torch.cat([entries[:-1], torch.zeros(1, PARTICLES, dtype=torch.float64)])
    torch.testing.assert_close(held[band.place[:size, :size]].permute(2, 0, 1), dense, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slopes[:-1].T, gradient, rtol=1e-12, atol=1e-12)
    factor = band.factor(entries, torch.ones(PARTICLES, dtype=torch.bool))
    assert bool(factor.exists.all())
    torch.testing.assert_close(factor.half_log_determinant, 0.5 * torch.linalg.slogdet(dense).logabsdet)
    torch.testing.assert_close(factor.solve(slopes), torch.linalg.solve(dense, gradient))
    inverse = torch.linalg.inv(dense)
    row, column = (band.place[:size, :size] < band.numbers).nonzero(as_tuple=True)
    torch.testing.assert_close(factor.covariance[band.place[row, column]].T, inverse[:, row, column])
    response = every[1]
    full = torch.zeros(PARTICLES, len(response.affine.columns), size + 1, dtype=torch.float64)
    full = full.scatter_add(
        2, response.affine.columns.expand(PARTICLES, -1, -1), response.affine.coefficients
    )
    design = full[:, :, :size]
    torch.testing.assert_close(factor.variances(response), ((design @ inverse) * design).sum(-1))
    # it is linear in the noise
    units = torch.eye(size, dtype=torch.float64)
    spread = torch.stack([factor.away(units[i].expand(PARTICLES, -1)) for i in range(size)], 2)
    torch.testing.assert_close(spread @ spread.mT, inverse)


def test_precisions_that_are_none() -> None:
    every, size = rows_of(*SHAPES["second_order"], 4)
    band = band_of(every, size)
    entries, slopes = pattern_equations(every, band)
    entries = entries.clone()
    entries[band.diagonal[int(band.chains[7, 0])], 0] = -1.0
    entries[band.diagonal[int(band.core[0])], 1] = 1e-3
    entries[band.diagonal[0], 2] = torch.nan
    usable = torch.tensor([True, True, False, True, True])
    factor = band.factor(entries, usable)
    assert factor.exists.tolist() == [False, False, False, True, True]
    found = factor.solve(torch.where(factor.exists, slopes, 0.0))
    assert bool(found.isfinite().all())
    others = band.factor(entries[:, 3:], usable[3:])
    torch.testing.assert_close(found[3:], others.solve(slopes[:, 3:]))
    assert bool(factor.half_log_determinant.isfinite().all())


def test_what_has_no_such_shape() -> None:
    chain = torch.stack([torch.arange(39), torch.arange(1, 40)], 1)
    assert find_band([chain], 40) is not None
    assert find_band([torch.arange(40)[None]], 40) is None
    assert find_band([chain[: SMALLEST - 2]], SMALLEST - 1) is None
    lattice = torch.arange(100).reshape(10, 10)
    pairs = [torch.stack([lattice[1:], lattice[:-1]], -1), torch.stack([lattice[:, 1:], lattice[:, :-1]], -1)]
    assert find_band([each.reshape(-1, 2) for each in pairs], 100) is None


ROWS = 48
RNG = np.random.default_rng(6)
X = RNG.normal(size=ROWS)
Y = RNG.normal(size=ROWS).cumsum() * 0.4 + 0.5 * X + 0.3 * RNG.normal(size=ROWS)


def level_and_slope(own: str) -> Density:
    """A level that moves, a constant and a slope."""
    b = Builder()
    step = b.random("HalfNormal", "step", 0.0, 1.0)
    start = b.random("Normal", "start", 0.0, 2.0)
    slope = b.random("Normal", "slope", 0.0, 1.0)
    fields = {"name": "level", "shape": [ROWS]}
    if own == "walk":
        fields |= {"distribution": "RandomWalk", "components": ["Normal", "Normal"]}
        inputs = b.lift(0.3), b.lift(2.0), b.constant([0.0]), b.op("reshape", step, shape=[1])
    else:
        rho = b.random("Uniform", "rho", -1.0, 1.0, shape=(2,))
        fields |= {"distribution": "AR", "components": ["Normal"]}
        inputs = b.lift(0.0), rho, step, b.constant([0.0, 0.1]), b.constant([0.5, 0.5])
    level = b.add(Node("random", inputs, fields))
    mean = b.op("add", b.op("add", start, level), b.op("mul", b.covariate("x"), slope))
    b.random("Normal", "y", mean, b.random("HalfNormal", "s", 0.0, 1.0), shape=(ROWS,))
    return b.density({"x": X}, Y)


@pytest.mark.parametrize("own", ["walk", "autoregression"])
def test_a_model_is_the_same_with_and_without(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    banded = integrate_gaussian(level_and_slope(own))
    monkeypatch.setattr(blocks, "find_band", lambda columns, size: None)
    without = integrate_gaussian(level_and_slope(own))
    assert banded is not None
    assert without is not None
    assert isinstance(banded._pattern, Band)
    assert (len(banded._pattern.core), banded._pattern.width) == (2, 1 if own == "walk" else 2)
    assert without._pattern is None
    theta = torch.randn(6, banded.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    some = torch.ones(ROWS, dtype=torch.bool)
    some[[0, 24, 25, 47]] = False
    for given in (None, some):
        for found, dense in zip(banded.marginals(theta, given), without.marginals(theta, given), strict=True):
            torch.testing.assert_close(found, dense, rtol=1e-9, atol=1e-9)

    def total(target):
        return lambda points: target.log_prior_and_likelihood(points)[1].sum(1)

    for found, dense in zip(
        value_and_gradient(total(banded), theta), value_and_gradient(total(without), theta), strict=True
    ):
        torch.testing.assert_close(found, dense, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("name", "halves"), [("walk", 7), ("uneven_walks", 6)])
def test_chains_of_width_one_are_halved(name: str, halves: int) -> None:
    lengths, width, core = SHAPES[name]
    every, size = rows_of(lengths, width, core, 8)
    band = band_of(every, size)
    entries, _ = pattern_equations(every, band)
    usable = torch.arange(PARTICLES) > 0
    factor = band.factor(entries, usable)
    assert isinstance(factor, HalvedFactor)
    assert len(factor._halves) == halves
    by_place = BandFactor(band, entries, usable)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(PARTICLES, 3, size)))
    torch.testing.assert_close(factor.covariance[:-1], by_place.covariance[:-1])
    torch.testing.assert_close(factor.solve_each(x), by_place.solve_each(x))
    assert torch.equal(factor.exists, usable)
    # draws are of another root of the same covariance
    root = factor.away_each(torch.eye(size, dtype=torch.float64).expand(PARTICLES, -1, -1))
    dense = normal_equations(every, size)[0][1:]
    torch.testing.assert_close((root.mT @ root)[1:], torch.linalg.inv(dense))
    chosen = torch.tensor([3, 1])
    torch.testing.assert_close(factor.select(chosen).solve_each(x[chosen]), by_place.solve_each(x)[chosen])
