"""Objectives by the short names that job files have for them."""

from __future__ import annotations

from collections.abc import Mapping

METHODS = ("gflownet", "policy_gradient")
POLICY_GRADIENT: Mapping[str, str] = {
    "grpo": "objective/grpo",
    "gspo": "objective/gspo",
    "rloo": "objective/rloo",
}
"""Varieties that maximise the reward, each with its configuration of the package."""
GFLOWNET: Mapping[str, str | None] = {
    "tb": None,
    "subtb": "objective/sub_trajectory_balance",
    "subtb_relative": "objective/relative_sub_trajectory_balance",
    "forward_looking": "objective/forward_looking",
    "modified_subtb": "objective/modified_sub_trajectory_balance",
    "interpolated_subtb": "objective/interpolated_sub_trajectory_balance",
    "action_subtb": "objective/action_sub_trajectory_balance",
    "db": "objective/detailed_balance",
    "vargrad": "objective/log_variance",
    "rtb": "objective/relative_trajectory_balance",
    "tba": "objective/tba",
    "raptb": "objective/rap_trajectory_balance",
    "flowrl": "objective/flow_rl",
}
"""Varieties that write programs in proportion to their reward; trajectory balance is the base's own."""
VARIETIES: Mapping[str, str | None] = {**GFLOWNET, **POLICY_GRADIENT}
"""All of them."""
USUAL = {"gflownet": "tb", "policy_gradient": "gspo"}
"""The variety of a method where none is given."""
