"""Log-probabilities of programs that are given, by passes that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.hidden import pad_left, pad_right
from synthstats_lightning.policy.memory_plan.decoder import Decoder
from synthstats_lightning.policy.sampling import Decoded, SamplingSettings, behaviour_probabilities
from synthstats_lightning.policy.text.answer_tokens import without_thought

TOKENS = 1024
"""Tokens whose probabilities over the whole vocabulary are held at once."""


def forced_log_probs(
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Int[Tensor, " batch"],
    program_ids: Int[Tensor, "batch time"],
    program_mask: Bool[Tensor, "batch time"],
    min_new_tokens: int = 0,
) -> Float[Tensor, " batch"]:
    """Log-probability of each program, by passes that see as many tokens as fit into memory.

    Args:
        policy: The policy, in eval mode.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each program answers.
        program_ids: Token ids of the programs, padded on the right.
        program_mask: True on program tokens.
        min_new_tokens: Tokens before which the policy does not stop.
    """
    given = policy, prompts, row_prompt, program_ids, program_mask, min_new_tokens
    return _by_passes(policy.program_log_probs, *given)


def forced_token_log_probs(
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Int[Tensor, " batch"],
    program_ids: Int[Tensor, "batch time"],
    program_mask: Bool[Tensor, "batch time"],
    min_new_tokens: int = 0,
) -> Float[Tensor, "batch time"]:
    """Log-probability of each token of each program, 0 behind it, by such passes.

    Args:
        policy: The policy, in eval mode.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each program answers.
        program_ids: Token ids of the programs, padded on the right.
        program_mask: True on program tokens.
        min_new_tokens: Tokens before which the policy does not stop.
    """
    given = policy, prompts, row_prompt, program_ids, program_mask, min_new_tokens
    return _by_passes(policy.token_log_probs, *given)


def forced_behaviour_log_probs(
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Int[Tensor, " batch"],
    program_ids: Int[Tensor, "batch time"],
    program_mask: Bool[Tensor, "batch time"],
    settings: SamplingSettings,
) -> Float[Tensor, " batch"]:
    """Log-probability with which each program would be drawn, tempered and explored as the settings say.

    What `SampledPrograms.proposal_log_prob` is of programs that were drawn.

    Args:
        policy: The policy, in eval mode.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each program answers.
        program_ids: Token ids of the programs, padded on the right.
        program_mask: True on program tokens.
        settings: How such programs are drawn.

    Raises:
        ValueError: If each program would have a temperature of its own.
    """
    if settings.temperature_high is not None:
        raise ValueError(f"temperature_high must be None here, got {settings.temperature_high}")
    stops = torch.tensor(policy.stop_token_ids, device=program_ids.device)

    def log_probs(
        prompt_ids: Tensor, ids: Tensor, mask: Tensor, prompt_mask: Tensor, min_new_tokens: int
    ) -> Tensor:
        states = policy.token_and_stop_log_probs(prompt_ids, ids, mask, prompt_mask).hidden[mask]
        limits = policy.spelling.limits(prompt_ids.masked_fill(~prompt_mask, policy.pad_token_id))
        before = None if limits is None else limits.before(prompt_ids, ids).of(mask)
        tokens, (row, place) = ids[mask], mask.nonzero(as_tuple=True)
        values = torch.zeros(len(tokens), dtype=torch.float32, device=ids.device)
        for piece in torch.split(torch.arange(len(tokens), device=ids.device), TOKENS):
            logits = policy.head.logits(states[piece])
            if limits is not None and before is not None:
                logits = limits.masked(logits, row[piece], before.of(piece))
            early = (place[piece] < min_new_tokens).nonzero()
            logits[early, stops] = -torch.inf
            drawn = behaviour_probabilities(logits, settings).gather(-1, tokens[piece, None])
            values[piece] = drawn[:, 0].log()
        return torch.zeros(mask.shape, device=ids.device).masked_scatter(mask, values).sum(1)

    given = policy, prompts, row_prompt, program_ids, program_mask, settings.min_new_tokens
    return _by_passes(log_probs, *given)


def _by_passes(
    log_probs: Callable[..., Tensor],
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Tensor,
    program_ids: Tensor,
    program_mask: Tensor,
    min_new_tokens: int,
) -> Tensor:
    prompt_ids, prompt_mask = pad_left(
        [list(prompt) for prompt in prompts], policy.pad_token_id, program_ids.device
    )
    rows = max(1, policy.tokens_per_pass() // (prompt_ids.shape[1] + program_ids.shape[1]))
    pieces = [
        log_probs(prompt_ids[index], ids, mask, prompt_mask[index], min_new_tokens=min_new_tokens)
        for index, ids, mask in zip(
            torch.split(row_prompt, rows),
            torch.split(program_ids, rows),
            torch.split(program_mask, rows),
            strict=True,
        )
    ]
    return torch.cat(pieces)


def stripped(
    policy: Decoder, decoded: Decoded, prompts: Sequence[Sequence[int]], row_prompt: Int[Tensor, " batch"]
) -> Decoded:
    """Programs without their thoughts, with the log-probabilities of the tokens that are left.

    Args:
        policy: The policy that has written them, in eval mode.
        decoded: What it has written.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each program answers.
    """
    ids, lengths = decoded.program_ids.tolist(), decoded.program_mask.sum(1).tolist()
    kept = [
        without_thought(policy.tokenizer, row[:length]) if stopped else tuple(row[:length])
        for row, length, stopped in zip(ids, lengths, decoded.stopped.tolist(), strict=True)
    ]
    program_ids, mask = pad_right(kept, policy.pad_token_id, policy.device)
    log_prob = forced_log_probs(policy, prompts, row_prompt, program_ids, mask)
    # a thought that is left out was drawn, and is no token of the program
    return Decoded(program_ids, mask, log_prob, decoded.stopped, weights_step=decoded.weights_step)
