"""From a job that imitates examples to the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthstats_lightning.jobs.translation.bundled import BUNDLED, HUB
from synthstats_lightning.jobs.translation.configuration import shipped
from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.hardware import translate_compute, translate_mode
from synthstats_lightning.jobs.translation.placing import EVENTS_CALLBACK, place_run
from synthstats_lightning.jobs.translation.sft_keys import SFT_KEYS

BASE = "warm_start"
"""The configuration that a job's goes over."""
WARM_UP = "synthstats_lightning.jobs.warm_up.WarmUp"
_PARALLELISM = "hyperparameters.parallelism"
NEUTRAL = {
    "fp16": (False, "bf16 has the range that log-probabilities need"),
    "fsdp": (False, "the policy is not sharded; several GPUs train by DDP"),
    "fsdp_sharding_strategy": (None, "the policy is not sharded"),
    "fsdp_auto_wrap_policy": (None, "the policy is not sharded"),
    "fsdp_use_orig_params": (None, "the policy is not sharded"),
    "use_deepspeed": (False, "the policy is not sharded; several GPUs train by DDP"),
    "deepspeed_stage": (0, "the policy is not sharded"),
    "tensor_parallel_size": (1, "the policy is not sharded"),
    "pipeline_parallel_size": (1, "the policy is not sharded"),
}
"""Keys of parallelism that are not supported: the value that asks for nothing, and why."""


def translate_sft(values: Mapping[str, Any]) -> Draft:
    """The configuration of a job that imitates examples.

    Args:
        values: Values by dotted key, all of the right type.
    """
    model = values.get("job.model")
    names = [BASE, *([HUB] if model is not None and model not in BUNDLED else [])]
    draft = Draft(values, shipped(*names))
    for section in ("scoring", "report"):  # of runs that score programs
        draft.configuration.pop(section, None)
    draft.put("trainer.max_epochs", draft.get("trainer.max_epochs", 1))
    draft.pass_on(SFT_KEYS)
    _examples(draft)
    draft.put_layers()
    translate_compute(draft)
    translate_mode(draft, "training.mode", _mode(draft))
    _parallelism(draft)
    _batches(draft)
    _validation(draft)
    label = draft.given("job.label", "sft")
    if share := draft.given("hyperparameters.warmup_ratio", 0):
        draft.add_callbacks({"class_path": WARM_UP, "init_args": {"share": share}})
    events = {"kind": "sft", "label": label, "tags": draft.given("tags", {})}
    draft.add_callbacks({"class_path": EVENTS_CALLBACK, "init_args": events})
    place_run(draft, label)
    return draft


def _examples(draft: Draft) -> None:
    given = [draft.given(name) for name in ("job.data", "job.data_path") if draft.given(name) is not None]
    if not given:
        draft.problems.append("job.data must name a file of examples")
    elif len(given) > 1:
        draft.problems.append("job must have data or data_path, and has both")
    else:
        draft.put("data.init_args.examples", given[0])


def _mode(draft: Draft) -> str:
    """`lora`, `qlora` or `full`, said by any of three keys."""
    said = {}
    for name in ("training.mode", "hyperparameters.train_kind"):
        if (value := draft.given(name)) is not None:
            said[name] = "lora" if value == "peft" else str(value)
    if draft.given("training.use_qlora"):
        said["training.use_qlora"] = "qlora"
    if said.get("hyperparameters.train_kind") == "lora" and "qlora" in said.values():
        del said["hyperparameters.train_kind"]  # a base in 4 bits has an adapter, too
    if len(set(said.values())) > 1:
        told = ", ".join(f"{name} {value}" for name, value in said.items())
        draft.problems.append(f"training.mode must be said once, got {told}")
    return next(iter(said.values()), "lora")


def _parallelism(draft: Draft) -> None:
    for name, (neutral, why) in NEUTRAL.items():
        key = f"{_PARALLELISM}.{name}"
        value = draft.given(key)
        if value is not None and value != neutral:
            must = "left out" if neutral is None else str(neutral).lower()
            draft.problems.append(f"{key} must be {must}, got {str(value).lower()}: {why}")
    if (bf16 := draft.given(f"{_PARALLELISM}.bf16")) is not None:
        draft.put("trainer.precision", "bf16-mixed" if bf16 else "32-true")


def _batches(draft: Draft) -> None:
    """Examples of a step, of a batch, and batches of a step: any two say the third."""
    section = "hyperparameters"
    whole, part = draft.given(f"{section}.batch_size"), draft.given(f"{section}.per_device_batch")
    batches = draft.given(f"{section}.gradient_accumulation_steps")
    processes = draft.get("trainer.devices", 1) * draft.get("trainer.num_nodes", 1)
    if whole is None:
        return
    if part is None:
        divisor, name = processes * (batches or 1), f"{section}.batch_size"
        if whole % divisor:
            draft.refuse(name, f"a multiple of processes times batches a step, {divisor}")
        draft.put("data.init_args.batch_size", max(1, whole // divisor))
        return
    if batches is None:
        if whole % (part * processes):
            draft.refuse(
                f"{section}.batch_size", f"a multiple of per_device_batch times processes, {part * processes}"
            )
        draft.put("trainer.accumulate_grad_batches", max(1, whole // (part * processes)))
    elif whole != part * processes * batches:
        product = part * processes * batches
        draft.refuse(
            f"{section}.batch_size", f"per_device_batch times processes times batches a step, {product}"
        )


def _validation(draft: Draft) -> None:
    section = "training.validation"
    strategy = draft.given(f"{section}.evaluation_strategy", "epoch")
    steps = draft.given(f"{section}.eval_steps")
    if steps is not None and strategy != "steps":
        draft.refuse(f"{section}.eval_steps", f"left out for the strategy {strategy!r}")
    if draft.given(f"{section}.greater_is_better"):
        draft.refuse(f"{section}.greater_is_better", "false: a loss is better the lower it is")
    draft.put("checkpoint.mode", "min")
    if draft.given(f"{section}.enabled") is False or strategy == "no":
        if "data.validation_path" in draft.values:
            draft.refuse("data.validation_path", "left out where nothing is validated")
        draft.put("data.init_args.validation_share", 0.0)
        draft.put("checkpoint.monitor", None)
        return
    if strategy == "steps":
        if steps is None:
            draft.problems.append(f"{section}.eval_steps must be given for the strategy 'steps'")
        draft.put(
            "trainer.val_check_interval", (steps or 1) * draft.get("trainer.accumulate_grad_batches", 1)
        )
        draft.put("trainer.check_val_every_n_epoch", None)
    best = draft.given(f"{section}.save_best_model_at_end", True)
    draft.put("checkpoint.monitor", "val/loss" if best else None)
