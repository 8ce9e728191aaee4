"""Kernels in two parts: the one that a parameter does not move, and the rest."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath as mp
import pytest
import torch
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import Bounds
from synthstats_lightning.scoring.density.terms import MOST_SPLIT, Operand, Term
from synthstats_lightning.scoring.distributions.categories import CumulativeLogit
from synthstats_lightning.scoring.distributions.counts import NegativeBinomialMean

COUNTS = (0.0, 1.0, 7.0, 300.0, 5_000.0, 0.9 * MOST_SPLIT)
SHAPES = (1e-3, 0.4, 6.0, 2e3, 1e9)
MEANS = (1e-8, 0.3, 11.0, 4e3, 1e6)


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def term(counts: Tensor) -> Term:
    bounds = Bounds(0.0, math.inf)
    operands = [Operand(None, 0, bounds), Operand(None, 1, bounds)]
    return Term(NegativeBinomialMean.distribution, operands, counts)


def exact(count: float, shape: float, mean: float) -> float:
    with mp.workdps(60):
        k, n, mu = mp.mpf(count), mp.mpf(shape), mp.mpf(mean)
        found = mp.loggamma(n + k) - mp.loggamma(n) - mp.loggamma(k + 1)
        return float(found - n * mp.log1p(mu / n) + k * (mp.log(mu) - mp.log(mu + n)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", MEANS)
def test_both_parts_together_are_the_log_density(shape: float, mean: float) -> None:
    of_rows = term(double(*COUNTS))
    assert of_rows.splits({1})
    values = [double(shape)[:, None], double(mean)[:, None]]
    found = of_rows.still([values[0], None]) + of_rows.log_prob(values, moving=True)
    wanted = [exact(count, shape, mean) for count in COUNTS]
    for count, one, other in zip(COUNTS, found[0].tolist(), wanted, strict=True):
        # what cancels is as large as the count
        assert one == pytest.approx(other, rel=1e-11, abs=1e-13 * max(count, 1.0) + 1e-12)


def test_a_mean_of_nothing_and_a_shape_that_is_none() -> None:
    of_rows = term(double(0.0, 2.0))
    values = [double(3.0)[:, None], double(0.0)[:, None]]
    assert (of_rows.still(values) + of_rows.log_prob(values, moving=True)).tolist() == [[0.0, -math.inf]]
    values = [double(-1.0)[:, None], double(2.0)[:, None]]
    assert (of_rows.still(values) + of_rows.log_prob(values, moving=True)).tolist() == [[-math.inf] * 2]


def test_what_is_not_split() -> None:
    assert not term(double(3.0, MOST_SPLIT)).splits({1})
    assert not term(double(3.0)).splits({0, 1})
    assert not term(double(3.0)).splits({0})
    assert not term(double(3.0)).splits(())


def test_ordered_rows_are_split_by_their_shift() -> None:
    free = Bounds(-math.inf, math.inf)
    operands = [Operand(None, 0, free), Operand(None, 1, free)]
    of_rows = Term(CumulativeLogit.distribution, operands, double(0.0, 1.0, 2.0, 3.0, 4.0))
    assert of_rows.splits({1})
    thresholds = torch.stack([double(-1.0, 0.5, 2.0), double(0.3, 0.1, 2.0)])[:, None]
    for shift in (-40.0, -1.3, 0.0, 2.0, 700.0):
        values = [thresholds, torch.full((2, 1, 1), shift, dtype=torch.float64)]
        found = of_rows.still([thresholds, None]) + of_rows.log_prob(values, moving=True)
        torch.testing.assert_close(found, of_rows.log_prob(values))
        # there is no fifth category, and thresholds that fall are none
        assert found[0, 4] == found[1].max() == -math.inf
        with mp.workdps(400):
            below = [
                mp.mpf(0),
                *(1 / (1 + mp.exp(mp.mpf(shift) - cut)) for cut in (-1.0, 0.5, 2.0)),
                mp.mpf(1),
            ]
            wanted = [float(mp.log(high - low)) for low, high in pairwise(below)]
        assert found[0, :4].tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-12)
