from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.programs import ProgramFailure
from synthstats_lightning.scoring import engine
from synthstats_lightning.scoring.honesty import check_masses, check_probability, check_size
from synthstats_lightning.scoring.marginals.normalisation import Mass
from synthstats_lightning.scoring.score import Diagnostics, Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.auditing.test_audit import graph_of
from tests.scoring.targets import HandTarget, normal_prior

X = {"x": np.zeros(2)}


def test_evidence_above_zero_is_refused_beyond_its_error():
    check_probability(Score(evidence=-3.0, evidence_se=0.0))
    check_probability(Score(evidence=1e-9, evidence_se=0.0))
    check_probability(Score(evidence=0.04, evidence_se=0.01))
    check_probability(Score.failed(engine.FailureCategory.NON_FINITE, "no score"))
    with pytest.raises(ProgramFailure, match=r"improper: log evidence 0\.06 .* is above 0"):
        check_probability(Score(evidence=0.06, evidence_se=0.01))


@pytest.mark.parametrize(
    ("law", "dtype", "rounding", "refused"),
    [
        ("Bernoulli", "int64", None, True),
        ("Normal", "float64", 0.5, True),
        ("Normal", "float64", None, False),
    ],
)
def test_engine_checks_every_response_with_probabilities(monkeypatch, law, dtype, rounding, refused):
    """An estimator gone wrong: the check runs on what it returns, not on what it should."""
    inputs = [0.5] if law == "Bernoulli" else [0.0, 1.0]
    graph = graph_of(respond={"distribution": law}, inputs=inputs, dtype=dtype)
    monkeypatch.setattr(
        engine, "score_target", lambda *a, **k: Score(evidence=2.0, evidence_se=0.01, elpd=1.0)
    )
    score = engine.score_graph(graph, X, np.array([0, 1], dtype), rounding=rounding)
    assert (str(score.failure) == "improper") == refused
    assert (score.evidence is None) == refused


def scored(priors, samplers, likelihood, rows=1):
    target = HandTarget(priors, samplers, likelihood, rows)
    return engine.score_target(target, 3, settings=EngineSettings(), deadline=Deadline(10.0))


def test_prior_with_an_excess_gives_no_evidence():
    """Two means that a tight likelihood pays for, and a third parameter whose density gives it back."""
    free, sampler = normal_prior(0.0, 1.0)

    def likelihood(theta):
        return -0.5 * (theta[:, :2] / 1e-3) ** 2 + math.log(1e3) - 0.5 * math.log(2 * math.pi)

    honest = scored([free] * 3, [sampler] * 3, likelihood, rows=2)
    assert honest.evidence == pytest.approx(-math.log(2 * math.pi), abs=0.1)
    for excess in (100.0, 4.9e6):
        with pytest.raises(ProgramFailure, match="improper"):
            scored([free, free, lambda x, e=excess: free(x) + e], [sampler] * 3, likelihood, rows=2)


@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.3])
def test_tight_priors_are_honest(width):
    prior, sampler = normal_prior(0.2, width)
    rows = torch.tensor([0.1, 0.9, -0.4], dtype=torch.float64)
    constant = -0.5 * math.log(2 * math.pi)
    score = scored([prior], [sampler], lambda theta: constant - 0.5 * (rows - theta) ** 2, rows=3)
    covariance = np.eye(3) + width**2
    apart = rows.numpy() - 0.2
    exact = 3 * constant - 0.5 * (
        np.linalg.slogdet(covariance)[1] + apart @ np.linalg.solve(covariance, apart)
    )
    assert score.evidence == pytest.approx(exact, abs=0.05)


def test_prior_a_little_above_one_is_caught_where_the_data_say_nothing():
    prior, sampler = normal_prior(0.0, 1.0)
    with pytest.raises(ProgramFailure, match="improper"):
        scored([lambda x: prior(x) + 0.7], [sampler], lambda theta: 0.0 * theta - 1.0)


def test_masses_are_added_up():
    class Claims(HandTarget):
        def __init__(self, *excess):
            self.excess, self.priors, self.num_observations = excess, (), 1

        def log_masses(self, theta, generator):
            return [Mass(f"x{n}", "Gamma", found) for n, found in enumerate(self.excess)]

    particles = engine.estimate_posterior(
        HandTarget(*zip(normal_prior(0.0, 1.0), strict=True), lambda theta: -0.5 * theta**2, 1),
        EngineSettings(),
        torch.Generator().manual_seed(0),
        Deadline(10.0),
    ).particles
    check_masses(Claims(-0.5, 0.005, -math.inf), particles, torch.Generator())
    with pytest.raises(ProgramFailure, match=r"improper: x1: .*Gamma integrates to exp\(0.015\)"):
        check_masses(Claims(0.01, 0.015, -3.0), particles, torch.Generator())


def test_numbers_that_single_precision_cannot_hold_are_no_score():
    fine = Diagnostics(0.1, 100.0, None, "importance", 0.0, (-1.0, 2.0))
    check_size(Score(evidence=-3.0, evidence_se=0.1, elpd=1e6, elpd_se=0.0, diagnostics={"elpd": fine}))
    rows = Diagnostics(0.1, 100.0, None, "importance", 0.0, (-1.0, math.inf))
    wide = Diagnostics(1e39, 100.0, None, "importance", 0.0)
    for score, message in (
        (Score(evidence=2.67e307), "evidence is 2.67e\\+307"),
        (Score(elpd=-1.1e6), "elpd is -1.1e\\+06 nats, beyond 1e\\+06"),
        (Score(evidence=0.0, elpd_se=math.inf), "elpd_se is inf"),
        (Score(heldout_lpd=math.nan), "heldout_lpd is nan"),
        (Score(elpd=0.0, diagnostics={"elpd": rows}), "elpd of a row is inf"),
        (Score(elpd=0.0, diagnostics={"elpd": wide}), "Monte-Carlo error of elpd is 1e\\+39"),
    ):
        with pytest.raises(ProgramFailure, match=f"non_finite: .*{message}"):
            check_size(score)
