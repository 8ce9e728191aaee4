"""Which of Lightning's strategies a run may use."""

from __future__ import annotations

SHARDING = ("fsdp", "modelparallel", "deepspeed")
"""Parts of the names of strategies that share one model's weights among processes."""


def check_strategy(strategy: object) -> None:
    """Refuses strategies that shard the policy: sampling needs all its weights in every process.

    Args:
        strategy: A strategy, its registered name, or its class path.

    Raises:
        ValueError: If it shards the model.
    """
    names = [strategy] if isinstance(strategy, str) else [kind.__name__ for kind in type(strategy).__mro__]
    for name in names:
        if any(part in name.lower().replace("_", "") for part in SHARDING):
            raise ValueError(
                f"strategy {names[0].rpartition('.')[2]!r} is not supported: it shards the policy, which"
                " samples and trains by turns; use 'auto' or 'ddp' (a large base fits with bfloat16 or 4-bit"
                " weights, gradient checkpointing and micro_batch_tokens)"
            )
