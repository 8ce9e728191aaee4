"""From `[compute]` to devices, and what a policy's mode needs of them."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.draft import Draft

DDP = "lightning.pytorch.strategies.DDPStrategy"


def translate_compute(draft: Draft) -> None:
    """Puts accelerator, devices and strategy.

    Args:
        draft: The configuration in the making.
    """
    count = draft.given("compute.gpu_count")
    training = draft.given("compute.topology.gpus_for_training")
    serving = draft.given("compute.topology.gpus_for_vllm", 0)
    if count is not None and training is not None and training > count:
        draft.refuse("compute.topology.gpus_for_training", f"at most compute.gpu_count={count}")
    elif count is not None and training is None and serving >= max(count, 1):
        draft.refuse("compute.topology.gpus_for_vllm", f"below compute.gpu_count={count}")
    elif training is not None and count is not None and training + serving > count:
        draft.problems.append(
            f"compute.topology: gpus_for_training and gpus_for_vllm must be at most compute.gpu_count={count}"
            f" together, got {training} and {serving}"
        )
    if serving and draft.given("compute.topology.type", "single_node") != "single_node_split":
        draft.problems.append(
            "compute.topology.type must be 'single_node_split' where gpus_for_vllm is not 0,"
            f" got {draft.given('compute.topology.type', 'single_node')!r}"
        )
    if draft.given("compute.topology.gpus_for_ref", 0):
        draft.refuse("compute.topology.gpus_for_ref", "0: the reference is the policy without its adapter")
    if draft.given("compute.topology.tensor_parallel", 1) != 1:
        draft.refuse("compute.topology.tensor_parallel", "1: the policy is not sharded")
    nodes = draft.given("compute.topology.nodes", 1)
    if nodes > 1 and draft.given("compute.topology.type", "multi_node") != "multi_node":
        draft.refuse("compute.topology.type", f"'multi_node' where compute.topology.nodes is {nodes}")
    devices = training if training is not None else max(0, count - serving) if count is not None else None
    kind = draft.given("compute.gpu_type")
    kind = kind.lower() if kind is not None else None
    if kind == "cpu" and (count or training):
        draft.refuse("compute.gpu_type", "the name of a GPU where GPUs are asked for")
    elif kind not in (None, "cpu") and count == 0 and training is None:
        draft.refuse("compute.gpu_count", "at least 1 where compute.gpu_type is a GPU")
    if kind is None and devices is None:
        devices = 1
    elif kind == "cpu" or devices == 0:
        draft.put("trainer.accelerator", "cpu")
        devices = 1
    else:
        draft.put("trainer.accelerator", "gpu")
        devices = 1 if devices is None else devices
    draft.put("trainer.devices", devices)
    if devices > 1 or nodes > 1:
        draft.put("trainer.strategy", {"class_path": DDP, "init_args": {"timeout": "0:30:00"}})


def translate_mode(draft: Draft, name: str, mode: str) -> None:
    """Puts what of the policy is trained.

    Args:
        draft: The configuration in the making, with its devices.
        name: The key that says it.
        mode: `lora`, `qlora` or `full`.
    """
    if mode != "lora" or name in draft.values:
        draft.put("model.init_args.trainer_mode", mode)
    if mode == "qlora":
        if draft.get("trainer.accelerator") == "cpu":
            draft.problems.append(
                f"{name} must be 'lora' on a CPU, got 'qlora': 4-bit weights need a GPU (compute.gpu_type)"
            )
        draft.put("model.init_args.model.dtype", "bfloat16")
    elif mode == "full":
        if draft.get("model.init_args.adapter") is not None:
            draft.refuse(name, "'lora' or 'qlora' where policy.source is an adapter: give a model as base")
        if draft.has("training.lora"):
            draft.warnings.append(f"training.lora has no effect where {name} is 'full'")
