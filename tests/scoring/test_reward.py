from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score

finite = st.floats(-1e6, 1e6)
failures = st.sampled_from(list(FailureCategory)).map(lambda category: Score.failed(category, "no"))
broken = st.sampled_from([math.nan, math.inf, -math.inf, None]).map(
    lambda value: Score(evidence=value, elpd=value)
)
rewards = st.builds(
    lambda beta, weight, floor, gap, score: Reward(beta, weight, floor, floor - gap, score),
    st.floats(1e-3, 10),
    st.floats(0, 3),
    st.floats(-100, 0),
    st.floats(1e-3, 50),
    st.sampled_from(["evidence", "elpd"]),
)


@given(
    reward=rewards,
    failed=failures | broken,
    value=st.floats(-1e37, 1e37),
    baseline=finite,
    prior=st.floats(-500, 0),
)
def test_failed_programs_are_below_every_valid_one_at_equal_prior(reward, failed, value, baseline, prior):
    valid = reward.log_reward(Score(evidence=value, elpd=value), baseline, prior)
    below = reward.log_reward(failed, baseline, prior)
    assert math.isfinite(valid)
    assert math.isfinite(below)
    assert below < valid


@given(reward=rewards, values=st.lists(finite, min_size=1, max_size=8), baseline=finite)
def test_vectorised_equals_one_by_one(reward, values, baseline):
    scores = [Score(evidence=value, elpd=value + 1) for value in values] + [Score(evidence=math.nan)]
    prior = np.linspace(-5, -1, len(scores))
    together = reward.log_rewards(scores, baseline, prior)
    single = [reward.log_reward(score, baseline, each) for score, each in zip(scores, prior, strict=True)]
    assert together.tolist() == single


@pytest.mark.parametrize("value", [1e39, -1e39, 2.67e307])
def test_what_float32_cannot_hold_is_a_failure(value):
    reward = Reward(prior_weight=0.0)
    failed = reward.log_reward(Score.failed(FailureCategory.NON_FINITE, "no"), 0.0)
    assert reward.log_reward(Score(evidence=value), 0.0) == failed
    assert reward.from_values(np.array([value]), 0.0).tolist() == [failed]
    assert reward.blend(np.array([[value, 0.0, 0.0, 0.0, 0.0]]), np.zeros(1)).tolist() == [failed]
    # finite before it is tempered
    assert replace(reward, beta=1e5).log_reward(Score(evidence=1e36), 0.0) == failed


def test_formula():
    reward = Reward(beta=0.5, prior_weight=2.0, floor=-10.0, log_reward_failure=-12.0)
    assert reward.log_reward(Score(evidence=7.0, elpd=0.0), 3.0, -1.5) == pytest.approx(0.5 * 4.0 - 3.0)
    assert reward.log_reward(Score(evidence=-99.0, elpd=0.0), 3.0, -1.5) == pytest.approx(-10.0 - 3.0)
    assert reward.log_reward(Score.failed(FailureCategory.SYNTAX, ""), 3.0, -1.5) == pytest.approx(
        -12.0 - 3.0
    )
    assert Reward(score="elpd").log_reward(Score(evidence=7.0, elpd=1.0), 3.0) == pytest.approx(-2.0)


def test_prior_is_ignored_without_weight():
    assert Reward(prior_weight=0.0).log_reward(Score(evidence=1.0), 0.0, -math.inf) == 1.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beta": 0.0}, "beta"),
        ({"beta": math.nan}, "beta"),
        ({"prior_weight": -1.0}, "prior_weight"),
        ({"floor": 1.0}, "floor"),
        ({"log_reward_failure": -20.0}, "log_reward_failure"),
        ({"log_reward_failure": -math.inf}, "log_reward_failure"),
    ],
)
def test_settings_that_break_the_contract_are_errors(settings, named):
    with pytest.raises(ValueError, match=named):
        Reward(**settings)


def test_an_unknown_score_is_an_error():
    with pytest.raises((ValueError, TypeError), match="score"):
        Reward(score="bic")


def test_inputs_that_would_poison_a_reward_are_errors():
    with pytest.raises(ValueError, match="baseline"):
        Reward().log_reward(Score(evidence=1.0), math.nan)
    with pytest.raises(ValueError, match="reference_log_prob"):
        Reward(prior_weight=1.0).log_reward(Score(evidence=1.0), 0.0, math.nan)
    with pytest.raises(ValueError, match="reference_log_prob"):
        Reward(prior_weight=1.0).log_rewards([Score(evidence=1.0)], 0.0)
