"""What a sampling backend writes in a second, how far its log-probabilities are off, what a version takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TypedDict

import torch

from synthstats_lightning.policy import Policy, SampledPrograms, SamplingSettings
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.sampling_backend import SamplingBackend
from synthstats_lightning.rollouts import ServerBackend
from synthstats_lightning.rollouts.weight_check import check_gap, checked_programs, gap, long_prompt
from synthstats_lightning.tasks import BUNDLED_TASKS, task_prompt

REPETITIONS = 5
PUBLISHES = 5
MOST_GAP = 0.05
"""Nats a token: what a run takes for the right weights."""


class Figures(TypedDict):
    """Figures of one backend."""

    tokens_per_second: float
    gap_nats_mean: float
    gap_nats_max: float
    publish_seconds: float


def prompts_of(policy: Policy) -> list[list[int]]:
    """Those of the bundled tasks."""
    return [policy.encode_prompt(*task_prompt(make())) for make in BUNDLED_TASKS.values()]


def change(policy: Policy, seed: int, scale: float = 0.02) -> None:
    """Other weights of the adapter, as after some training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in policy.parameters():
            if value.requires_grad:
                noise = torch.randn(value.shape, generator=generator)
                value.add_(scale * noise.to(value.device))


def publish(backend: ServerBackend, policy: Policy, prompt: tuple[int, ...], step: int) -> float:
    """Seconds in which an adapter is written, loaded, checked and used, as by a run."""
    started = time.perf_counter()
    version = backend.versions.write(policy, step)
    backend.versions.load(version)
    for connection in backend.connections:
        found = gap(policy, prompt, checked_programs(policy, connection, version.name, prompt)())
        check_gap(found, MOST_GAP, connection.url)
    backend.versions.use(version)
    return time.perf_counter() - started


def measure(policy: Policy, backend: SamplingBackend, programs: int, length: int) -> Figures:
    """The figures of a backend, under an adapter that is not the identity.

    Args:
        policy: The trainer's; its adapter changes.
        backend: Who writes programs.
        programs: How many at once.
        length: Tokens of each, where speed is measured.
    """
    prompts = prompts_of(policy)
    seconds = [0.0]
    if isinstance(backend, ServerBackend):
        prompt = long_prompt(policy, prompts)
        seconds = []
        for step in range(PUBLISHES):
            change(policy, step)
            seconds.append(publish(backend, policy, prompt, step))
    gaps = program_gaps(policy, backend, prompts, programs)
    forced = SamplingSettings(max_new_tokens=length, min_new_tokens=length - 1)
    speeds = []
    for repetition in range(REPETITIONS):
        started = time.perf_counter()
        drawn = policy.sample(prompts[:1], programs, forced, seed=repetition, backend=backend)
        speeds.append(int(drawn.program_mask.sum()) / (time.perf_counter() - started))
    return {
        "tokens_per_second": statistics.median(speeds),
        "gap_nats_mean": float(gaps.mean()),
        "gap_nats_max": float(gaps.max()),
        "publish_seconds": statistics.median(seconds),
    }


def program_gaps(
    policy: Policy, backend: SamplingBackend, prompts: Sequence[Sequence[int]], programs: int
) -> torch.Tensor:
    """Nats between what the sampler says of each program and a pass of the trainer over its tokens."""
    drawn = policy.sample(
        list(prompts), programs, SamplingSettings(max_new_tokens=128), seed=9, backend=backend
    )
    if drawn.proposal_log_prob is None:
        raise RuntimeError("the sampler says nothing of its programs")
    return (drawn.proposal_log_prob - passed(policy, prompts, drawn)).abs()


def passed(policy: Policy, prompts: Sequence[Sequence[int]], drawn: SampledPrograms) -> torch.Tensor:
    """Log-probability of each program by one pass, in nats."""
    rows = [prompts[place] for place in drawn.prompt_index.tolist()]
    ids, mask = pad_left(rows, policy.pad_token_id, policy.device)
    with torch.no_grad(), policy.evaluating():
        found: torch.Tensor = policy.program_log_probs(ids, drawn.program_ids, drawn.program_mask, mask)
    return found
