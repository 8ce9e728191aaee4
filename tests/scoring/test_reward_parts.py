"""A log reward from its parts: by hand, and the same whether blended at once or later."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.reward import PARTS, Reward
from synthstats_lightning.scoring.score import Score

weights = st.floats(0, 5)
rewards = st.builds(
    lambda beta, prior, form, length, parameters: Reward(
        beta, prior, format_weight=form, length_weight=length, parameter_weight=parameters
    ),
    st.floats(1e-3, 10),
    weights,
    weights,
    weights,
    weights,
)
valid = st.builds(
    lambda value, size: Score(evidence=value, num_parameters=size), st.floats(-1e3, 1e3), st.integers(0, 9)
)
failures = st.sampled_from(list(FailureCategory)).map(lambda category: Score.failed(category, "no"))


def test_parts_by_hand():
    reward = Reward()
    assert reward.parts(Score(evidence=7.0, num_parameters=3), 4.0, 60) == (3.0, 0.0, -60.0, -3.0, 0.0)
    found = [reward.parts(Score.failed(category, ""), 4.0, 60)[1] for category in FailureCategory]
    by_name = dict(zip(FailureCategory, found, strict=True))
    assert by_name["truncated"] == -1.0
    assert by_name["syntax"] == pytest.approx(-0.8)
    assert by_name["raised"] == by_name["timeout"] == by_name["killed"] == pytest.approx(-0.6)
    assert by_name["bad_graph"] == by_name["unsupported"] == pytest.approx(-0.4)
    assert by_name["scorer_limit"] == by_name["non_finite"] == by_name["improper"] == pytest.approx(-0.2)
    assert reward.parts(Score.failed(FailureCategory.SYNTAX, ""), 4.0, 60)[0] == -math.inf


def test_blend_by_hand():
    reward = Reward(beta=0.5, prior_weight=2.0, format_weight=3.0, length_weight=0.01, parameter_weight=0.25)
    with pytest.raises(ValueError, match=r"parts must be score, .* looking and terms, got 4 numbers each"):
        Reward().blend(np.zeros((1, 4)), np.zeros(1))
    score = Score(evidence=7.0, num_parameters=4)
    expected = 0.5 * 3.0 - 0.01 * 50 - 0.25 * 4 + 2.0 * -1.5
    assert reward.log_reward(score, 4.0, -1.5, 50) == pytest.approx(expected)
    assert reward.log_reward(score, 4.0, -1.5, 50_000) == pytest.approx(-20.0 - 3.0), "never below the floor"
    failed = Score.failed(FailureCategory.SYNTAX, "")
    assert reward.log_reward(failed, 4.0, -1.5, 50) == pytest.approx(-25.0 - 3.0 * 0.8 - 3.0)


@given(reward=rewards, good=valid, bad=failures, tokens=st.integers(0, 400), other=st.integers(0, 400))
def test_failed_programs_are_below_every_valid_one_whatever_the_weights(reward, good, bad, tokens, other):
    assert reward.log_reward(bad, 0.0, -3.0, other) < reward.log_reward(good, 0.0, -3.0, tokens)


@given(
    stored=rewards,
    later=rewards,
    scores=st.lists(valid | failures, min_size=1, max_size=8),
    baseline=st.floats(-50, 50),
)
def test_parts_that_were_stored_blend_to_the_later_reward(stored, later, scores, baseline):
    reference, tokens = np.linspace(-9, -1, len(scores)), list(range(20, 20 + len(scores)))
    parts = np.array([stored.parts(score, baseline, n) for score, n in zip(scores, tokens, strict=True)])
    assert parts.shape == (len(scores), len(PARTS))
    blended = later.blend(parts, reference)
    assert blended.tolist() == later.log_rewards(scores, baseline, reference, tokens).tolist()


@pytest.mark.parametrize("name", ["format_weight", "length_weight", "parameter_weight"])
def test_wrong_weights_are_named(name):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got -1.0"):
        Reward(**{name: -1.0})
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        Reward(**{name: math.nan})
