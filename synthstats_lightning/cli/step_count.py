"""`--steps N`: the length of a run and, in proportion, of every schedule."""

from __future__ import annotations

from typing import Any

from jsonargparse import Namespace

from synthstats_lightning.callbacks.schedule_lengths import scaled

_LENGTHS = ("T_max", "T_0", "total_steps", "total_iters", "step_size", "step_size_up", "step_size_down")
"""Arguments of PyTorch's learning-rate schedules that count training steps."""
_WAYS = ("beta", "prior_weight")


def set_steps(config: Namespace, steps: int) -> None:
    """Makes a run as long as asked for, and stretches or shortens its schedules in proportion.

    Args:
        config: The subcommand's configuration, which is changed in place.
        steps: How many training steps the run is to take.

    Raises:
        ValueError: If `steps` is not positive, or the configuration has no length to compare it with.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if config.trainer.max_steps < 1:
        raise ValueError(
            f"steps needs a configuration with trainer.max_steps, got {config.trainer.max_steps}: schedules"
            " change in proportion"
        )
    factor = steps / config.trainer.max_steps
    config.trainer.max_steps = steps
    _scale_rates(config.model.get("init_args", {}).get("lr_scheduler"), factor)
    config.scoring.anneal_steps = scaled(config.scoring.anneal_steps, factor)
    for name in _WAYS:
        if (way := config.scoring.reward_schedule[name]) is not None:
            way.steps = scaled(way.steps, factor)
    # often enough for one
    every = config.checkpoint.every_n_train_steps
    config.checkpoint.every_n_train_steps = None if every is None else min(every, steps)


def _scale_rates(config: Any, factor: float) -> None:
    """Learning-rate schedules, those inside of others among them."""
    values = vars(config) if isinstance(config, Namespace) else config
    if isinstance(values, list):
        for item in values:
            _scale_rates(item, factor)
    elif isinstance(values, dict):
        for name, value in values.items():
            if name in _LENGTHS and value is not None:
                values[name] = scaled(value, factor)
            elif name == "milestones":
                values[name] = [scaled(milestone, factor) for milestone in value]
            else:
                _scale_rates(value, factor)
