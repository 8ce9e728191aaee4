"""Every key of an SFT job: its effect on the configuration, or its refusal in one line."""

from __future__ import annotations

import re
from typing import Any

import pytest

from synthstats_lightning.jobs.translation import KEYS, nested, translate
from tests.jobs.test_rl_keys import at

INIT, HYPER, VALID = "model.init_args", "hyperparameters", "training.validation"
JOB = {"algorithm.type": "offline", "job.data": "examples.jsonl"}
GPUS = {"compute.gpu_count": 2}
STEPS = {f"{VALID}.evaluation_strategy": "steps", f"{VALID}.eval_steps": 10}

EFFECTS: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("algorithm.type", "offline", {}, {"data.class_path": "DemonstrationDataModule"}),
    ("algorithm.method", "sft", {}, {f"{INIT}.objective.class_path": "Supervised"}),
    ("job.model", "tiny", {}, {f"{INIT}.policy": "tiny"}),
    ("job.model", "Qwen/Qwen3-0.6B", {}, {f"{INIT}.model.dtype": "bfloat16", "trainer.accelerator": "gpu"}),
    ("job.data", "a.jsonl", {}, {"data.init_args.examples": "a.jsonl"}),
    ("job.data_path", "a.jsonl", {"job.data": None}, {"data.init_args.examples": "a.jsonl"}),
    ("job.label", "mine", {}, {"trainer.logger.init_args.name": "mine"}),
    ("data.validation_path", "v.jsonl", {}, {"data.init_args.validation_examples": "v.jsonl"}),
    ("training.mode", "lora", {}, {f"{INIT}.trainer_mode": "lora"}),
    ("training.mode", "full", {}, {f"{INIT}.trainer_mode": "full"}),
    ("training.mode", "qlora", GPUS, {f"{INIT}.trainer_mode": "qlora"}),
    ("training.use_qlora", True, GPUS, {f"{INIT}.trainer_mode": "qlora"}),
    ("training.lora.r", 4, {}, {f"{INIT}.lora.rank": 4}),
    ("training.lora.alpha", 8, {}, {f"{INIT}.lora.alpha": 8}),
    ("training.lora.dropout", 0.2, {}, {f"{INIT}.lora.dropout": 0.2}),
    ("training.lora.target_modules", ["q_proj"], {}, {f"{INIT}.lora.target_modules": ["q_proj"]}),
    (f"{VALID}.enabled", False, {}, {"data.init_args.validation_share": 0.0, "checkpoint.monitor": None}),
    (
        f"{VALID}.enabled",
        True,
        {},
        {"data.init_args.validation_share": 0.1, "checkpoint.monitor": "val/loss"},
    ),
    (f"{VALID}.evaluation_strategy", "no", {}, {"data.init_args.validation_share": 0.0}),
    (f"{VALID}.evaluation_strategy", "epoch", {}, {"trainer.val_check_interval": None}),
    (
        f"{VALID}.eval_steps",
        10,
        {**STEPS, f"{HYPER}.gradient_accumulation_steps": 3},
        {"trainer.val_check_interval": 30, "trainer.check_val_every_n_epoch": None},
    ),
    (f"{VALID}.save_best_model_at_end", False, {}, {"checkpoint.monitor": None}),
    (f"{VALID}.save_best_model_at_end", True, {}, {"checkpoint.monitor": "val/loss"}),
    (f"{VALID}.metric_for_best_model", "eval_loss", {}, {"checkpoint.monitor": "val/loss"}),
    (f"{VALID}.greater_is_better", False, {}, {"checkpoint.mode": "min"}),
    (f"{HYPER}.n_epochs", 7, {}, {"trainer.max_epochs": 7}),
    (
        f"{HYPER}.batch_size",
        48,
        {f"{HYPER}.per_device_batch": 8, **GPUS},
        {"data.init_args.batch_size": 8, "trainer.accumulate_grad_batches": 3},
    ),
    (f"{HYPER}.batch_size", 48, GPUS, {"data.init_args.batch_size": 24}),
    (f"{HYPER}.global_batch", 16, {}, {"data.init_args.batch_size": 16}),
    (f"{HYPER}.per_device_batch", 8, {}, {"data.init_args.batch_size": 8}),
    (f"{HYPER}.gradient_accumulation_steps", 4, {}, {"trainer.accumulate_grad_batches": 4}),
    (f"{HYPER}.sequence_length", 700, {}, {"data.init_args.max_tokens": 700}),
    (f"{HYPER}.learning_rate", 3e-4, {}, {f"{INIT}.optimizer.init_args.lr": 3e-4}),
    (f"{HYPER}.warmup_ratio", 0.1, {}, {"trainer.callbacks.0.init_args": {"share": 0.1}}),
    (f"{HYPER}.train_kind", "peft", {}, {f"{INIT}.lora.rank": 16}),
    (
        f"{HYPER}.train_kind",
        "peft",
        {"training.use_qlora": True, **GPUS},
        {f"{INIT}.trainer_mode": "qlora"},
    ),
    (f"{HYPER}.weight_decay", 0.05, {}, {f"{INIT}.optimizer.init_args.weight_decay": 0.05}),
    (f"{HYPER}.parallelism.bf16", True, {}, {"trainer.precision": "bf16-mixed"}),
    (f"{HYPER}.parallelism.fp16", False, {}, {"trainer.precision": None}),
    (
        f"{HYPER}.parallelism.activation_checkpointing",
        True,
        {},
        {f"{INIT}.model.gradient_checkpointing": True},
    ),
    ("compute.gpu_type", "H100", {}, {"trainer.accelerator": "gpu"}),
    ("compute.gpu_count", 2, {}, {"trainer.devices": 2}),
    ("compute.topology.nodes", 2, {}, {"trainer.num_nodes": 2}),
    ("tags", {"a": 1}, {}, {"trainer.callbacks.0.init_args.tags": {"a": 1}}),
]
REFUSALS: list[tuple[str, Any, dict[str, Any], str]] = [
    ("algorithm.method", "dpo", {}, "algorithm.method must be 'sft', got 'dpo'"),
    ("job.data", "a", {"job.data_path": "b"}, "job must have data or data_path, and has both"),
    ("job.data", None, {}, "job.data must name a file of examples"),
    ("data.validation_path", "v", {f"{VALID}.enabled": False}, "must be left out where nothing is validated"),
    ("training.mode", "qlora", {}, "training.mode must be 'lora' on a CPU"),
    ("training.mode", "lora", {**GPUS, "training.use_qlora": True}, "training.mode must be said once, got"),
    (f"{VALID}.eval_steps", 5, {}, "eval_steps must be left out for the strategy 'epoch'"),
    (f"{VALID}.evaluation_strategy", "steps", {}, "eval_steps must be given for the strategy 'steps'"),
    (f"{VALID}.metric_for_best_model", "accuracy", {}, "metric_for_best_model must be one of 'val/loss'"),
    (f"{VALID}.greater_is_better", True, {}, "greater_is_better must be false"),
    (
        f"{HYPER}.batch_size",
        10,
        {f"{HYPER}.per_device_batch": 4},
        "multiple of per_device_batch times processes, 4",
    ),
    (f"{HYPER}.batch_size", 9, GPUS, "must be a multiple of processes times batches a step, 2"),
    (f"{HYPER}.warmup_ratio", 1.5, {}, "warmup_ratio must be a finite number, at least 0 and at most 1"),
    (f"{HYPER}.train_kind", "full", {"training.mode": "lora"}, "training.mode must be said once"),
    *(
        (
            f"{HYPER}.parallelism.{name}",
            value,
            {},
            f"parallelism.{name} must be .*: (the policy is not|bf16 has)",
        )
        for name, value in (
            ("fsdp", True),
            ("fp16", True),
            ("fsdp_sharding_strategy", "FULL_SHARD"),
            ("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
            ("fsdp_use_orig_params", True),
            ("use_deepspeed", True),
            ("deepspeed_stage", 2),
            ("tensor_parallel_size", 2),
            ("pipeline_parallel_size", 2),
        )
    ),
]
ISSUE = {
    "algorithm.type",
    "algorithm.method",
    "job.model",
    "job.data",
    "job.data_path",
    "data.validation_path",
    "training.mode",
    "training.use_qlora",
    "training.validation.enabled",
    "training.validation.evaluation_strategy",
    "training.validation.eval_steps",
    "training.validation.save_best_model_at_end",
    "training.validation.metric_for_best_model",
    "training.validation.greater_is_better",
    "hyperparameters.n_epochs",
    "hyperparameters.batch_size",
    "hyperparameters.global_batch",
    "hyperparameters.per_device_batch",
    "hyperparameters.gradient_accumulation_steps",
    "hyperparameters.sequence_length",
    "hyperparameters.learning_rate",
    "hyperparameters.warmup_ratio",
    "hyperparameters.train_kind",
    "hyperparameters.weight_decay",
    "hyperparameters.parallelism.fsdp",
    "hyperparameters.parallelism.bf16",
    "hyperparameters.parallelism.fp16",
    "hyperparameters.parallelism.activation_checkpointing",
}
"""Keys that other systems' job files have."""


def job(values: dict[str, Any]) -> dict[str, Any]:
    return nested({name: value for name, value in {**JOB, **values}.items() if value is not None})


@pytest.mark.parametrize(("key", "value", "beside", "expected"), EFFECTS, ids=lambda each: str(each)[:40])
def test_effect(key: str, value: Any, beside: dict[str, Any], expected: dict[str, Any]) -> None:
    found = translate(job({**beside, key: value}))
    assert found.kind == "sft"
    assert not found.problems
    for path, wanted in expected.items():
        assert at(found.configuration, path) == wanted, path


@pytest.mark.parametrize(("key", "value", "beside", "line"), REFUSALS, ids=lambda each: str(each)[:40])
def test_refusal(key: str, value: Any, beside: dict[str, Any], line: str) -> None:
    found = translate(job({**beside, key: value}))
    assert len(found.problems) == 1, found.problems
    assert re.search(line, found.problems[0]), found.problems[0]


def test_every_key_is_tried() -> None:
    tried = {case[0] for case in (*EFFECTS, *REFUSALS)}
    assert tried >= ISSUE
    shared = {key.name for key in KEYS["rl"] if key.name.startswith("compute.")}
    assert {key.name for key in KEYS["sft"]} <= tried | shared


def test_a_key_that_is_elsewhere_is_the_nearest() -> None:
    found = translate({"job": {"data": "x.jsonl"}, "hyperparameters": {"fp16": False}}, "sft")
    assert found.problems == [
        "hyperparameters.fp16 is no key of an SFT job; the nearest is hyperparameters.parallelism.fp16"
    ]
