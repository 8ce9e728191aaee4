"""Responses given latents: 10^5 draws, log likelihoods and means against SciPy's distributions."""

import numpy as np
import pytest
from scipy import integrate, stats

from synthstats_lightning.tasks.simulators import SIMULATORS
from tests.tasks.simulators.laws import CASES

DRAWS = 100_000


def batch(values):
    return {key: np.asarray(value)[None] for key, value in values.items()}


def rows(values):
    return {key: np.array([value]) for key, value in values.items()}


def is_discrete(law):
    return hasattr(law, "logpmf") and not isinstance(getattr(law, "dist", None), stats.rv_continuous)


def test_every_environment_is_covered():
    assert {case.name for case in CASES} == set(SIMULATORS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_follow_the_law(case):
    simulator = SIMULATORS[case.name](case.variant, **case.settings)
    latents = {key: np.broadcast_to(value, (DRAWS, *np.shape(value))) for key, value in case.latents.items()}
    draws = simulator.simulate(latents, rows(case.covariates), np.random.default_rng(1))
    assert draws.shape == (DRAWS, 1)
    draws = draws[:, 0]
    sd = np.sqrt(case.law.var())
    assert draws.mean() == pytest.approx(case.law.mean(), abs=4.5 * sd / np.sqrt(DRAWS))
    fourth = ((draws - draws.mean()) ** 4).mean()
    allowed = 4.5 * np.sqrt(max(fourth - sd**4, 1e-12) / DRAWS)
    assert draws.var() == pytest.approx(case.law.var(), abs=allowed + 1e-12)
    if not is_discrete(case.law):
        assert stats.kstest(draws, case.law.cdf).pvalue > 1e-4
        return
    values, counts = np.unique(draws, return_counts=True)
    expected = DRAWS * np.exp(case.law.logpmf(values))
    common = expected > 10
    deviation = (counts - expected)[common] / np.sqrt(expected[common])
    chi_square = (deviation**2).sum()
    assert stats.chi2.sf(chi_square, max(common.sum() - 1, 1)) > 1e-4
    # what is rare by the law is rare among the draws
    assert counts[~common].sum() < 10 * (1 + (~common).sum())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_log_likelihood_is_that_of_the_law_and_sums_to_one(case):
    simulator = SIMULATORS[case.name](case.variant, **case.settings)
    latents, covariates = batch(case.latents), rows(case.covariates)
    centre, sd = case.law.mean(), np.sqrt(case.law.var())

    def own(values):
        repeated = {key: np.repeat(value, len(values)) for key, value in covariates.items()}
        return simulator.log_likelihood(latents, repeated, np.asarray(values))[0]

    if not is_discrete(case.law):
        near = centre + sd * np.linspace(-4, 6, 41)
        near = near[case.law.pdf(near) > 0]
        np.testing.assert_allclose(own(near), case.law.logpdf(near), rtol=1e-9, atol=1e-9)
        low, high = max(case.law.support()[0], centre - 12 * sd), centre + 12 * sd
        values = np.linspace(low, high, 4001)
        assert integrate.simpson(np.exp(own(values)), x=values) == pytest.approx(1.0, abs=1e-7)
        return
    step = simulator.rounding or 1.0
    low, high = case.law.support()
    low, high = max(low, centre - 12 * sd), min(high, centre + 12 * sd + 20 * step)
    values = step * np.arange(np.floor(low / step), np.ceil(high / step) + 1)
    likely = np.isfinite(case.law.logpmf(values)) & (np.abs(values - centre) < 5 * sd + step)
    np.testing.assert_allclose(own(values[likely]), case.law.logpmf(values[likely]), rtol=1e-7, atol=1e-8)
    assert np.exp(own(values)).sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mean_is_that_of_the_law(case):
    simulator = SIMULATORS[case.name](case.variant, **case.settings)
    mean = simulator.mean(batch(case.latents), rows(case.covariates))
    assert mean.shape == (1, 1)
    assert mean[0, 0] == pytest.approx(case.law.mean(), rel=1e-8)


@pytest.mark.parametrize("name", SIMULATORS)
@pytest.mark.parametrize("variant", ["corrected", "boxing_gym"])
def test_rows_may_differ_by_draw(name, variant):
    simulator = SIMULATORS[name](variant)
    simulator.reset(0)
    points = simulator.evaluation_points(3)
    response = points.pop(simulator.response)
    latents = simulator.sample_latents(np.random.default_rng(0), 4)
    shared = simulator.log_likelihood(latents, points, response)
    assert shared.shape == (4, len(response))
    wide = {key: np.broadcast_to(values, (4, len(values))) for key, values in points.items()}
    np.testing.assert_array_equal(simulator.log_likelihood(latents, wide, response[None]), shared)
    np.testing.assert_array_equal(simulator.mean(latents, wide), simulator.mean(latents, points))
    first, second = (simulator.simulate(latents, rows, np.random.default_rng(1)) for rows in (wide, points))
    np.testing.assert_array_equal(first, second)


def test_impossible_responses_have_no_likelihood():
    for name, row, latents, value in (
        ("dugongs_simulator", {"age": 1.0}, {"alpha": 2.0, "beta": 1.0, "rate": 0.5}, -0.1),
        ("death_process", {"time": 1.0}, {"theta": 1.0}, 51),
        ("death_process", {"time": 1.0}, {"theta": 1.0}, -1),
    ):
        simulator = SIMULATORS[name]()
        assert simulator.log_likelihood(batch(latents), rows(row), np.array([value]))[0, 0] == -np.inf
    rates = {"alpha": 0.1, "beta": 0.02, "gamma": 0.4, "delta": 0.01}
    row = rows({"time": 0.0, "species": 0})
    exact = SIMULATORS["lotka_volterra"]("boxing_gym")
    assert exact.log_likelihood(batch(rates), row, np.array([40]))[0, 0] == 0.0
    assert exact.log_likelihood(batch(rates), row, np.array([41]))[0, 0] == -np.inf
    noisy = SIMULATORS["lotka_volterra"]()
    assert noisy.log_likelihood(batch(rates), row, np.array([0.0]))[0, 0] == -np.inf


def test_log_likelihoods_keep_their_digits_in_the_tails():
    survival = SIMULATORS["survival"]()
    latents, row = batch({"baseline": 2.0, "beta": 3.0}), rows({"metastasised": 1, "years": 9.0})
    exposure = 18.0 * np.exp(3.0)
    alive = survival.log_likelihood(latents, row, np.array([0]))[0, 0]
    assert alive == pytest.approx(-exposure, rel=1e-12)
    located = SIMULATORS["location_finding"]("boxing_gym")
    sources = batch({"sources": np.zeros((3, 2))})
    far = located.log_likelihood(sources, rows({"x1": 1.0, "x2": 0.0}), np.array([40.0]))[0, 0]
    mean = 0.1 + 3 / (1e-4 + 1)
    # the nearest edge of the interval dominates: compare with the density times the width
    near = stats.norm(mean, 0.5).logpdf(40.0) + np.log(0.01)
    assert far == pytest.approx(near, rel=1e-3)
