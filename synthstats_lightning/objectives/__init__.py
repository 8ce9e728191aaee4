"""Losses: tensors in, loss out. They know nothing of programs, tasks or policies."""

from synthstats_lightning.objectives.action_sub_trajectory_balance import (
    ActionSubTrajectoryBalance,
    action_potentials,
)
from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs
from synthstats_lightning.objectives.best_of_n import BestOfN, best_of_n
from synthstats_lightning.objectives.detailed_balance import DetailedBalance, detailed_balance_loss
from synthstats_lightning.objectives.flow_head import FlowHead
from synthstats_lightning.objectives.flow_rl import FlowRL, flow_rl_loss
from synthstats_lightning.objectives.grpo import GRPO, grpo_loss
from synthstats_lightning.objectives.gspo import GSPO, gspo_loss
from synthstats_lightning.objectives.log_variance import LogVariance, log_variance_loss
from synthstats_lightning.objectives.log_z import LogPartition, LogZ, ScalarLogZ, log_variance_estimate
from synthstats_lightning.objectives.modified_sub_trajectory_balance import (
    ModifiedSubTrajectoryBalance,
    modified_sub_trajectory_balance_loss,
)
from synthstats_lightning.objectives.prompt_log_z import PromptLogZ
from synthstats_lightning.objectives.rap_trajectory_balance import RapTB, rooted_prefix_loss
from synthstats_lightning.objectives.regression import Regression
from synthstats_lightning.objectives.relative_trajectory_balance import (
    RelativeTrajectoryBalance,
    relative_trajectory_balance_loss,
)
from synthstats_lightning.objectives.rloo import RLOO, rloo_loss
from synthstats_lightning.objectives.sub_trajectory_balance import (
    SubTrajectoryBalance,
    ending_window_loss,
    forward_looking_flow,
    sub_trajectory_balance_loss,
)
from synthstats_lightning.objectives.supervised import Supervised, supervised_loss
from synthstats_lightning.objectives.trajectory_balance import TrajectoryBalance, trajectory_balance_loss
from synthstats_lightning.objectives.windows import window_loss, window_weights

__all__ = [
    "GRPO",
    "GSPO",
    "RLOO",
    "ActionSubTrajectoryBalance",
    "BestOfN",
    "DetailedBalance",
    "FlowHead",
    "FlowRL",
    "LogPartition",
    "LogVariance",
    "LogZ",
    "LossOutput",
    "ModifiedSubTrajectoryBalance",
    "Objective",
    "ObjectiveInputs",
    "PromptLogZ",
    "RapTB",
    "Regression",
    "RelativeTrajectoryBalance",
    "ScalarLogZ",
    "SubTrajectoryBalance",
    "Supervised",
    "TrajectoryBalance",
    "action_potentials",
    "best_of_n",
    "detailed_balance_loss",
    "ending_window_loss",
    "flow_rl_loss",
    "forward_looking_flow",
    "grpo_loss",
    "gspo_loss",
    "log_variance_estimate",
    "log_variance_loss",
    "modified_sub_trajectory_balance_loss",
    "relative_trajectory_balance_loss",
    "rloo_loss",
    "rooted_prefix_loss",
    "sub_trajectory_balance_loss",
    "supervised_loss",
    "trajectory_balance_loss",
    "window_loss",
    "window_weights",
]
