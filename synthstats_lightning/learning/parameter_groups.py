"""What an optimizer is given: named groups, each with the rate that it needs."""

from __future__ import annotations

from typing import Any

from torch import nn

from synthstats_lightning.objectives import FlowHead, LogPartition


def parameter_groups(
    policy: nn.Module,
    objective: nn.Module,
    flow_head: FlowHead | None,
    log_z: LogPartition,
    *,
    flow_lr: float,
    log_z_lr: float,
) -> list[dict[str, Any]]:
    """Groups `adapter`, `objective` and `flow` where there is something to learn, and `log_z`.

    The first is `weights` where all weights of the policy are trained.

    Args:
        policy: The policy, of which the adapter is trained, or everything.
        objective: The objective, which may have parameters of its own.
        flow_head: The flows, where the objective learns them.
        log_z: The learned log Z.
        flow_lr: Learning rate of the flows; no weight decay.
        log_z_lr: Learning rate of log Z; no weight decay.
    """
    name = "adapter" if getattr(policy, "frozen", None) is None else "weights"
    groups: list[dict[str, Any]] = [{"params": _trained(policy), "name": name}]
    if extra := _trained(objective):
        groups.append({"params": extra, "name": "objective"})
    if flow_head is not None:
        flow = list(flow_head.parameters())
        groups.append({"params": flow, "name": "flow", "lr": flow_lr, "weight_decay": 0.0})
    groups.append({"params": list(log_z.parameters()), "name": "log_z", "lr": log_z_lr, "weight_decay": 0.0})
    return groups


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
