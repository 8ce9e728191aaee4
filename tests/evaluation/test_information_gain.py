"""Expected information gain against closed forms."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from synthstats_lightning.evaluation.information_gain import (
    InformationGain,
    expected_information_gain,
    nested_estimate,
    regret,
)

DESIGNS = [{"x": np.array([value])} for value in (0.0, 0.5, 1.0, 2.0)]


class Line:
    """y ~ N(slope * x, 0.5), slope ~ N(0, 0.8): information gain 0.5 log(1 + x^2 0.64 / 0.25)."""

    def simulate(self, latents, covariates, rng):
        mean = latents["slope"][:, None] * covariates["x"]
        return mean + 0.5 * rng.standard_normal(mean.shape)

    def log_likelihood(self, latents, covariates, response):
        return stats.norm(latents["slope"][:, None] * covariates["x"], 0.5).logpdf(response)


class Trials:
    """Successes of `trials` attempts, of a probability that is uniform."""

    def simulate(self, latents, covariates, rng):
        return rng.binomial(covariates["trials"], latents["p"][:, None])

    def log_likelihood(self, latents, covariates, response):
        return stats.binom(covariates["trials"], latents["p"][:, None]).logpmf(response)


def binomial_gain(trials):
    """Marginal entropy of a beta-binomial response less its mean conditional entropy, by enumeration."""
    k = np.arange(trials + 1)
    choose = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    marginal = np.exp(choose + betaln(1 + k, 1 + trials - k) - betaln(1, 1))
    grid = (np.arange(20_000) + 0.5) / 20_000
    pmf = stats.binom(trials, grid[:, None]).pmf(k)
    conditional = -(pmf * np.log(np.maximum(pmf, 1e-300))).sum(1).mean()
    return -(marginal * np.log(marginal)).sum() - conditional


def slopes(size, seed=0):
    return {"slope": np.random.default_rng(seed).normal(0, 0.8, size)}


def test_linear_gaussian():
    outer, inner = 1000, 100
    rng = np.random.default_rng(1)
    found = expected_information_gain(
        Line(), slopes(outer * (1 + inner)), DESIGNS, rng, outer=outer, inner=inner
    )
    exact = 0.5 * np.log1p(np.array([0.0, 0.5, 1.0, 2.0]) ** 2 * 0.64 / 0.25)
    assert found.value[0] == pytest.approx(0, abs=1e-12)
    assert (np.abs(found.value - found.bias - exact) < 4 * found.standard_error + 0.005).all()
    assert (found.lower <= found.value + 1e-12).all()
    assert (np.abs(found.lower - exact) < 4 * found.standard_error + 0.03).all()


@pytest.mark.parametrize("trials", [1, 10])
def test_beta_binomial(trials):
    outer, inner = 2000, 100
    rng = np.random.default_rng(2)
    posterior = {"p": rng.uniform(size=outer * (1 + inner))}
    design = [{"trials": np.array([trials])}]
    found = expected_information_gain(Trials(), posterior, design, rng, outer=outer, inner=inner)
    gap = found.value[0] - found.bias[0] - binomial_gain(trials)
    assert abs(gap) < 4 * found.standard_error[0] + 0.005


def test_rows_of_a_design_belong_together():
    """Three readings of one slope tell as much as one of a third of the variance."""
    rng = np.random.default_rng(3)
    designs = [{"x": np.array([1.0, 1.0, 1.0])}, {"x": np.array([0.0])}, {"x": np.array([np.sqrt(3.0)])}]
    found = expected_information_gain(Line(), slopes(1000 * 61), designs, rng, outer=1000, inner=60)
    exact = 0.5 * np.log1p(3 * 0.64 / 0.25)
    for index in (0, 2):
        assert abs(found.value[index] - found.bias[index] - exact) < 4 * found.standard_error[index] + 0.01
    assert found.value[1] == pytest.approx(0, abs=1e-12)


def test_bias_and_its_estimate():
    """Averaged over repetitions, few inner samples give too much, by about as much as is said."""
    exact = 0.5 * np.log1p(0.64 / 0.25)
    values, biases, lowers = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(100 + seed)
        found = expected_information_gain(Line(), slopes(4400, seed), DESIGNS[2:3], rng, outer=400, inner=10)
        values.append(found.value[0])
        biases.append(found.bias[0])
        lowers.append(found.lower[0])
    error, noise = np.mean(values) - exact, np.std(values) / np.sqrt(60)
    assert error > 3 * noise
    assert np.mean(biases) == pytest.approx(error, rel=0.5)
    assert np.mean(lowers) < exact
    repeated = np.std(values, ddof=1)
    assert found.standard_error[0] == pytest.approx(repeated, rel=0.35)


def test_standard_error_shrinks_with_outer_samples():
    rng = np.random.default_rng(4)
    few, many = (
        expected_information_gain(Line(), slopes(n * 11), DESIGNS[2:3], rng, outer=n, inner=10)
        for n in (200, 3200)
    )
    assert many.standard_error[0] == pytest.approx(few.standard_error[0] / 4, rel=0.35)


def test_estimate_by_hand():
    rng = np.random.default_rng(5)
    own, others = rng.normal(size=(7, 2)), rng.normal(-2, 1, (7, 4, 2))
    found = nested_estimate(own, others)
    terms = own - (logsumexp(others, axis=1) - np.log(4))
    np.testing.assert_allclose(found.value, terms.mean(0))
    np.testing.assert_allclose(found.standard_error, stats.sem(terms))
    both = np.concatenate([others, own[:, None]], axis=1)
    np.testing.assert_allclose(found.lower, (own - logsumexp(both, axis=1) + np.log(5)).mean(0))


def test_responses_that_no_inner_draw_explains():
    own, others = np.zeros((3, 1)), np.full((3, 5, 1), -np.inf)
    found = nested_estimate(own, others)
    assert found.value[0] == pytest.approx(np.log(6))
    assert np.isfinite(found.bias).all()


def test_regret():
    zeros = np.zeros(3)
    gain = InformationGain(np.array([0.2, 0.9, 0.4]), zeros, zeros, zeros)
    assert regret(gain, 2) == pytest.approx(0.5)
    assert regret(gain, 1) == 0


def test_bad_arguments():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="designs must hold at least one"):
        expected_information_gain(Line(), slopes(100), [], rng)
    with pytest.raises(ValueError, match=r"outer \* \(1 \+ inner\) = 11000 draws, got 100"):
        expected_information_gain(Line(), slopes(100), DESIGNS, rng)
    with pytest.raises(ValueError, match="at least 2 outer and 2 inner"):
        nested_estimate(np.zeros((1, 1)), np.zeros((1, 5, 1)))
