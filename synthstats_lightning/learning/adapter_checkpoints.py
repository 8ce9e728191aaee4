"""Checkpoints that hold what is trained, and no weights that never change."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.base_identity import differences

FORMAT = 2
"""Of what a module adds to a checkpoint."""


def save_adapter_only(module: nn.Module) -> None:
    """Has a module's state leave out the base weights of its `policy`, and not miss them when it is loaded.

    Args:
        module: The module whose checkpoints hold no base weights.
    """
    module.register_state_dict_post_hook(_drop_base_weights)  # type: ignore[no-untyped-call]
    module.register_load_state_dict_post_hook(_expect_no_base_weights)  # type: ignore[no-untyped-call]


def sign_checkpoint(checkpoint: dict[str, Any], policy: Policy) -> None:
    """Adds what the adapter belongs to, and the format.

    Args:
        checkpoint: What is going to be saved.
        policy: The policy, whose adapter is in it.
    """
    checkpoint["synthstats_format"] = FORMAT
    checkpoint["policy_identity"] = policy.identity()


def check_checkpoint(checkpoint: dict[str, Any], policy: Policy) -> None:
    """Refuses a checkpoint of another format or of another base model.

    Args:
        checkpoint: What was read.
        policy: The policy that takes the adapter.

    Raises:
        ValueError: If the format, what is trained, the base model or its tokenizer differ; with
            `check_base: false` of the policy's settings the last two are only warned of.
    """
    if checkpoint.get("synthstats_format") != FORMAT:
        raise ValueError(
            f"checkpoint of format {checkpoint.get('synthstats_format')!r}; this version reads {FORMAT}"
        )
    saved, present = checkpoint["policy_identity"], policy.identity()
    if (was := saved.get("trained", "adapter")) != (now := present["trained"]):
        raise ValueError(
            f"the checkpoint holds a policy whose trained part is {was}, this run's is {now}: give the"
            " `trainer_mode` of its run"
        )
    if keys := differences(saved, present):
        what = "; ".join(f"{key} was {saved[key]!r}, now {present[key]!r}" for key in keys)
        message = (
            f"the checkpoint's adapter belongs to another policy ({saved['name']!r}, now"
            f" {present['name']!r}): {what}"
        )
        if policy.settings.check_base:
            raise ValueError(f"{message}; `check_base: false` of the model takes it all the same")
        warnings.warn(message, stacklevel=2)


def _trainable(module: nn.Module) -> set[str]:
    return {name for name, parameter in module.named_parameters() if parameter.requires_grad}


def _drop_base_weights(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    kept = {prefix + name for name in _trainable(module)}
    for key in [key for key in state if key.startswith(prefix + "policy.") and key not in kept]:
        del state[key]


def _expect_no_base_weights(module: nn.Module, incompatible: Any) -> None:
    # As a submodule of another module, our keys carry a prefix that is not known here.
    trainable = tuple(_trainable(module))
    incompatible.missing_keys[:] = [
        key for key in incompatible.missing_keys if "policy." not in key or key.endswith(trainable)
    ]
