"""What contradicts the reward, or the other length, is refused before a model is loaded."""

import pytest

from synthstats_lightning import GFlowNetModule, Reward
from synthstats_lightning.callbacks.agreement import check_agreement
from synthstats_lightning.objectives import (
    GRPO,
    ActionSubTrajectoryBalance,
    FlowRL,
    ModifiedSubTrajectoryBalance,
    RapTB,
    RelativeTrajectoryBalance,
    TrajectoryBalance,
)
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule

REWARD = Reward(prior_weight=1.0, floor=-5.0, log_reward_failure=-8.0)
CONSTANT = RewardSchedule()
WITH_A_PRIOR = (FlowRL, RelativeTrajectoryBalance, RapTB, ModifiedSubTrajectoryBalance)


def check(objective, reward=REWARD, schedule=CONSTANT, sampling=None):
    module = GFlowNetModule(objective=objective, sampling=SamplingSettings(max_new_tokens=96))
    check_agreement(module, reward, schedule, sampling)


def test_information_without_experiments():
    module = GFlowNetModule(objective=ActionSubTrajectoryBalance(information=0.5))
    with pytest.raises(ValueError, match=r"ActionSubTrajectoryBalance with information=0\.5 needs episodes"):
        check_agreement(module, REWARD, CONSTANT, None)
    check_agreement(module, REWARD, CONSTANT, None, episodes=True)
    for setting in ({"information": -1.0}, {"information": 1.0, "potentials": "linear"}):
        with pytest.raises(ValueError, match="information must be 0"):
            ActionSubTrajectoryBalance(**setting)


@pytest.mark.parametrize("objective", WITH_A_PRIOR)
def test_another_prior_weight(objective):
    words = rf"{objective.__name__} has prior_weight=0\.5, but .* prior_weight=1:"
    with pytest.raises(ValueError, match=words):
        check(objective(prior_weight=0.5))
    with pytest.raises(ValueError, match=r"reward_schedule\.prior_weight changes the reward's"):
        check(objective(prior_weight=1.0), schedule=RewardSchedule(prior_weight=Ramp(0.0, 9)))


@pytest.mark.parametrize("objective", [RapTB, ModifiedSubTrajectoryBalance])
def test_another_reward_of_what_fails(objective):
    with pytest.raises(ValueError, match=r"prefix_score=-25, but .* log_reward_failure=-8:"):
        check(objective(prior_weight=1.0, prefix_score=-25.0))
    check(objective(prior_weight=1.0, prefix_score=-8.0))
    near_misses = Reward(floor=-5.0, log_reward_failure=-8.0, format_weight=2.0)
    check(objective(prior_weight=1.0, prefix_score=-10.0), near_misses)


def test_length_normalisation_has_another_target():
    with pytest.raises(ValueError, match="FlowRL has normalise_length=True, whose target is not that"):
        check(FlowRL(prior_weight=1.0, normalise_length=True))
    check(FlowRL(prior_weight=1.0))
    check(GRPO(normalise_length=True))


def test_another_length():
    with pytest.raises(ValueError, match=r"max_new_tokens must be the same .*, got 96 and 160"):
        check(TrajectoryBalance(), sampling=SamplingSettings(max_new_tokens=160))
    check(TrajectoryBalance(), sampling=SamplingSettings(max_new_tokens=96, temperature=1.3))
