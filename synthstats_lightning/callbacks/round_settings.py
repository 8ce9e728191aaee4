"""How the programs of a sampling round are drawn."""

from __future__ import annotations

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SamplingSettings, annealed, on_policy


def round_settings(
    module: GFlowNetModule, given: SamplingSettings | None, anneal_steps: int, step: int
) -> SamplingSettings:
    """Temperature, exploration and length of training samples at a step.

    Args:
        module: The run's module, whose objective may ask for programs of the policy itself.
        given: Settings of training samples at the start; `None` where they are the module's own.
        anneal_steps: Training steps over which they become the module's own; with 0 they never do.
        step: Training steps so far.
    """
    final = module.sampling
    if module.objective.on_policy:
        return on_policy(final)
    if given is None or not anneal_steps:
        return given or final
    return annealed(given, final.temperature, step / anneal_steps)
