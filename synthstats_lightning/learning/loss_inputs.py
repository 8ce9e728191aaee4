"""From a batch of trajectories to what an objective asks for, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives import ObjectiveInputs
from synthstats_lightning.policy import Policy
from synthstats_lightning.replay import TrajectoryBatch

TOKEN_INPUTS = frozenset({"token_log_probs", "stop_log_probs", "log_flow"})
PREFIX_INPUTS = frozenset({"log_flow", "stop_log_probs", "action_ends"})
REFERENCE_INPUTS = frozenset({"reference_token_log_probs", "reference_stop_log_probs"})
AVAILABLE = (
    TOKEN_INPUTS
    | REFERENCE_INPUTS
    | {"task_index", "reference_log_prob", "stored_reference_log_prob", "behaviour_log_prob"}
    | {"behaviour_token_log_probs"}
    | {"mask", "forced_stop", "action_ends", "information"}
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
    needs of the reference policy cost a pass without gradient, given the prior's prompts.

    Args:
        policy: The policy that is trained.
        batch: Trajectories from the replay buffer.
        needs: Keys of `ObjectiveInputs`.
        min_new_tokens: Tokens before which the policy could not stop when it sampled, as in
            `SamplingSettings`.
    """
    ids, mask, own = batch.program_ids, batch.program_mask, batch.own_mask
    given = (batch.prompt_ids, ids, mask, batch.prompt_mask)
    prior_ids, prior_mask = batch.prior_prompts
    options: dict[str, Any] = {"min_new_tokens": min_new_tokens, "own_mask": own}
    named: ObjectiveInputs = {}
    hidden: Tensor | None = None
    if TOKEN_INPUTS.isdisjoint(needs):
        log_prob = policy.program_log_probs(*given, **options)
    else:
        tokens = policy.token_and_stop_log_probs(*given, **options)
        log_prob = tokens.token.sum(1)
        named["token_log_probs"], named["stop_log_probs"] = tokens.token, tokens.stop
        if "log_flow" in needs:
            hidden = tokens.hidden if own is None else at_own_tokens(tokens.hidden, own)
    if not REFERENCE_INPUTS.isdisjoint(needs):
        with torch.no_grad(), policy.evaluating(), policy.reference():
            reference = policy.token_and_stop_log_probs(prior_ids, ids, mask, prior_mask, **options)
        named["reference_token_log_probs"] = reference.token
        named["reference_stop_log_probs"] = reference.stop
    named["task_index"] = batch.task_index
    named["reference_log_prob"] = named["stored_reference_log_prob"] = batch.reference_log_prob
    # objectives over prefixes pass through every token, the others average over the policy's own
    named["mask"] = mask if PREFIX_INPUTS & set(needs) else batch.written
    if "behaviour_log_prob" in needs:
        # where it was not kept, the program counts as freshly sampled
        known = torch.isfinite(batch.log_prob)
        named["behaviour_log_prob"] = torch.where(known, batch.log_prob, log_prob.detach())
    if "behaviour_token_log_probs" in needs:
        now, then = named["token_log_probs"].detach(), batch.token_log_probs
        named["behaviour_token_log_probs"] = now if then is None else torch.where(then.isfinite(), then, now)
    if "forced_stop" in needs:
        named["forced_stop"] = forced_stops(policy, batch)
    if "action_ends" in needs:
        if own is None:  # a program of one turn acts line by line
            named["action_ends"] = policy.ends_line.to(ids.device)[ids] & mask
        else:
            named["action_ends"] = turn_ends(own)
    if "information" in needs:
        # none at all where no turn of the batch was an experiment, as in an empty one
        nothing = torch.zeros(mask.shape, device=mask.device)
        named["information"] = nothing if batch.information is None else batch.information
    return LossInputs(log_prob, named, hidden)


def forced_stops(policy: Policy, batch: TrajectoryBatch) -> Bool[Tensor, " batch"]:
    """Which programs were cut at the length limit: their last token is no stop token."""
    # an environment has the last word only where a turn was cut, whose own last token is what counts
    place = torch.arange(batch.written.shape[1], device=batch.written.device)
    last = torch.where(batch.written, place, 0).amax(1, keepdim=True)
    stops = torch.tensor(list(policy.stop_token_ids), device=last.device)
    return ~torch.isin(batch.program_ids.gather(1, last)[:, 0], stops)


def turn_ends(own: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch time"]:
    """The last token of each turn of a policy.

    Args:
        own: True on the policy's tokens.
    """
    return own & ~torch.nn.functional.pad(own[:, 1:], (0, 1))


def at_own_tokens(
    hidden: Float[Tensor, "batch time hidden"], own: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch time hidden"]:
    """Hidden states that predict a token, where an environment wrote it those that predict the next own one.

    What an environment answers follows from what the policy wrote, so no flow is lost on the way; the state
    that the policy meets next has read the answer.

    Args:
        hidden: States that predict each token.
        own: True on the policy's tokens; behind the last one nothing is replaced.
    """
    time = own.shape[1]
    place = torch.arange(time, device=own.device).expand_as(own)
    following = torch.where(own, place, time).flip(1).cummin(1).values.flip(1)
    following = torch.where(following < time, following, place)
    return hidden.gather(1, following[..., None].expand_as(hidden))
