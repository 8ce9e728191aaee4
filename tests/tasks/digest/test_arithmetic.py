"""Each number of a digest against SciPy, plain least squares, or data whose answer is known."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import optimize, stats

from synthstats_lightning.tasks.digest.counts import binomial_shares, poisson_means, summarise_counts
from synthstats_lightning.tasks.digest.curves import curves, gains
from synthstats_lightning.tasks.digest.groups import summarise_groups
from synthstats_lightning.tasks.digest.least_squares import Rest, design, t_values
from synthstats_lightning.tasks.digest.order import summarise_order
from synthstats_lightning.tasks.digest.residuals import family_log_likelihoods, summarise_residuals
from synthstats_lightning.tasks.digest.response import summarise_recording, summarise_response
from synthstats_lightning.tasks.digest.scan import scan_covariate


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def squares(columns, values):
    """Residual sum of squares of a regression with an intercept, on the columns as they are."""
    matrix = np.column_stack([np.ones(len(values)), *columns])
    coefficients = np.linalg.lstsq(matrix, values, rcond=None)[0]
    return float(((values - matrix @ coefficients) ** 2).sum())


def test_t_values_are_those_of_the_textbook(rng):
    x = rng.normal([10.0, -2.0, 1e4], [1.0, 0.1, 500.0], (30, 3))
    y = 2 * x[:, 0] - 4 * x[:, 1] + rng.normal(0, 1, 30)
    matrix = np.column_stack([np.ones(30), x])
    coefficients = np.linalg.solve(matrix.T @ matrix, matrix.T @ y)
    noise = ((y - matrix @ coefficients) ** 2).sum() / 26
    expected = coefficients / np.sqrt(noise * np.diag(np.linalg.inv(matrix.T @ matrix)))
    assert np.allclose(t_values(design(x), y)[1:], expected[1:], rtol=1e-6)
    alone = t_values(design(x[:, :1]), y)[1]
    line = stats.linregress(x[:, 0], y)
    assert alone == pytest.approx(line.slope / line.stderr)
    assert t_values(design(x[:4]), y[:4]) is None
    constant = np.column_stack([x[:, 0], np.full(30, 0.1)])
    assert t_values(design(constant), y)[2] == 0


def test_gains_of_forms_are_ratios_of_squares_less_their_parameters(rng):
    age, other = rng.uniform(1, 30, 40), rng.normal(0, 1, 40)
    y = 1.5 + 0.4 * np.log(age) + 0.3 * other + rng.normal(0, 0.1, 40)
    scan, _ = scan_covariate("age", age, Rest(design(other[:, None]), y))
    assert scan.best == "log"
    z = (age - age.min()) / np.ptp(age)
    columns = {
        "log": [np.log(age)],
        "linear": [age],
        "sqrt": [np.sqrt(age)],
        "reciprocal": [1 / age],
        "quadratic": [z, z**2],
        "cubic": [z, z**2, z**3],
        "exp(-4z)": [np.exp(-4 * z)],
        "exp(2z)": [np.exp(2 * z)],
    }
    for form, added in columns.items():
        ratio = squares([other], y) / squares([other, *added], y)
        gain = 20 * np.log(ratio) - 0.5 * np.log(40) * len(added)
        assert scan.gain - scan.shortfalls[form] == pytest.approx(gain, abs=1e-6), form
    cut = np.quantile(age, 0.5)
    step = 20 * np.log(squares([other], y) / squares([other, age > cut], y)) - np.log(40)
    assert scan.gain - scan.shortfalls["step"] >= step - 1e-9


AWKWARD = {
    "spread": lambda rng: rng.lognormal(0, 2, 60),
    "few values": lambda rng: rng.integers(0, 6, 60).astype(float),
    "nine values": lambda rng: rng.integers(-4, 5, 60) / 8,
    "years": lambda rng: rng.uniform(2000, 2001, 60),
    "far off": lambda rng: 1e9 + rng.normal(0, 1, 60),
    "outlier": lambda rng: np.append(rng.normal(0, 1e-6, 59), 1e3),
    "in the others": lambda rng: np.arange(60) % 7 + 1e-7 * rng.normal(0, 1, 60),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-9])
def test_all_candidates_at_once_gain_what_each_gains_by_itself(rng, name, noise):
    values, other = AWKWARD[name](rng), np.arange(60) % 7
    for y in (np.sin(values), values, rng.normal(0, 1, 60)):
        rest = Rest(design(np.column_stack([other, rng.normal(0, 1, 60)])), y + noise * rng.normal(0, 1, 60))
        tried = curves(values)
        alone = [rest.nats(each.columns, each.chosen) for each in tried.candidates]
        assert gains(tried, rest) == pytest.approx(alone, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize(
    ("shape", "form"),
    [
        (lambda x: np.sin(2 * np.pi * 3 * x), "wave"),
        (lambda x: 1.0 * (x > 0.52), "step"),
        (lambda x: np.maximum(x - 0.5, 0), "bend"),
        (lambda x: np.exp(2 * x), "exp(2z)"),
        (lambda x: (x - 0.4) ** 2, "quadratic"),
    ],
)
def test_the_curve_that_made_the_data_is_best(rng, shape, form):
    x = np.linspace(0, 1, 101)
    y = shape(x) + rng.normal(0, 0.02, 101)
    scan, columns = scan_covariate("x", x, Rest(design(np.empty((101, 0))), y))
    assert scan.best == form
    assert scan.gain > 100
    assert squares(list(columns.T), y) < 0.1 * squares([], y)
    assert "log" not in scan.shortfalls  # there is a 0


def test_two_values_have_a_line_and_one_value_nothing(rng):
    y = rng.normal(0, 1, 20)
    rest = Rest(design(np.empty((20, 0))), y)
    assert list(scan_covariate("b", np.arange(20.0) % 2, rest)[0].shortfalls) == ["linear"]
    assert scan_covariate("c", np.ones(20), rest) is None


def test_families_are_fitted_by_maximum_likelihood(rng):
    residuals = rng.standard_t(2, 60)
    laws = {"Normal": stats.norm, "Laplace": stats.laplace, "Student t3": stats.t(3), "Cauchy": stats.cauchy}
    found = family_log_likelihoods(residuals)
    for name, law in laws.items():
        best = optimize.minimize_scalar(
            lambda log_scale, law=law: -float(np.sum(law.logpdf(residuals / np.exp(log_scale)) - log_scale)),
            bounds=(-3, 3),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert found[name] == pytest.approx(-best.fun, abs=1e-5), name


def test_residuals_know_scale_shape_and_logarithms(rng):
    x = rng.uniform(1, 5, 200)
    y = np.exp(0.3 * x + rng.normal(0, 0.4, 200))
    found = summarise_residuals(y, design(x[:, None]), {"x": x})
    matrix = np.column_stack([np.ones(200), x])
    residuals = y - matrix @ np.linalg.lstsq(matrix, y, rcond=None)[0]
    assert found.deviation == pytest.approx(np.sqrt((residuals**2).sum() / 198))
    assert found.explained == pytest.approx(1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum())
    assert found.skewness == pytest.approx(stats.skew(residuals))
    assert found.kurtosis == pytest.approx(stats.kurtosis(residuals))
    assert found.scale_with["x"] == pytest.approx(stats.pearsonr(np.abs(residuals), x)[0])
    normal = stats.norm.logpdf(residuals, scale=np.sqrt((residuals**2).mean())).sum()
    left = np.sqrt(squares([x], np.log(y)) / 200)
    fitted = np.log(y) - (np.log(y) - matrix @ np.linalg.lstsq(matrix, np.log(y), rcond=None)[0])
    log_normal = stats.lognorm.logpdf(y, left, scale=np.exp(fitted)).sum()
    assert found.log_normal == pytest.approx(log_normal - normal)
    assert found.log_normal > 20
    assert summarise_residuals(y - y.mean(), design(x[:, None]), {}).log_normal is None


def test_count_regressions_maximise_their_likelihood(rng):
    x, exposure, total = rng.normal(0, 1, 80), rng.uniform(1, 4, 80), np.full(80, 12.0)
    matrix = design(x[:, None])
    counts = rng.poisson(exposure * np.exp(0.5 + 0.6 * x)).astype(float)
    means = poisson_means(counts, matrix, exposure)
    assert np.abs(matrix.T @ (counts - means)).max() < 1e-6  # the score, whose only root is the maximum
    assert np.allclose(np.linalg.lstsq(matrix, np.log(means / exposure), rcond=None)[1], 0, atol=1e-12)
    of_total = rng.binomial(12, 1 / (1 + np.exp(-x))).astype(float)
    shares = binomial_shares(of_total, total, matrix)
    assert np.abs(matrix.T @ (of_total - 12 * shares)).max() < 1e-6
    found = summarise_counts(of_total, matrix, total)
    assert found.family == "Binomial"
    assert found.dispersion == pytest.approx(
        ((of_total - 12 * shares) ** 2 / (12 * shares * (1 - shares))).sum() / 78
    )
    assert found.expected_zeros == pytest.approx(stats.binom.pmf(0, 12, shares).mean())


def test_dispersion_and_zeros_tell_negative_binomial_and_inflated_counts(rng):
    matrix = design(np.empty((4000, 0)))
    poisson = summarise_counts(rng.poisson(3, 4000).astype(float), matrix)
    assert poisson.dispersion == pytest.approx(1, abs=0.1)
    assert poisson.zeros == pytest.approx(np.exp(-3), abs=0.02)
    assert poisson.expected_zeros == pytest.approx(np.exp(-3), abs=0.01)
    wide = summarise_counts(rng.negative_binomial(2, 0.4, 4000).astype(float), matrix)
    assert wide.dispersion == pytest.approx(2.5, abs=0.3)
    assert wide.expected_zeros_dispersed == pytest.approx(stats.nbinom.pmf(0, 2, 0.4), abs=0.02)
    assert wide.zeros == pytest.approx(0.16, abs=0.02)
    inflated = summarise_counts(
        np.where(rng.random(4000) < 0.4, 0, rng.poisson(6, 4000)).astype(float), matrix
    )
    assert inflated.zeros > 2 * inflated.expected_zeros
    nothing = summarise_counts(np.zeros(20), design(np.empty((20, 0))))
    assert nothing.zeros == 1.0
    assert nothing.expected_zeros == pytest.approx(1.0, abs=1e-6)


def test_groups_are_an_analysis_of_variance(rng):
    labels = np.repeat(np.arange(6), [4, 9, 5, 7, 6, 5]).astype(float)
    y = rng.normal(0, 1, 36) + 0.8 * labels
    plain = design(np.empty((36, 0)))
    found = summarise_groups("g", labels, y, plain, None)
    parts = [y[labels == group] for group in range(6)]
    assert found.f == pytest.approx(stats.f_oneway(*parts).statistic)
    assert (found.groups, found.smallest, found.largest) == (6, 4, 9)
    means = [part.mean() for part in parts]
    assert (found.highest, found.lowest) == (float(np.argmax(means)), float(np.argmin(means)))
    within = sum(((part - part.mean()) ** 2).sum() for part in parts) / 30
    between = sum(len(part) * (part.mean() - y.mean()) ** 2 for part in parts) / 5
    typical = (36 - (np.array([4, 9, 5, 7, 6, 5]) ** 2).sum() / 36) / 5
    assert found.spread == pytest.approx(np.sqrt((between - within) / typical / within))
    assert summarise_groups("one", np.zeros(36), y, plain, None) is None
    assert summarise_groups("each", np.arange(36.0), y, plain, None) is None


def test_groups_of_thousands_with_what_is_constant_in_each(rng):
    index = np.repeat(np.arange(4000), 3)
    sex = rng.integers(0, 2, 4000)[index].astype(float)
    x, y = rng.normal(size=12_000), rng.normal(size=4000)[index] + rng.normal(size=12_000)
    started = time.process_time()
    found = summarise_groups("id", index.astype(float), y, design(np.column_stack([x, sex])), None)
    assert time.process_time() - started < 5.0  # a column for each of them took minutes
    few = index < 40
    small = summarise_groups("id", index[few] * 1.0, y[few], design(np.column_stack([x, sex])[few]), None)
    for result, kept in ((found, np.ones(12_000, bool)), (small, few)):
        # within groups only x explains anything, and sex is one of the sums of their means
        own = [v[kept] - (np.bincount(index[kept], v[kept]) / 3)[index[kept]] for v in (x, y)]
        left = own[1] - (own[0] @ own[1]) / (own[0] @ own[0]) * own[0]
        free, groups = int(kept.sum()) - kept.sum() // 3 - 1, kept.sum() // 3
        whole = np.column_stack([np.ones(kept.sum()), x[kept], sex[kept]])
        without = y[kept] - whole @ np.linalg.lstsq(whole, y[kept], rcond=None)[0]
        f = (without @ without - left @ left) / (groups - 2) / (left @ left / free)
        assert result.f == pytest.approx(f, rel=1e-8)


def test_slopes_of_groups_are_an_analysis_of_covariance(rng):
    labels, x = np.repeat(np.arange(5.0), 12), rng.normal(3, 2, 60)
    slopes = np.array([0.2, 1.0, 2.0, -0.5, 1.5])
    y = slopes[labels.astype(int)] * x + labels + rng.normal(0, 0.5, 60)
    found = summarise_groups("g", labels, y, design(x[:, None]), ("x", x))
    own = [(labels == group).astype(float) for group in range(1, 5)]
    common = squares([*own, x], y)
    separate = squares([*own, x, *(indicator * x for indicator in own)], y)
    assert found.slope_f == pytest.approx((common - separate) / 4 / (separate / 50))
    assert found.slope_of == "x"
    weighed = float(np.average(slopes))
    assert found.slope_spread == pytest.approx(slopes.std(ddof=1) / weighed, rel=0.3)
    f = (squares([x], y) - squares([x, *own], y)) / 4 / (squares([x, *own], y) / 54)
    assert found.f == pytest.approx(f)
    same = 1.5 * x + labels + rng.normal(0, 0.5, 60)
    assert summarise_groups("g", labels, same, design(x[:, None]), ("x", x)).slope_f < 4


def test_order_sees_autocorrelation_jumps_and_trends(rng):
    noise = rng.normal(0, 1, 120)
    walk = np.zeros(120)
    for row in range(1, 120):
        walk[row] = 0.8 * walk[row - 1] + noise[row]
    found = summarise_order(walk)
    centred = walk - walk.mean()
    for lag in (1, 2, 7, 12):
        expected = (centred[lag:] * centred[:-lag]).sum() / (centred**2).sum()
        assert found.autocorrelation[lag] == pytest.approx(expected)
    jumped = noise + 3.0 * (np.arange(120) >= 70)
    found = summarise_order(jumped)
    after = found.jump_after
    assert after == pytest.approx(70, abs=2)
    assert found.jump == pytest.approx(stats.ttest_ind(jumped[after:], jumped[:after]).statistic)
    assert found.trend == pytest.approx(stats.pearsonr(jumped, np.arange(120))[0])
    assert summarise_order(noise[:7]) is None
    assert summarise_order(np.zeros(20)) is None


def test_the_response_by_itself_and_how_it_was_recorded(rng):
    values = np.round(rng.gamma(2, 3, 50), 2)
    values[:4] = values.max()
    found = summarise_response(values, is_count=False)
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    assert (found.skewness, found.kurtosis) == pytest.approx((stats.skew(values), stats.kurtosis(values)))
    assert found.quantiles[2] == np.median(values)
    assert found.ratio is None
    recorded = summarise_recording(values)
    assert recorded.spacing == 0.01
    assert recorded.at_highest >= 4 / 50
    assert (recorded.lowest, recorded.highest) == (values.min(), values.max())
    counts = rng.poisson(4, 30).astype(float)
    assert summarise_response(counts, is_count=True).ratio == pytest.approx(
        counts.var(ddof=1) / counts.mean()
    )
    assert summarise_recording(counts * 100).spacing == 100
    assert summarise_recording(rng.normal(0, 1, 30)).spacing is None
    assert summarise_recording(1e5 + np.round(rng.normal(0, 1, 30), 3)).spacing == 0.001
