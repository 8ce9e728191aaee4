"""Programs as people write them, from file to score; the whole set is `benchmarks/scoring_real.py`."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.sandbox import Sandbox
from tests.support.benchmark_modules import benchmark_module
from tests.support.warm import warm_sandbox

FAST = [
    "birds_n_mixture",
    "beetles_dose_response",
    "claims_gamma",
    "disasters_smooth_change",
    "dugongs_asymptotic",
    "dugongs_gompertz",
    "dugongs_gp",
    "dugongs_log_age",
    "enzyme_by_treatment",
    "exam_logistic",
    "fishing_hurdle",
    "fishing_zero_inflated",
    "geyser_labels",
    "geyser_mixture",
    "growth_logistic",
    "outliers_labelled",
    "peregrines_breeding_share",
    "peregrines_negative_binomial",
    "ratings_ordered",
    "schools_centred",
    "schools_non_centred",
    "surgical_beta_binomial",
    "surgical_logit_normal",
]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return benchmark_module("scoring_real")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return warm_sandbox()


def test_there_are_forty_in_three_forms(benchmark: ModuleType) -> None:
    sources = [path.read_text() for path in benchmark.PROGRAMS.values()]
    assert len(sources) == 40
    functions = [any(f"def {name}(" in source for name in ("model", "build")) for source in sources]
    boxing = ["def gen_model(" in source for source in sources]
    assert sum(functions) >= 8
    assert sum(boxing) >= 6
    assert 40 - sum(functions) - sum(boxing) >= 10
    for path in benchmark.PROGRAMS.values():
        benchmark.read_program(path)


@pytest.mark.parametrize("name", FAST)
def test_program_scores(name: str, benchmark: ModuleType, sandbox: Sandbox) -> None:
    score = benchmark.run(sandbox, benchmark.PROGRAMS[name]).score
    assert score.scored, score.message
    assert score.evidence_se < 0.25
    # leave-one-out predicts more easily than from the prior alone
    assert score.elpd > score.evidence - 5


def test_switch_point_has_its_closed_form(benchmark: ModuleType, sandbox: Sandbox) -> None:
    """Exponential priors are conjugate to Poisson counts, given the switch point."""
    path = benchmark.PROGRAMS["disasters_switchpoint"]
    score = benchmark.run(sandbox, path).score
    _, task = benchmark.read_program(path)
    year, count = task.covariates["year"], task.data["count"]

    def segment(y: np.ndarray) -> float:
        return float(gammaln(1 + y.sum()) - (1 + y.sum()) * np.log(1 + len(y)) - gammaln(y + 1).sum())

    switches = np.arange(year.min(), year.max() + 1)
    parts = [segment(count[year <= s]) + segment(count[year > s]) for s in switches]
    assert score.evidence == pytest.approx(logsumexp(parts) - np.log(len(switches)), abs=0.05)


def test_the_other_says_why(benchmark: ModuleType, sandbox: Sandbox) -> None:
    result = benchmark.run(sandbox, benchmark.PROGRAMS["radon_soft_constraint"])
    assert result.score.failure is FailureCategory.UNSUPPORTED
    assert "pm.Potential" in result.score.message
    assert result.explained


@pytest.mark.slow
def test_correlated_slopes_have_their_evidence_with_the_slopes_integrated_out(
    benchmark: ModuleType, sandbox: Sandbox
) -> None:
    """Given deviations, correlation and noise the response is normal; the prior's draws average the rest."""
    path = benchmark.PROGRAMS["radon_correlated_slopes"]
    score = benchmark.run(sandbox, path).score
    assert score.scored, score.message
    _, task = benchmark.read_program(path)
    y, floor = task.data["log_radon"], task.covariates["floor"].astype(float)
    county = task.covariates["county"]
    rng = np.random.default_rng(0)
    n, draws = len(y), 30_000
    first, second = rng.exponential(size=(2, draws))
    correlation = 2.0 * rng.beta(2.0, 2.0, size=draws) - 1.0
    noise = np.abs(rng.normal(size=draws))
    design = np.stack([np.ones(n), floor], 1)
    common, same = 4.0 * design @ design.T, county[:, None] == county[None]
    either, both = floor[:, None] + floor[None], floor[:, None] * floor[None]
    log_densities = []
    for a, b, r, s in zip(first, second, correlation, noise, strict=True):
        covariance = common + same * (a * a + r * a * b * either + b * b * both) + s * s * np.eye(n)
        lower = np.linalg.cholesky(covariance)
        white = np.linalg.solve(lower, y)
        log_densities.append(-0.5 * white @ white - np.log(np.diag(lower)).sum())
    exact = logsumexp(log_densities) - np.log(draws) - 0.5 * n * np.log(2 * np.pi)
    assert score.evidence == pytest.approx(exact, abs=max(0.5, 3.0 * score.evidence_se))
