"""Prefix resampling: new suffixes for given programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.hidden import pad_left, pad_right
from synthstats_lightning.policy.policy import Policy
from synthstats_lightning.policy.sampling import (
    SampledPrograms,
    SamplingSettings,
    stream_seed,
)
from synthstats_lightning.policy.sampling_backend import LOCAL, SamplingBackend
from synthstats_lightning.tasks.facts import Facts

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt and prefix of one program."""


class _Whole(NamedTuple):
    """A program with its prefix.

    Attributes:
        tokens: Token ids of the program.
        stopped: Whether it ended by itself.
        weights_step: Training step of the weights that wrote its end; `None` where it is the present.
    """

    tokens: tuple[int, ...]
    stopped: bool
    weights_step: int | None


@torch.no_grad()
def resample_suffixes(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    prompt_index: Sequence[int],
    prefixes: Sequence[Sequence[int]],
    settings: SamplingSettings,
    seed: int,
    rank: int = 0,
    step: int = 0,
    prior_prompts: Sequence[Sequence[int]] | None = None,
    backend: SamplingBackend = LOCAL,
    facts: Sequence[Facts | None] | None = None,
) -> SampledPrograms:
    """Programs that begin with given tokens and go on as the policy will (back-and-forth local search).

    Local search by destroying the end of a good object and building it anew is due to Kim et al. 2024 (arXiv
    2310.02710). The programs are off-policy, which balance objectives do not mind; objectives that expect the
    policy's own samples do. Their log-probabilities, prefix included, are the policy's own as ever.

    Args:
        policy: The policy that writes the ends.
        prompts: Token ids of the prompts, from `encode_prompt`.
        prompt_index: Which of the prompts each program answers.
        prefixes: First tokens of each program, at least one and less than `settings.max_new_tokens`, none of
            them a stop token, and as many as `settings.min_new_tokens`.
        settings: Temperature, exploration and limits; `max_new_tokens` counts the prefix.
        seed: Seed of the run, from which the random stream is made.
        rank: Number of this process in the run; each rank has a random stream of its own.
        step: Number of the random stream.
        prior_prompts: What the reference policy is given in place of each prompt; by default the same.
        backend: Who writes the ends; log-probabilities are the policy's in any case.
        facts: What the programs of each prompt are read with, where the policy words requests itself.

    Raises:
        ValueError: If a prefix is too short or too long.
    """
    for prefix in prefixes:
        if not max(1, settings.min_new_tokens) <= len(prefix) < settings.max_new_tokens:
            raise ValueError(
                f"a prefix must have at least {max(1, settings.min_new_tokens)} and fewer than"
                f" {settings.max_new_tokens} tokens, got {len(prefix)}"
            )
    generator = torch.Generator().manual_seed(stream_seed(seed, rank, step))
    rows = [
        (tuple(prompts[index]), tuple(prefix)) for index, prefix in zip(prompt_index, prefixes, strict=True)
    ]
    with policy.evaluating():
        with backend.drawing(policy):
            programs = _continued(policy, rows, settings, generator, backend)
        ids, mask = pad_right([program.tokens for program in programs], policy.pad_token_id, policy.device)
        given = [prompt for prompt, _ in rows]
        log_prob = given_log_probs(policy, given, ids, mask, settings.min_new_tokens, reference=False)
        if prior_prompts is not None:
            given = [tuple(prior_prompts[index]) for index in prompt_index]
        reference = given_log_probs(policy, given, ids, mask, settings.min_new_tokens, reference=True)
    asked = [None if facts is None else facts[index] for index in prompt_index]
    read = [policy.read(list(whole.tokens), each) for whole, each in zip(programs, asked, strict=True)]
    steps = [program.weights_step for program in programs if program.weights_step is not None]
    return SampledPrograms(
        prompt_index=torch.tensor(list(prompt_index), dtype=torch.long, device=policy.device),
        program_ids=ids,
        program_mask=mask,
        log_prob=log_prob,
        reference_log_prob=reference,
        stopped=torch.tensor([program.stopped for program in programs], device=policy.device),
        sources=[program.source for program in read],
        spans=[program.span for program in read],
        weights_step=torch.tensor(steps, device=policy.device) if steps else None,
    )


def _continued(
    policy: Policy,
    rows: list[Row],
    settings: SamplingSettings,
    generator: torch.Generator,
    backend: SamplingBackend,
) -> list[_Whole]:
    """Each whole program, in the order of `rows`."""
    positions = getattr(policy.text_config, "max_position_embeddings", None)
    limit = settings.max_new_tokens - min(len(prefix) for _, prefix in rows)
    longest = max(len(prompt) + len(prefix) for prompt, prefix in rows)
    if len(rows) > 1 and positions is not None and longest + limit > positions:
        # short and long prefixes together would run past the positions that the model knows
        order = sorted(range(len(rows)), key=lambda row: len(rows[row][1]))
        halves = order[: len(rows) // 2], order[len(rows) // 2 :]
        found = [
            _continued(policy, [rows[row] for row in half], settings, generator, backend) for half in halves
        ]
        joined = dict(zip([*halves[0], *halves[1]], [*found[0], *found[1]], strict=True))
        return [joined[row] for row in range(len(rows))]
    starts = list(dict.fromkeys(prompt + prefix for prompt, prefix in rows))
    index = torch.tensor([starts.index(prompt + prefix) for prompt, prefix in rows], device=policy.device)
    own = SamplingSettings(
        max_new_tokens=limit,
        temperature=settings.temperature,
        temperature_high=settings.temperature_high,
        epsilon=settings.epsilon,
        top_p=settings.top_p,
    )
    decoded = backend.decode(policy, starts, index, own, generator)
    lengths = decoded.program_mask.sum(1).tolist()
    steps = [None] * len(rows) if decoded.weights_step is None else decoded.weights_step.tolist()
    programs = []
    for row, (_, prefix) in enumerate(rows):
        end = decoded.program_ids[row, : lengths[row]].tolist()
        whole = (*prefix, *end)
        fits = len(whole) <= settings.max_new_tokens
        stopped = fits and bool(decoded.stopped[row])
        programs.append(_Whole(whole[: settings.max_new_tokens], stopped, steps[row]))
    return programs


def given_log_probs(
    policy: Policy,
    prompts: list[tuple[int, ...]],
    ids: Int[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    min_new_tokens: int,
    reference: bool,
) -> Float[Tensor, " batch"]:
    """Log-probabilities of given programs by teacher-forced passes, in nats.

    Args:
        policy: The policy, evaluating.
        prompts: Token ids of each program's prompt.
        ids: Tokens of the programs, padded on the right.
        mask: True on their tokens, the stop token included.
        min_new_tokens: Tokens before which a program does not stop.
        reference: Whether those under the reference policy are wanted.
    """
    prompt_ids, prompt_mask = pad_left([list(p) for p in prompts], policy.pad_token_id, policy.device)
    rows = max(1, policy.tokens_per_pass() // (prompt_ids.shape[1] + ids.shape[1]))
    pieces = []
    with policy.reference() if reference else nullcontext():
        for start in range(0, len(prompts), rows):
            part = slice(start, start + rows)
            given = prompt_ids[part], ids[part], mask[part], prompt_mask[part]
            pieces.append(policy.program_log_probs(*given, min_new_tokens=min_new_tokens))
    return torch.cat(pieces)
