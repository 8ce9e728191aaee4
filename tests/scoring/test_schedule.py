import math

import pytest

from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule, ramp


@pytest.mark.parametrize("shape", ["linear", "geometric", "cosine"])
def test_ramps_start_and_end_where_they_say_and_never_turn(shape):
    values = [ramp(0.1, 2.0, step, 40, shape) for step in range(-3, 50)]
    assert values[:4] == pytest.approx([0.1] * 4)
    assert values[43:] == [2.0] * 10
    assert values == sorted(values)


def test_half_way():
    assert ramp(1.0, 3.0, 5, 10) == pytest.approx(2.0)
    assert ramp(1.0, 4.0, 5, 10, "geometric") == pytest.approx(2.0)
    assert ramp(1.0, 3.0, 5, 10, "cosine") == pytest.approx(2.0)
    assert ramp(1.0, 3.0, 2, 10, "cosine") == pytest.approx(2 - math.cos(math.pi / 5))
    assert ramp(1.0, 3.0, 0, 0) == 3.0


def test_reward_at_a_step_depends_on_the_step_alone():
    reward = Reward(beta=1.0, prior_weight=0.5)
    schedule = RewardSchedule(beta=Ramp(0.2, 10), prior_weight=Ramp(1.0, 20))
    assert schedule.at(reward, 0) == Reward(beta=0.2, prior_weight=1.0)
    half = schedule.at(reward, 5)
    assert (half.beta, half.prior_weight) == pytest.approx((0.6, 0.875))
    assert schedule.at(reward, 20) == reward
    assert RewardSchedule().at(reward, 3) == reward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 3), "start must be finite"),
        ((1.0, 0), "steps must be at least 1, got 0"),
        ((0.0, 3, "geometric"), "start must be above 0 where shape is 'geometric'"),
    ],
)
def test_wrong_ramps_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ramp(*arguments)


def test_what_a_reward_cannot_be_on_its_way_is_refused():
    with pytest.raises(ValueError, match="beta must be above 0, got 0"):
        RewardSchedule(beta=Ramp(0.0, 5)).at(Reward(), 0)
    with pytest.raises(ValueError, match="prior_weight must be above 0 at the end of a geometric ramp"):
        RewardSchedule(prior_weight=Ramp(1.0, 5, "geometric")).at(Reward(prior_weight=0.0), 0)
