"""Distribution functions against scipy, in both tails, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import special, stats

from synthstats_lightning.programs.distributions import DISTRIBUTIONS as TABLE
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_interval, log_survival
from synthstats_lightning.scoring.numerics.erfcx import log_normal_drop
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails, log_gamma_tails
from synthstats_lightning.scoring.numerics.special import log_ndtr, log_ndtr_term
from tests.scoring.distributions.test_distributions import PARAMETERS as USUAL_PARAMETERS
from tests.scoring.distributions.test_distributions import SCIPY
from tests.scoring.distributions.test_distributions_univariate import FROZEN, PARAMETERS, tensors

ALL: dict[str, Any] = {**SCIPY, **FROZEN}
POINTS: dict[str, list[tuple[float, ...]]] = {
    **USUAL_PARAMETERS,
    **PARAMETERS,
    "Bernoulli": [(0.3,), (0.9,)],
    "Binomial": [(30.0, 0.4), (7.0, 0.99)],
    "Poisson": [(0.5,), (30.0,), (700.0,)],
    "NegativeBinomial": [(1.0, 0.5), (0.2, 0.05), (50.0, 0.9)],
    "StudentT": [(1.0, 0.0, 1.0), (4.5, 1.0, 2.0), (80.0, 0.0, 1.0)],
    "HalfStudentT": [(3.0, 1.0), (40.0, 2.0)],
}
WITH_CDF = sorted(name for name, entry in TABLE.items() if entry.has_cdf)
CASES = [(name, parameters) for name in WITH_CDF for parameters in POINTS[name]]


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_matches_scipy(name: str, parameters: tuple[float, ...]) -> None:
    distribution, frozen = DISTRIBUTIONS[name], ALL[name](*parameters)
    values = np.asarray(frozen.ppf([1e-6, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-4]))
    if name == "HalfStudentT":
        values = np.abs(values)
    cdf, survival = frozen.cdf(values), frozen.sf(values)
    if name == "HalfStudentT":
        cdf, survival = 1.0 - 2.0 * survival, 2.0 * survival
    below = log_cdf(distribution, torch.from_numpy(values), *tensors(parameters)).exp().numpy()
    above = log_survival(distribution, torch.from_numpy(values), *tensors(parameters)).exp().numpy()
    np.testing.assert_allclose(below, cdf, rtol=2e-8, atol=1e-12)
    np.testing.assert_allclose(above, survival, rtol=2e-8, atol=1e-12)


@pytest.mark.parametrize("name", WITH_CDF)
def test_beyond_the_support(name: str) -> None:
    distribution, parameters = DISTRIBUTIONS[name], tensors(POINTS[name][0])
    ends = torch.tensor([-1e12, 1e12], dtype=torch.float64)
    assert log_cdf(distribution, ends, *parameters).exp().tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert log_survival(distribution, ends, *parameters).exp().tolist() == pytest.approx([1.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("share", [1e-300, 1e-20, 1e-14, 1e-9, 1e-5, 7e-3, 0.0115, 0.3, 0.49, 0.51, 5.0])
def test_a_half_line_keeps_its_digits_near_its_end(share: float) -> None:
    """Where one minus the rest has none: a truncated law would claim percents that it has not."""
    scale = 3.7
    with mp.workdps(60):
        z = mp.mpf(share * scale) / mp.mpf(scale)
        angle = mp.atan(z / mp.sqrt(3))
        expected = {
            "HalfNormal": mp.erf(z / mp.sqrt(2)),
            "HalfStudentT": 2 / mp.pi * (angle + mp.sin(angle) * mp.cos(angle)),
            "HalfCauchy": 2 / mp.pi * mp.atan(z),
        }
    for name, parameters in (
        ("HalfNormal", (0.0, scale)),
        ("HalfStudentT", (3.0, scale)),
        ("HalfCauchy", (scale,)),
    ):
        value = torch.tensor(share * scale, dtype=torch.float64, requires_grad=True)
        distribution, given = DISTRIBUTIONS[name], tensors(parameters)
        got = log_cdf(distribution, value, *given)
        assert float(got.detach()) == pytest.approx(float(mp.log(expected[name])), rel=1e-12, abs=1e-14), name
        (slope,) = torch.autograd.grad(got, value)
        density = distribution.log_prob(value.detach(), *given)
        assert float(slope.log()) == pytest.approx(float(density - got.detach()), abs=1e-9), name


@pytest.mark.parametrize("name", WITH_CDF)
def test_gradients(name: str) -> None:
    distribution, point = DISTRIBUTIONS[name], POINTS[name][0]
    whole = {"Binomial": {0}, "HalfNormal": {0}, "DiscreteUniform": {0, 1}}.get(name, set())
    parameters = [p.requires_grad_(i not in whole) for i, p in enumerate(tensors(point))]
    if not any(p.requires_grad for p in parameters):
        return
    frozen = ALL[name](*point)
    values = np.unique(np.asarray(frozen.ppf([0.3, 0.7]), dtype=float))
    if distribution.discrete:
        values = values[frozen.sf(values) > 0]
    values = np.abs(values) if name == "HalfStudentT" else values
    value = torch.from_numpy(values).requires_grad_(not distribution.discrete)
    for function in (log_cdf, log_survival):
        assert torch.autograd.gradcheck(
            lambda v, *p, f=function: f(distribution, v, *p), [value, *parameters]
        )


def test_intervals_keep_their_digits_far_in_either_tail() -> None:
    normal, standard = DISTRIBUTIONS["Normal"], tensors((0.0, 1.0))
    for low, high in ((-40.0, -39.0), (39.0, 40.0), (-1e-9, 1e-9), (-2.0, 3.0)):
        got = float(log_interval(normal, *tensors((low, high)), *standard))
        near = min(abs(low), abs(high))
        if near > 30:  # Mills' ratio of the near end, the far end is nothing beside it
            expected = float(special.log_ndtr(-near))
        else:
            expected = math.log(stats.norm.cdf(high) - stats.norm.cdf(low))
        assert got == pytest.approx(expected, rel=1e-7)
    assert float(log_interval(normal, *tensors((2.0, 1.0)), *standard)) == -math.inf
    assert float(log_interval(normal, None, None, *standard)) == 0.0


@pytest.mark.parametrize("scale", [1.4e3, 1.4e5, 1.4e7, 1.4e9])
def test_an_interval_with_a_kink_within(scale: float) -> None:
    """A Laplace law far wider than the interval that its mode lies in."""
    low, mode, high = -3.932, 0.145, 10.02
    got = float(log_interval(DISTRIBUTIONS["Laplace"], *tensors((low, high)), *tensors((mode, scale))))
    expected = math.log(-0.5 * (math.expm1((low - mode) / scale) + math.expm1((mode - high) / scale)))
    assert got == pytest.approx(expected, abs=3e-8)


@pytest.mark.parametrize(
    ("low", "high", "nu"), [(-2.4e14, 952.0, 1.05e-6), (-3.0, 1e20, 2e-6), (7.0, 7.0 + 1e-9, 2.0)]
)
def test_intervals_that_hold_a_small_share(low: float, high: float, nu: float) -> None:
    """Whether they are narrow, or decades of a tail that falls like one over the distance."""
    student, scale = DISTRIBUTIONS["StudentT"], 4.8e-11 if nu < 1 else 1.0
    got = float(log_interval(student, *tensors((low, high)), *tensors((nu, 4.6e9 if nu < 1 else 0.0, scale))))

    def below(value: float) -> mp.mpf:
        square = ((mp.mpf(value) - (4.6e9 if nu < 1 else 0)) / mp.mpf(scale)) ** 2
        half = mp.betainc(mp.mpf(nu) / 2, 0.5, 0, nu / (nu + square), regularized=True) / 2
        return half if value < (4.6e9 if nu < 1 else 0) else 1 - half

    with mp.workdps(50):
        expected = float(mp.log(below(high) - below(low)))
    assert got == pytest.approx(expected, rel=1e-9)


ITERATIVE = {
    "StudentT": (-1.0, [(0.4, 0.0, 1.0), (4.5, 1.0, 2.0), (1e4, 0.0, 0.3)]),
    "HalfStudentT": (0.0, [(3.0, 1.0), (40.0, 0.2)]),
    "Gamma": (0.0, [(0.3, 1.0), (5.0, 4.0), (200.0, 100.0)]),
    "InverseGamma": (0.0, [(0.5, 1.0), (30.0, 20.0)]),
    "Beta": (0.0, [(0.4, 0.6), (30.0, 50.0)]),
}


@pytest.mark.parametrize("name", sorted(ITERATIVE))
def test_intervals_by_the_density_where_the_distribution_function_is_dear(name: str) -> None:
    """From a thousandth of the scale to all of the support, in the middle, in tails and over its ends."""
    distribution = DISTRIBUTIONS[name]
    assert distribution.iterative_cdf
    start, points = ITERATIVE[name]
    ends = [
        (start + left, start + left + width) for left in (0.0, 0.1, 0.7, 2.5) for width in (1e-3, 0.2, 3.0)
    ]
    low, high = (torch.tensor(end, dtype=torch.float64) for end in zip(*ends, strict=True))
    columns = [torch.tensor(column, dtype=torch.float64)[:, None] for column in zip(*points, strict=True)]
    got = log_interval(distribution, low, high, *columns)
    assert got.shape == (len(points), len(ends))
    for row, point in enumerate(points):
        frozen = ALL[name](*point)
        below, above = frozen.cdf, frozen.sf
        if name == "HalfStudentT":
            below, above = (lambda x, f=frozen: 2 * f.cdf(x) - 1), (lambda x, f=frozen: 2 * f.sf(x))
        masses = np.maximum(
            below(high.numpy()) - below(low.numpy()), above(low.numpy()) - above(high.numpy())
        )
        np.testing.assert_allclose(got[row].exp().numpy(), masses, rtol=1e-7, atol=1e-13)


def test_gradients_of_intervals_where_some_are_narrow_and_some_wide() -> None:
    student = DISTRIBUTIONS["StudentT"]
    low = torch.tensor([-0.3, -0.01, 2.0], dtype=torch.float64)
    high = low + torch.tensor([0.02, 9.0, 0.5], dtype=torch.float64)
    leaves = [p[:, None].requires_grad_(True) for p in tensors(((3.0, 30.0), (0.1, 0.4), (1.0, 0.2)))]
    assert torch.autograd.gradcheck(lambda *p: log_interval(student, low, high, *p), leaves)


def test_incomplete_gamma_in_every_argument() -> None:
    a = torch.tensor([0.05, 0.7, 3.0, 40.0, 900.0], dtype=torch.float64)[:, None]
    x = a * torch.tensor([1e-3, 0.5, 1.0, 1.5, 4.0], dtype=torch.float64)
    lower, upper = log_gamma_tails(a, x)
    np.testing.assert_allclose(
        lower.exp().numpy(), special.gammainc(a.numpy(), x.numpy()), rtol=1e-10, atol=1e-300
    )
    np.testing.assert_allclose(
        upper.exp().numpy(), special.gammaincc(a.numpy(), x.numpy()), rtol=1e-9, atol=1e-250
    )
    # the derivative of log Q in its shape by mpmath with 40 digits, where libraries have four
    for point, slope in (((2.2, 0.12), 0.011252293188346717), ((2.2, 5.0), 1.2657893746343014)):
        leaf, argument = tensors(point)
        (gradient,) = torch.autograd.grad(log_gamma_tails(leaf.requires_grad_(True), argument)[1], leaf)
        assert float(gradient) == pytest.approx(slope, rel=1e-12)
    shape = torch.tensor([0.4, 2.5, 12.0], dtype=torch.float64, requires_grad=True)
    where = torch.tensor([0.6, 2.0, 15.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_gamma_tails, (shape, where))


def test_incomplete_gamma_with_and_without_gradients() -> None:
    """With gradients by our own series, without by SciPy, by ours too where a tail is no number."""
    a = torch.tensor([0.05, 2.5, 23.0, 300.0, 2e4], dtype=torch.float64)[:, None]
    x = a * torch.tensor([1e-3, 0.2, 0.9, 1.1, 4.0, 60.0], dtype=torch.float64)
    plain = log_gamma_tails(a, x)
    assert float(torch.stack(plain).min()) < -700.0
    for ours, theirs in zip(log_gamma_tails(a.clone().requires_grad_(True), x), plain, strict=True):
        torch.testing.assert_close(theirs, ours.detach(), rtol=1e-12, atol=1e-12)
    # an element is what it is alone, also beside one that is not a number
    every = torch.cat([x.flatten(), torch.tensor([torch.nan])])
    shapes = torch.cat([a.expand_as(x).flatten(), torch.ones(1)])
    lower = log_gamma_tails(shapes, every)[0]
    assert bool(lower[-1].isnan())
    assert torch.equal(lower[:-1], plain[0].flatten())


def test_incomplete_beta_in_every_argument() -> None:
    a = torch.tensor([0.3, 2.0, 50.0, 600.0], dtype=torch.float64)[:, None, None]
    b = torch.tensor([0.5, 4.0, 300.0], dtype=torch.float64)[:, None]
    x = torch.tensor([1e-4, 0.1, 0.5, 0.99], dtype=torch.float64)
    lower, upper = log_beta_tails(a, b, x, 1.0 - x)
    np.testing.assert_allclose(
        lower.exp().numpy(), special.betainc(a.numpy(), b.numpy(), x.numpy()), rtol=1e-8, atol=1e-200
    )
    np.testing.assert_allclose(
        upper.exp().numpy(), special.betaincc(a.numpy(), b.numpy(), x.numpy()), rtol=1e-8, atol=1e-200
    )
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.4, 9.0], [3.0, 2.0])]
    where = torch.tensor([0.3, 0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, q, v: log_beta_tails(p, q, v, 1.0 - v), (*leaves, where))


@pytest.mark.parametrize(("function", "digits"), [(log_ndtr, 0.0), (log_ndtr_term, 1e-15)])
@pytest.mark.parametrize("lowest", [-1e12, -29.0])
def test_log_ndtr_is_exact_in_the_far_tail_with_its_gradient(
    function: Callable[[torch.Tensor], torch.Tensor], digits: float, lowest: float
) -> None:
    x = torch.tensor(
        [-1e12, -1e6, -200.0, -50.1, -49.9, -30.1, -29.9, -12.0, -1.0, 0.0, 2.0, 9.0], dtype=torch.float64
    ).clamp_min(lowest)
    x.requires_grad_()
    value = function(x)
    np.testing.assert_allclose(value.detach(), special.log_ndtr(x.detach().numpy()), rtol=1e-13, atol=digits)
    (slope,) = torch.autograd.grad(value.sum(), x)
    z = x.detach().numpy()
    # the inverse Mills ratio, from the scaled complementary error function
    expected = math.sqrt(2 / math.pi) / special.erfcx(-z / math.sqrt(2))
    np.testing.assert_allclose(slope, expected, rtol=1e-9)


def triangular_tail(x: mp.mpf, lower: mp.mpf, c: mp.mpf, upper: mp.mpf) -> mp.mpf:
    if x >= c:
        return (upper - x) ** 2 / ((upper - lower) * (upper - c))
    return 1 - (x - lower) ** 2 / ((upper - lower) * (c - lower))


def wald_tail(x: mp.mpf, mu: mp.mpf, lam: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    ratio, root = (x - alpha) / mu, mp.sqrt(lam / (x - alpha) / 2)
    return (mp.erfc((ratio - 1) * root) - mp.exp(2 * lam / mu) * mp.erfc((ratio + 1) * root)) / 2


def ex_gaussian_below(x: mp.mpf, mu: mp.mpf, sigma: mp.mpf, nu: mp.mpf) -> mp.mpf:
    z, ratio = (x - mu) / sigma, sigma / nu
    tilted = mp.exp(ratio * ratio / 2 - z * ratio) * mp.erfc((ratio - z) / mp.sqrt(2))
    return (mp.erfc(-z / mp.sqrt(2)) - tilted) / 2


@pytest.mark.parametrize(
    ("name", "exact", "point"),
    [
        # where the tail is a small share of numbers that are nearly equal; off by up to 1.2 nats otherwise
        ("Triangular", triangular_tail, (-121.35903818416864, -1.887874656271761e18, 104.979, 335.0742)),
        ("Triangular", triangular_tail, (1.5, -1e15, 1.7, 2.0)),
        ("Triangular", triangular_tail, (1e-9, 0.0, 2.0, 2.0)),
        ("Triangular", triangular_tail, (4.999, 0.0, 2.0, 5.0)),
        ("Wald", wald_tail, (317.65499698745697, 0.548, 1.368e-28, 8.16e-5)),
        ("Wald", wald_tail, (148958131365623.62, 9253372.4, 4712.38, 2729340.0)),
        ("Wald", wald_tail, (1e9, 2.0, 1e-3, 0.0)),
        ("Wald", wald_tail, (1.0, 1e8, 1e-6, 0.0)),
        ("Wald", wald_tail, (1.9, 2.0, 300.0, 0.0)),
        ("ExGaussian", ex_gaussian_below, (-44.24, 0.5439, 0.7663, 6.197e9)),
        ("ExGaussian", ex_gaussian_below, (0.0, 0.0, 1.0, 1e10)),
        ("ExGaussian", ex_gaussian_below, (4.9, 0.0, 1.0, 1e10)),
        ("ExGaussian", ex_gaussian_below, (5.1, 0.0, 1.0, 1e10)),
        ("ExGaussian", ex_gaussian_below, (-30.0, 0.0, 1.0, 15.0)),
    ],
)
def test_small_differences_of_nearly_equal_tails(name: str, exact: Any, point: tuple[float, ...]) -> None:
    function = log_cdf if exact is ex_gaussian_below else log_survival
    found = function(DISTRIBUTIONS[name], *(torch.tensor(each, dtype=torch.float64) for each in point))
    with mp.workdps(120):
        expected = float(mp.log(exact(*map(mp.mpf, point))))
    assert float(found) == pytest.approx(expected, rel=1e-13, abs=1e-12)


def test_the_drop_of_a_tail_in_both_regimes_with_its_gradient() -> None:
    z = torch.tensor([-5.0, -1.0, 0.0, 3.0, 30.0, 40.0, 1e6], dtype=torch.float64)
    step = torch.tensor([1e-12, 1e-3, 0.2, 0.3, 2.0, 9.0, 50.0], dtype=torch.float64)[:, None]
    found = log_normal_drop(z, step)
    with mp.workdps(80):
        for row, given in zip(found.tolist(), step[:, 0].tolist(), strict=True):
            for value, at in zip(row, z.tolist(), strict=True):
                a, s = mp.mpf(at), mp.mpf(given)
                tilted = mp.exp(a * s + s * s / 2) * mp.erfc((a + s) / mp.sqrt(2))
                expected = float(mp.log((mp.erfc(a / mp.sqrt(2)) - tilted) / 2))
                assert value == pytest.approx(expected, rel=1e-13, abs=1e-12), (at, given)
    leaves = [z[:5].clone().requires_grad_(), step[1:].clone().requires_grad_()]
    assert torch.autograd.gradcheck(log_normal_drop, leaves)


def test_intervals_of_a_normal_by_its_density() -> None:
    """Narrow and wide, in the middle and far out: where the density is taken for the tails, and where not."""
    normal, deviation = DISTRIBUTIONS["Normal"], 0.7
    ends = [
        (z, width) for z in (-30.0, -4.1, -0.4, 0.0, 1.3, 9.0) for width in (1e-9, 1e-3, 0.3, 0.99, 1.01, 3.0)
    ]
    low = torch.tensor([deviation * z for z, _ in ends], dtype=torch.float64)
    high = torch.tensor([deviation * (z + width) for z, width in ends], dtype=torch.float64)
    found = log_interval(normal, low, high, *tensors((0.0, deviation)))
    with mp.workdps(400):
        for got, lower, upper in zip(found.tolist(), low.tolist(), high.tolist(), strict=True):
            by, to = (mp.mpf(x) / mp.mpf(deviation) / mp.sqrt(2) for x in (lower, upper))
            assert got == pytest.approx(float(mp.log((mp.erf(to) - mp.erf(by)) / 2)), rel=1e-9)
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.2, 0.9)]
    some = torch.tensor([-9.0, -1.0, 0.1, 0.2], dtype=torch.float64)
    more = some + torch.tensor([0.8, 0.3, 4.0, 0.01], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *p: log_interval(normal, some, more, *p), leaves)
