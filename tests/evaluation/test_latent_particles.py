"""Posteriors of latents against conjugate closed forms."""

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.evaluation.latent_particles import ImpossibleResponseError, LatentParticles


class Regression:
    """y ~ N(level + slope x, 0.2); the slope's prior is normal, the level's uniform on (-1, 3)."""

    def sample_latents(self, rng, size):
        return {
            "level": rng.uniform(-1, 3, size),
            "slope": rng.normal(0, 2, (size, 1)),
            "table": rng.integers(0, 2, (size, 4)),
        }

    def simulate(self, latents, covariates, rng):
        mean = latents["level"][:, None] + latents["slope"] * covariates["x"]
        return mean + 0.2 * rng.standard_normal(mean.shape)

    def log_likelihood(self, latents, covariates, response):
        mean = latents["level"][:, None] + latents["slope"] * covariates["x"]
        return stats.norm(mean, 0.2).logpdf(response)


def test_regression_one_experiment_at_a_time():
    rng = np.random.default_rng(0)
    x = np.array([0.1, 0.9, -0.5, 1.4, 0.3, -1.0])
    y = 1.2 - 0.8 * x + 0.2 * rng.standard_normal(6)
    particles = LatentParticles(Regression(), rng, particles=3000)
    for each, response in zip(x, y, strict=True):
        particles.update({"x": np.array([each])}, np.array([response]))
    # the uniform prior's ends are far away: level flat, slope N(0, 2)
    design = np.column_stack([np.ones(6), x])
    precision = design.T @ design / 0.04 + np.diag([0.0, 0.25])
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ y / 0.04
    draws = particles.draw(20_000)
    found = np.stack([draws["level"], draws["slope"][:, 0]])
    np.testing.assert_allclose(found.mean(1), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(found), covariance, rtol=0.2, atol=0.0005)
    assert "table" not in draws
    assert particles.effective_sample_size > 1000


def test_one_experiment_that_tells_everything():
    """Thirty precise rows at once: tempered steps reach a posterior a hundredth as wide as the prior."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1, 1, 30)
    y = 0.5 + 3.0 * x + 0.2 * rng.standard_normal(30)
    particles = LatentParticles(Regression(), rng, particles=2000)
    particles.update({"x": x}, y)
    draws = particles.draw(5000)
    fit = np.polyfit(x, y, 1)
    assert draws["slope"].mean() == pytest.approx(fit[0], abs=0.03)
    assert draws["level"].mean() == pytest.approx(fit[1], abs=0.02)
    assert draws["level"].std() == pytest.approx(0.2 / np.sqrt(30), rel=0.25)


class Hierarchy:
    """theta ~ N(mu, 1), mu ~ N(0, 3): dependent a priori; y ~ N(theta, 1)."""

    def sample_latents(self, rng, size):
        mu = rng.normal(0, 3, size)
        return {"mu": mu, "theta": mu + rng.standard_normal(size)}

    def simulate(self, latents, covariates, rng):
        mean = latents["theta"][:, None] + np.zeros_like(covariates["x"])
        return mean + rng.standard_normal(mean.shape)

    def log_likelihood(self, latents, covariates, response):
        return stats.norm(latents["theta"][:, None] + np.zeros_like(covariates["x"]), 1.0).logpdf(response)


def test_dependent_latents_are_reweighted():
    rng = np.random.default_rng(2)
    particles = LatentParticles(Hierarchy(), rng, independent=False)
    particles.update({"x": np.zeros(2)}, np.array([2.0, 3.0]))
    draws = particles.draw(50_000)
    # theta ~ N(0, 10) a priori, mean 2.5 of two readings
    precision = 1 / 10 + 2
    assert draws["theta"].mean() == pytest.approx(5.0 / precision, abs=0.02)
    assert draws["theta"].var() == pytest.approx(1 / precision, rel=0.05)
    assert draws["mu"].mean() == pytest.approx(0.9 * 5.0 / precision, abs=0.04)


def test_prior_before_any_experiment():
    particles = LatentParticles(Regression(), np.random.default_rng(3), particles=4000)
    draws = particles.draw(4000)
    assert stats.kstest(draws["level"], stats.uniform(-1, 4).cdf).statistic < 0.03
    assert stats.kstest(draws["slope"][:, 0], stats.norm(0, 2).cdf).statistic < 0.03


def test_impossible_responses_and_bad_arguments():
    class Impossible(Hierarchy):
        def log_likelihood(self, latents, covariates, response):
            return np.full((len(latents["mu"]), len(response)), -np.inf)

    particles = LatentParticles(Impossible(), np.random.default_rng(0), particles=10, prior_draws=10)
    with pytest.raises(ImpossibleResponseError, match="no draw of the latents deems"):
        particles.update({"x": np.zeros(1)}, np.zeros(1))
    with pytest.raises(ValueError, match="moves must be at least 2, got 1"):
        LatentParticles(Hierarchy(), np.random.default_rng(0), moves=1)
