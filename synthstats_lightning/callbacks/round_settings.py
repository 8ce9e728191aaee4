"""How the programs of a sampling round are drawn."""

from __future__ import annotations

from collections.abc import Mapping

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


def check_counts(
    at_least_one: Mapping[str, int | None],
    at_least_zero: Mapping[str, float | int],
    shares: Mapping[str, float | int],
) -> None:
    """Refuses numbers of rounds that are out of range.

    Args:
        at_least_one: Numbers by name; `None` where one is found later.
        at_least_zero: Numbers by name.
        shares: Numbers by name, each from 0 to 1.

    Raises:
        ValueError: If one is.
    """
    for name, value in at_least_one.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    for name, number in at_least_zero.items():
        if not number >= 0:
            raise ValueError(f"{name} must be at least 0, got {number}")
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {share}")
