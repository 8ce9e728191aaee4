"""Derivatives of the incomplete gamma functions in their argument, of a graph without their terms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from synthstats_lightning.scoring.numerics.incomplete import log_gamma_tails

SHAPES = [0.02, 0.7, 1.0, 3.5, 60.0, 900.0]
PLACES = [0.05, 0.4, 0.97, 1.0, 1.06, 1.8, 6.0]
"""Over the shape, on both sides of where the series ends and the continued fraction begins."""


def places():
    shape, place = np.meshgrid(SHAPES, PLACES)
    return torch.from_numpy(shape.ravel()), torch.from_numpy((shape * place).ravel())


def derivatives(value, x, orders=2):
    found = []
    for _ in range(orders):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        found.append(value.detach())
    return found


@pytest.mark.parametrize("side", [0, 1])
def test_the_slope_of_a_tail_is_the_density_over_it(side):
    shape, x = places()
    law = scipy.stats.gamma(shape.numpy())
    tail = law.logcdf(x.numpy()) if side == 0 else law.logsf(x.numpy())
    # SciPy's tails end where they leave double precision
    known = np.isfinite(tail)
    assert known.sum() > 35
    shape, x, tail = shape[known], x[known].requires_grad_(), tail[known]
    point, law = x.detach().numpy(), scipy.stats.gamma(shape.numpy())
    value = log_gamma_tails(shape, x)[side]
    assert value.detach().numpy() == pytest.approx(tail, rel=1e-9, abs=1e-12)
    slope = np.exp(law.logpdf(point) - tail) * (1 if side == 0 else -1)
    # (log F)'' = F''/F - (F'/F)^2, and the density's own slope is ((a - 1) / x - 1) times itself
    bend = slope * ((shape.numpy() - 1) / point - 1) - slope**2
    first, second = derivatives(value, x)
    assert first.numpy() == pytest.approx(slope, rel=1e-8)
    assert second.numpy() == pytest.approx(bend, rel=1e-6, abs=1e-8)


def test_derivatives_are_those_of_every_term_where_the_shape_has_one_too():
    shape, x = places()
    x.requires_grad_()
    for side in (0, 1):
        own = derivatives(log_gamma_tails(shape, x)[side], x, 3)
        terms = derivatives(log_gamma_tails(shape.clone().requires_grad_(), x)[side], x, 3)
        for one, other, error in zip(own, terms, (1e-11, 1e-8, 1e-5), strict=True):
            torch.testing.assert_close(one, other, rtol=error, atol=error)


def test_no_term_is_kept_for_derivatives_in_the_argument():
    shape, x = places()
    x.requires_grad_()

    def number_kept(of):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda item: kept.append(1) or item, lambda item: item):
            derivatives(log_gamma_tails(of, x)[1], x)
        return len(kept)

    assert number_kept(shape) < 100 < number_kept(shape.clone().requires_grad_()) / 10
