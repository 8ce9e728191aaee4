"""Derivatives of the incomplete gamma functions in their argument, of a graph without their terms."""

from __future__ import annotations

import mpmath
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


def multiple_precision_tail(shape, place):
    """Log of the tail on the point's side of the mode, from its integral to 40 digits."""
    with mpmath.workdps(40):
        a, x = mpmath.mpf(shape), mpmath.mpf(shape) * mpmath.mpf(place)
        # the integral over x**a exp(-x): of (1 - t)**(a - 1) exp(x t), of (1 + t)**(a - 1) exp(-x t)
        side, end = (-1, mpmath.mpf(1)) if place < 1 else (1, mpmath.inf)
        scale = 1 / abs(x - a)
        ends = [0, *(n * scale for n in (2, 8, 20, 50, 120) if n * scale < end), end]
        rest = mpmath.quad(lambda t: mpmath.exp((a - 1) * mpmath.log1p(side * t) - side * x * t), ends)
        return float(a * mpmath.log(x) - x - mpmath.loggamma(a) + mpmath.log(rest))


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        (0.5, 1e-300),
        (2.0, 800.0),
        (30.0, 1e-12),
        (30.0, 40.0),
        (2e4, 0.7),
        (2e4, 1.3),
        (2e5, 0.9),
        (2e5, 1.1),
    ],
)
def test_tails_that_underflow_are_those_of_multiple_precision(shape, place):
    law = scipy.stats.gamma(shape)
    exact = multiple_precision_tail(shape, place)
    a, x = torch.tensor([shape], dtype=torch.float64), torch.tensor([shape * place], dtype=torch.float64)
    (found,) = log_gamma_tails(a, x)[int(place > 1)].tolist()
    # SciPy's own are none here but where a small shape's tail is a power
    assert min(law.cdf(shape * place), law.sf(shape * place)) == 0.0 or shape < 1
    assert found == pytest.approx(exact, rel=1e-13 if place < 0.5 or place > 2 else 1e-11)
