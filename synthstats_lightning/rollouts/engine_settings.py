"""What an engine in the trainer's process is started with: what the policy that it stands in for is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthstats_lightning.policy import Environment, Policy
from synthstats_lightning.policy.loading import resolve
from synthstats_lightning.rollouts.serve_command import ServedModel
from synthstats_lightning.rollouts.vllm_engine import EngineSettings
from synthstats_lightning.tasks import Task

EXAMPLE_TOKENS = 64
"""That introduce an example in a prompt, at most."""


def engine_settings(
    policy: Policy,
    tasks: Sequence[Task],
    prompts: Sequence[Sequence[int]],
    sources: Sequence[object],
    keep: int,
    gpu_memory_utilization: float,
) -> EngineSettings:
    """Settings of an engine for a loaded policy.

    Args:
        policy: The trainer's, with an adapter.
        tasks: Those of the run.
        prompts: Token ids of their prompts.
        sources: The module and the callbacks, of which those with `sampling` draw programs by it.
        keep: Versions of the adapter that are kept besides the present one.
        gpu_memory_utilization: Share of the GPU's memory that the engine takes.
    """
    config: Any = policy.model.peft_config["default"]
    ranks = [config.r, *(config.rank_pattern or {}).values()]
    return EngineSettings(
        ServedModel(
            model=resolve(policy.name),
            name=policy.name,
            dtype=str(policy.language_model.dtype).removeprefix("torch."),
            rank=max(int(rank) for rank in ranks),
            keep=keep,
            max_tokens=_longest(policy, tasks, prompts, sources),
            revision=policy.settings.revision,
            four_bit=policy.settings.load_in_4bit,
            on_cpu=policy.device.type == "cpu",
        ),
        gpu_memory_utilization,
    )


def _longest(
    policy: Policy, tasks: Sequence[Task], prompts: Sequence[Sequence[int]], sources: Sequence[object]
) -> int:
    """Tokens of the longest prompt and program; of episodes as many as the model has positions for."""
    positions = getattr(policy.text_config, "max_position_embeddings", None)
    if positions is not None and any(isinstance(task, Environment) for task in tasks):
        return int(positions)
    settings = [getattr(source, "sampling", None) for source in sources]
    program: int = max(each.max_new_tokens for each in settings if each is not None)
    examples = max((getattr(task, "most_examples", 0) for task in tasks), default=0)
    needed = max(map(len, prompts), default=0) + program + examples * (program + EXAMPLE_TOKENS)
    return needed if positions is None else min(needed, int(positions))
