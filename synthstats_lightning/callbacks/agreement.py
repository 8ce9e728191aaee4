"""Settings of a run that say the same thing twice, and must say it alike."""

from __future__ import annotations

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.schedule import RewardSchedule


def check_agreement(
    module: GFlowNetModule,
    reward: Reward,
    schedule: RewardSchedule,
    sampling: SamplingSettings | None,
    episodes: bool = False,
) -> None:
    """Refuses a module whose objective or lengths contradict what programs are rewarded for.

    Objectives that take the reference prior out of the reward, or know what a failed program earns, have
    settings of their own for it. One that normalises by length has another target than any reward says.

    Args:
        module: The run's module, whose `sampling` and objective are compared.
        reward: At the end of its schedule.
        schedule: On the way there.
        sampling: How training samples are drawn; `None` where they are drawn as the module's own.
        episodes: Whether they are episodes of experiments.

    Raises:
        ValueError: If they disagree.
    """
    objective, name = module.objective, type(module.objective).__name__
    weight = getattr(objective, "prior_weight", None)
    if weight is not None:
        if weight != reward.prior_weight:
            raise ValueError(
                f"objective {name} has prior_weight={weight:g}, but the reward has"
                f" prior_weight={reward.prior_weight:g}: give both the same"
            )
        if schedule.prior_weight is not None:
            raise ValueError(
                f"objective {name} has prior_weight={weight:g} throughout, but reward_schedule.prior_weight"
                " changes the reward's: leave one of them out"
            )
    score = getattr(objective, "prefix_score", None)
    lowest = reward.log_reward_failure - reward.format_weight
    if score is not None and not lowest <= score <= reward.log_reward_failure:
        raise ValueError(
            f"objective {name} has prefix_score={score:g}, but the reward of a failed program is"
            f" log_reward_failure={reward.log_reward_failure:g}: give both the same"
        )
    # of GRPO and other baselines it weighs tokens in the loss, which have no target
    if getattr(objective, "normalise_length", False) and weight is not None:
        raise ValueError(
            f"objective {name} has normalise_length=True, whose target is not that of the reward: give False"
        )
    if "information" in objective.needs and not episodes:
        raise ValueError(
            f"objective {name} with information={getattr(objective, 'information', 1):g} needs episodes, of"
            " ExperimentTasks: leave information out"
        )
    own = module.sampling.max_new_tokens
    if sampling is not None and sampling.max_new_tokens != own:
        raise ValueError(
            f"sampling.max_new_tokens must be the same for the module and for its training samples, got {own}"
            f" and {sampling.max_new_tokens}"
        )
