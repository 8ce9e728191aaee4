"""From a batch of trajectories to what an objective asks for, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives import ObjectiveInputs
from synthstats_lightning.policy import Policy
from synthstats_lightning.replay import TrajectoryBatch

TOKEN_INPUTS = frozenset({"token_log_probs", "stop_log_probs", "log_flow"})
REFERENCE_INPUTS = frozenset({"reference_token_log_probs", "reference_stop_log_probs"})
AVAILABLE = (
    TOKEN_INPUTS
    | REFERENCE_INPUTS
    | {"task_index", "reference_log_prob", "stored_reference_log_prob", "behaviour_log_prob"}
    | {"mask", "forced_stop", "action_ends"}
)
"""What can be had from a policy and a `TrajectoryBatch`."""


class LossInputs(NamedTuple):
    """What one pass of the policy over a batch gives the loss.

    Attributes:
        log_prob: log π of each program, in nats.
        named: What the objective asked for, but for flows.
        hidden: Last hidden states that predict each token, where flows were asked for.
    """

    log_prob: Float[Tensor, " batch"]
    named: ObjectiveInputs
    hidden: Float[Tensor, "batch time hidden"] | None


def check_needs(needs: Collection[str], objective: str) -> None:
    """Refuses an objective that asks for what no batch has.

    Raises:
        ValueError: If something in `needs` is not available.
    """
    if unknown := sorted(set(needs) - AVAILABLE):
        raise ValueError(
            f"{objective} needs {', '.join(unknown)}, which a run does not have;"
            f" available: {', '.join(sorted(AVAILABLE))}"
        )


def loss_inputs(
    policy: Policy, batch: TrajectoryBatch, needs: Collection[str], min_new_tokens: int = 0
) -> LossInputs:
    """Log-probabilities of a batch under the policy as it is now.

    Without token-wise needs this is one pass that yields one number a program; with them it is the same pass,
    which yields the tokens' log-probabilities and, from the same normaliser, those of stopping. Token-wise
    needs of the reference policy cost a pass without gradient.

    Args:
        policy: The policy.
        batch: Trajectories.
        needs: Keys of `ObjectiveInputs`.
        min_new_tokens: See `SamplingSettings`.
    """
    ids, mask = batch.program_ids, batch.program_mask
    given = (batch.prompt_ids, ids, mask, batch.prompt_mask)
    named: ObjectiveInputs = {}
    hidden: Tensor | None = None
    if TOKEN_INPUTS.isdisjoint(needs):
        log_prob = policy.program_log_probs(*given, min_new_tokens=min_new_tokens)
    else:
        tokens = policy.token_and_stop_log_probs(*given, min_new_tokens=min_new_tokens)
        log_prob = tokens.token.sum(1)
        named["token_log_probs"], named["stop_log_probs"] = tokens.token, tokens.stop
        hidden = tokens.hidden if "log_flow" in needs else None
    if not REFERENCE_INPUTS.isdisjoint(needs):
        with torch.no_grad(), policy.evaluating(), policy.reference():
            reference = policy.token_and_stop_log_probs(*given, min_new_tokens=min_new_tokens)
        named["reference_token_log_probs"] = reference.token
        named["reference_stop_log_probs"] = reference.stop
    named["task_index"] = batch.task_index
    named["reference_log_prob"] = named["stored_reference_log_prob"] = batch.reference_log_prob
    named["mask"] = mask
    if "behaviour_log_prob" in needs:
        # where it was not kept, the program counts as freshly sampled
        known = torch.isfinite(batch.log_prob)
        named["behaviour_log_prob"] = torch.where(known, batch.log_prob, log_prob.detach())
    if "forced_stop" in needs:
        named["forced_stop"] = forced_stops(policy, batch)
    if "action_ends" in needs:
        named["action_ends"] = policy.ends_line.to(ids.device)[ids] & mask
    return LossInputs(log_prob, named, hidden)


def forced_stops(policy: Policy, batch: TrajectoryBatch) -> Bool[Tensor, " batch"]:
    """Which programs were cut at the length limit: their last token is no stop token."""
    last = (batch.program_mask.sum(1, keepdim=True) - 1).clamp(min=0)
    stops = torch.tensor(list(policy.stop_token_ids), device=last.device)
    return ~torch.isin(batch.program_ids.gather(1, last)[:, 0], stops)
