"""Factors of an arrow's shape against dense ones, and models that have it against the same without."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.marginals.gaussian import arrow as arrows
from synthstats_lightning.scoring.marginals.gaussian import block as blocks
from synthstats_lightning.scoring.marginals.gaussian.arrow import ArrowFactor, find_arrow
from synthstats_lightning.scoring.marginals.gaussian.block import integrate_gaussian
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.pattern import pattern_equations
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.gaussian.solution import normal_equations
from tests.scoring.marginals.test_density import Builder

PARTICLES = 5
SIZES = {
    "alone": ([1] * 20, 0),
    "intercepts": ([1] * 20, 2),
    "slopes": ([2] * 12, 3),
    "uneven": ([3, 1, 2, 4, 1, 3, 2, 2, 1, 4], 2),
}
"""Elements of each group, and of the core."""


def rows_of(sizes: list[int], core: int, seed: int) -> tuple[list[Rows], int]:
    """Rows that tie elements of one group with each other and the core, in shuffled columns."""
    rng = np.random.default_rng(seed)
    size = sum(sizes) + core
    order = rng.permutation(size)
    starts = np.cumsum([0, *sizes])
    columns = []
    for first, length in zip(starts, sizes, strict=False):
        group = order[first : first + length]
        for _ in range(3):
            # an entry twice, and one of no column
            own = [*group, *order[sum(sizes) :], group[0], size]
            columns.append([*own, *[size] * (max(sizes) + core + 2 - len(own))])
    read = torch.tensor(columns)
    coefficients = torch.from_numpy(rng.normal(size=(PARTICLES, *read.shape)))
    coefficients = torch.where(read == size, 0.0, coefficients)
    origin = torch.from_numpy(rng.normal(size=(1, len(read))))
    scale = torch.from_numpy(rng.uniform(0.5, 2.0, size=(PARTICLES, len(read))))
    allowed, nothing = torch.ones(1, dtype=torch.bool), torch.zeros(1, dtype=torch.float64)
    own = Affine(
        torch.arange(size)[:, None],
        torch.ones(1, size, 1, dtype=torch.float64),
        origin[:, :1].expand(1, size),
    )
    prior = Rows(own, torch.full((1, 1), 0.7, dtype=torch.float64), nothing, allowed)
    return [prior, Rows(Affine(read, coefficients, origin), scale, nothing, allowed)], size


@pytest.mark.parametrize("name", SIZES)
def test_a_factor_is_that_of_the_dense_matrix(name: str) -> None:
    sizes, core = SIZES[name]
    every, size = rows_of(sizes, core, 3)
    arrow = find_arrow([rows.affine.columns for rows in every], size)
    assert arrow is not None
    assert (len(arrow.groups), len(arrow.core)) == (len(sizes), core)
    dense, gradient = normal_equations(every, size)
    entries, slopes = pattern_equations(every, arrow)
    for row in range(size):
        for column in range(size):
            place = int(arrow.place[row, column])
            held = entries[place] if place < arrow.numbers else entries.new_zeros(1)
            torch.testing.assert_close(held.expand(PARTICLES), dense[:, row, column], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slopes[:-1].T, gradient, rtol=1e-12, atol=1e-12)
    factor = ArrowFactor(arrow, entries, torch.ones(PARTICLES, dtype=torch.bool))
    assert bool(factor.exists.all())
    torch.testing.assert_close(factor.half_log_determinant, 0.5 * torch.linalg.slogdet(dense).logabsdet)
    torch.testing.assert_close(factor.solve(slopes), torch.linalg.solve(dense, gradient))
    inverse = torch.linalg.inv(dense)
    for row in range(size):
        for column in range(row + 1):
            if (place := int(arrow.place[row, column])) < arrow.numbers:
                torch.testing.assert_close(factor.covariance[place], inverse[:, row, column])
    response = every[1]
    full = torch.zeros(PARTICLES, len(response.affine.columns), size + 1, dtype=torch.float64)
    full = full.scatter_add(
        2, response.affine.columns.expand(PARTICLES, -1, -1), response.affine.coefficients
    )
    design = full[:, :, :size]
    torch.testing.assert_close(factor.variances(response), ((design @ inverse) * design).sum(-1))
    # it is linear in the noise
    spread = torch.stack(
        [factor.away(torch.eye(size, dtype=torch.float64)[i].expand(PARTICLES, -1)) for i in range(size)], 2
    )
    torch.testing.assert_close(spread @ spread.mT, inverse)


def test_precisions_that_are_none() -> None:
    every, size = rows_of(*SIZES["slopes"], 4)
    arrow = find_arrow([rows.affine.columns for rows in every], size)
    assert arrow is not None
    entries, slopes = pattern_equations(every, arrow)
    entries = entries.clone()
    entries[arrow.diagonal[int(arrow.groups[3, 1])], 0] = -1.0
    entries[arrow.diagonal[int(arrow.core[0])], 1] = 1e-3
    entries[arrow.diagonal[0], 2] = torch.nan
    usable = torch.tensor([True, True, False, True, True])
    factor = ArrowFactor(arrow, entries, usable)
    assert factor.exists.tolist() == [False, False, False, True, True]
    found = factor.solve(torch.where(factor.exists, slopes, 0.0))
    assert bool(found.isfinite().all())
    others = ArrowFactor(arrow, entries[:, 3:], usable[3:])
    torch.testing.assert_close(found[3:], others.solve(slopes[:, 3:]))
    assert bool(factor.half_log_determinant.isfinite().all())


def test_what_has_no_such_shape() -> None:
    chain = torch.stack([torch.arange(39), torch.arange(1, 40)], 1)
    assert find_arrow([chain], 40) is None
    assert find_arrow([torch.arange(40)[None]], 40) is None
    assert find_arrow([torch.arange(8)[:, None]], 8) is None


GROUPS, ROWS = 24, 72
RNG = np.random.default_rng(5)
GROUP, X = np.arange(ROWS) % GROUPS, RNG.normal(size=ROWS)
Y = RNG.normal(size=GROUPS)[GROUP] + 0.5 * X + 0.3 * RNG.normal(size=ROWS)


def slopes_and_intercepts(centred: bool):
    b = Builder()
    mu, slope = b.random("Normal", "mu", 0.0, 2.0), b.random("Normal", "slope", 0.0, 1.0)
    tau, steep = b.random("HalfNormal", "tau", 0.0, 1.0), b.random("HalfNormal", "steep", 0.0, 1.0)
    if centred:
        effect = b.random("Normal", "effect", mu, tau, shape=(GROUPS,))
        own = b.random("Normal", "own", slope, steep, shape=(GROUPS,))
    else:
        z = b.random("Normal", "z", 0.0, 1.0, shape=(GROUPS,))
        v = b.random("Normal", "v", 0.0, 1.0, shape=(GROUPS,))
        effect, own = b.op("add", mu, b.op("mul", tau, z)), b.op("add", slope, b.op("mul", steep, v))
    group = b.covariate("g")
    mean = b.op(
        "add",
        b.op("take", effect, group, axis=0),
        b.op("mul", b.covariate("x"), b.op("take", own, group, axis=0)),
    )
    b.random("Normal", "y", mean, b.random("HalfNormal", "s", 0.0, 1.0), shape=(ROWS,))
    return b.density({"x": X, "g": GROUP.astype(np.int64)}, Y)


@pytest.mark.parametrize("centred", [True, False])
def test_a_model_is_the_same_with_and_without(centred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with_arrow = integrate_gaussian(slopes_and_intercepts(centred))
    for name in ("find_arrow", "find_band"):
        monkeypatch.setattr(blocks, name, lambda columns, size: None)
    without = integrate_gaussian(slopes_and_intercepts(centred))
    assert with_arrow is not None
    assert without is not None
    assert with_arrow._pattern is not None
    assert with_arrow._pattern.groups.shape == (GROUPS, 2)
    assert len(with_arrow._pattern.core) == 2
    assert without._pattern is None
    theta = torch.randn(
        6, with_arrow.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    some = torch.ones(ROWS, dtype=torch.bool)
    some[[0, 24, 48, 5]] = False
    for given in (None, some):
        for found, dense in zip(
            with_arrow.marginals(theta, given), without.marginals(theta, given), strict=True
        ):
            # of 965 nats rounding alone was 1.1e-7 on one kind of processor
            torch.testing.assert_close(found, dense, rtol=1e-9, atol=1e-10)

    def total(target):
        return lambda points: target.log_prior_and_likelihood(points)[1].sum(1)

    for found, dense in zip(
        value_and_gradient(total(with_arrow), theta), value_and_gradient(total(without), theta), strict=True
    ):
        torch.testing.assert_close(found, dense, rtol=1e-9, atol=1e-9)


def test_many_groups_are_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense factor of as many elements would take a thousand times as long."""
    monkeypatch.setattr(arrows, "SMALLEST", 16)
    columns = torch.stack([torch.arange(900), torch.full((900,), 900)], 1)
    arrow = find_arrow([columns], 901)
    assert arrow is not None
    assert arrow.cost < 1e4
