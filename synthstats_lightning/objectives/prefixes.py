"""Prefixes at which a program could have stopped: their potentials and their rewards."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import ObjectiveInputs


class StopPotentials(NamedTuple):
    """Flows that follow from stopping: F(s) = R(s stop) / π(stop | s).

    Attributes:
        value: log R(s_t stop) − log π(stop | s_t) − Σ_{i≤t} log π(y_i) of each prefix, float64
            `[batch, time + 1]`; 0 where stopping is not possible.
        terminable: Where stopping is possible.
        last: Index of the prefix that was stopped at, `[batch]`.
    """

    value: Float[Tensor, "batch prefixes"]
    terminable: Bool[Tensor, "batch prefixes"]
    last: Int[Tensor, " batch"]


def last_prefix(
    mask: Bool[Tensor, "batch time"], forced_stop: Bool[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """Index of the prefix at which each program stopped: all of its tokens but the stop token."""
    return mask.sum(1) - (~forced_stop).long()


def stop_potentials(
    token_log_probs: Float[Tensor, "batch time"],
    stop_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    forced_stop: Bool[Tensor, " batch"],
    prefix_log_reward: Float[Tensor, "batch prefixes"],
) -> StopPotentials:
    """Potentials of the prefixes of each program; the difference of two is a sub-trajectory's residual.

    A forced stop has probability 1 and is no token: it is no factor of the program's probability.

    Args:
        token_log_probs: log π of each token, in nats.
        stop_log_probs: log π(stop | prefix) before each token; −inf where a minimum length rules it out.
        mask: True on program tokens, which are at the front.
        forced_stop: Whether the program was cut at the length limit.
        prefix_log_reward: log R of stopping at each prefix, `[batch, time + 1]`.
    """
    last = last_prefix(mask, forced_stop)
    index = torch.arange(mask.shape[1] + 1, device=mask.device)
    forced = forced_stop[:, None] & (index == last[:, None])
    stop = torch.nn.functional.pad(stop_log_probs, (0, 1)).masked_fill(forced, 0.0)
    terminable = (index <= last[:, None]) & torch.isfinite(stop)
    reached = torch.nn.functional.pad(token_log_probs.masked_fill(~mask, 0.0).double().cumsum(1), (1, 0))
    # masked before the difference, so that no infinity meets a gradient
    value = prefix_log_reward.masked_fill(~terminable, 0.0) - stop.masked_fill(~terminable, 0.0).double()
    return StopPotentials(torch.where(terminable, value - reached, 0.0), terminable, last)


class PrefixRewards(NamedTuple):
    """Log rewards of stopping early, in two parts: `prior + score`.

    Attributes:
        prior: Weighted log π_ref of stopping at each prefix, in nats, `[batch, time + 1]`.
        score: The rest of the log reward, in nats, `[batch, time + 1]`.
        known: Where the score is known rather than assumed.
    """

    prior: Float[Tensor, "batch prefixes"]
    score: Float[Tensor, "batch prefixes"]
    known: Bool[Tensor, "batch prefixes"]


def reference_prefix_rewards(
    inputs: ObjectiveInputs, log_reward: Float[Tensor, " batch"], prior_weight: float, prefix_score: float
) -> PrefixRewards:
    """Rewards of prefixes where scores exist for whole programs only.

    The reference's part is known everywhere, from one pass of the frozen model. Of the scores, those of the
    whole program and of the empty one are known: the empty program fails, with `prefix_score`, which also
    stands where the score is not known.

    Args:
        inputs: Inputs of the objective: `mask`, `forced_stop`, `reference_token_log_probs` and
            `reference_stop_log_probs`; the last two are not read if `prior_weight` is 0.
        log_reward: Of the whole programs, the reference's part included, in nats.
        prior_weight: Weight of log π_ref in the log reward.
        prefix_score: Score part of a program that fails, in nats.
    """
    mask, forced = inputs["mask"], inputs["forced_stop"]
    last = last_prefix(mask, forced)[:, None]
    index = torch.arange(mask.shape[1] + 1, device=mask.device)
    prior = log_reward.new_zeros(len(mask), mask.shape[1] + 1)
    if prior_weight:
        steps = inputs["reference_token_log_probs"].masked_fill(~mask, 0.0).cumsum(1)
        stop = torch.nn.functional.pad(inputs["reference_stop_log_probs"], (0, 1))
        stop = stop.masked_fill(forced[:, None] & (index == last), 0.0).masked_fill(index > last, 0.0)
        prior = prior_weight * (torch.nn.functional.pad(steps, (1, 0)) + stop)
    score = torch.full_like(prior, prefix_score)
    whole = log_reward[:, None] - prior.gather(1, last)
    score = torch.where(index == last, whole, score)
    return PrefixRewards(prior.detach(), score, (index == last) | (index == 0))


def interpolate(
    values: Float[Tensor, "batch prefixes"], known: Bool[Tensor, "batch prefixes"]
) -> Float[Tensor, "batch prefixes"]:
    """Linear interpolation between known entries of each row; beyond the outer ones, their values.

    The interpolated sub-trajectory balance of LaCoT (Sun et al. 2025, ISubTB) knows every λ-th reward.

    Args:
        values: A number for each prefix; unknown entries may hold anything.
        known: At least one a row.
    """
    width = values.shape[1]
    index = torch.arange(width, device=values.device).expand(values.shape)
    before = torch.where(known, index, -1).cummax(1).values
    after = torch.where(known, index, width).flip(1).cummin(1).values.flip(1)
    left = torch.where(before < 0, after, before)
    right = torch.where(after == width, before, after)
    span = (right - left).clamp(min=1)
    share = (index - left).clamp(min=0).to(values.dtype) / span
    return torch.lerp(values.gather(1, left), values.gather(1, right), share)


def absorbed(
    values: Float[Tensor, "batch prefixes"],
    known: Bool[Tensor, "batch prefixes"],
    last: Int[Tensor, " batch"],
    decay: float,
    max_share: float,
    sharpness: float,
) -> Float[Tensor, "batch prefixes"]:
    """Values with unknown ones moved towards what the rest of the program earns (RapTB, section 4).

    With g = decay^(distance to the end) an unknown value u becomes (1 − g) u + g u*, where u* mixes the
    maximum of the known values from there on and their soft maximum log Σ exp(s u) / s.

    Args:
        values: A number for each prefix, assumed where unknown.
        known: Where they are known; the last prefix is.
        last: Index of the last prefix of each row.
        decay: Factor of the share g for each token to the end of the program, in `(0, 1]`.
        max_share: Share of the maximum in the mix; the soft maximum has the rest.
        sharpness: s, per nat.
    """
    index = torch.arange(values.shape[1], device=values.device)
    usable = known & (index <= last[:, None])
    later = values.masked_fill(~usable, -1e30).flip(1)
    hard = later.cummax(1).values.flip(1)
    soft = torch.logcumsumexp(sharpness * later.double(), 1).flip(1).to(values.dtype) / sharpness
    share = decay ** (last[:, None] - index).clamp(min=0).to(values.dtype)
    target = max_share * hard + (1 - max_share) * soft
    return torch.where(known | (index > last[:, None]), values, torch.lerp(values, target, share))
