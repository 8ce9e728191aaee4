"""Every key of an RL job: its effect on the configuration, or its refusal in one line."""

from __future__ import annotations

from typing import Any

import pytest

from synthstats_lightning.jobs.translation import KEYS, nested, translate
from synthstats_lightning.jobs.translation.bundled import ADAPTER_FILES, BUNDLED
from synthstats_lightning.jobs.translation.configuration import get, shipped
from synthstats_lightning.jobs.translation.graph import BASES
from synthstats_lightning.policy import loading
from synthstats_lightning.policy.base_identity import BASE_FILE
from tests.jobs.test_rl_refusals import EPISODES, JUDGED, MANY, REFUSALS, SERVED, STEPWISE

INIT = "model.init_args"
OBJECTIVE = f"{INIT}.objective.class_path"
SAMPLING = "scoring.sampling"
TERM = "scoring.reward.terms.1.init_args"

EFFECTS: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("algorithm.type", "online", {}, {"model.class_path": "GFlowNetModule"}),
    ("algorithm.method", "policy_gradient", {}, {OBJECTIVE: "GSPO"}),
    ("algorithm.method", "gflownet", {}, {OBJECTIVE: "TrajectoryBalance"}),
    ("algorithm.variety", "subtb", {}, {OBJECTIVE: "SubTrajectoryBalance"}),
    ("algorithm.variety", "grpo", {"algorithm.method": "policy_gradient"}, {OBJECTIVE: "GRPO"}),
    ("algorithm.variety", "rloo", {"algorithm.method": "policy_gradient"}, {OBJECTIVE: "RLOO"}),
    ("policy.base", "tiny", {}, {f"{INIT}.policy": "tiny", "trainer.accelerator": "cpu"}),
    (
        "policy.base",
        "Qwen/Qwen3-0.6B",
        {},
        {
            f"{INIT}.policy": "Qwen/Qwen3-0.6B",
            "trainer.accelerator": "gpu",
            "trainer.precision": "bf16-mixed",
        },
    ),
    ("policy.source", "runs/a/step5.ckpt", {}, {"ckpt_path": "runs/a/step5.ckpt", f"{INIT}.policy": None}),
    ("policy.source", "runs/a/adapter", {}, {f"{INIT}.adapter": "runs/a/adapter"}),
    ("policy.trainer_mode", "lora", {}, {f"{INIT}.trainer_mode": "lora"}),
    ("policy.trainer_mode", "full", {}, {f"{INIT}.trainer_mode": "full"}),
    (
        "policy.trainer_mode",
        "qlora",
        {"policy.base": "Qwen/Qwen3-4B", "compute.gpu_type": "H100"},
        {f"{INIT}.trainer_mode": "qlora", f"{INIT}.model.dtype": "bfloat16"},
    ),
    (
        "policy.label",
        "mine",
        {},
        {"trainer.logger.init_args.name": "mine", "trainer.default_root_dir": "runs/mine"},
    ),
    ("services.verifier_url", "http://127.0.0.1:9", JUDGED, {f"{TERM}.base_url": "http://127.0.0.1:9"}),
    ("rollout.env_name", "surgical", {}, {"data.init_args.tasks": ["surgical"]}),
    (
        "rollout.env_name",
        "death_process",
        {"rollout.env_config": {"seed": 3}},
        {"data.init_args.tasks.0.init_args": {"simulator": "death_process", "seed": 3}},
    ),
    (
        "rollout.env_name",
        "rods.csv",
        {"rollout.env_config": {"response": "y"}},
        {"data.init_args.tasks.0.init_args": {"path": "rods.csv", "response": "y"}},
    ),
    (
        "rollout.env_name",
        "mine.Task",
        {},
        {"data.init_args.tasks.0": {"class_path": "mine.Task", "init_args": {}}},
    ),
    (
        "rollout.env_config",
        {"instances": 3, "num_observations": 5},
        {"rollout.env_name": "death_process"},
        {
            "data.init_args.tasks.0.init_args": {
                "simulator": "death_process",
                "instances": 3,
                "first_seed": 0,
                "num_observations": 5,
            }
        },
    ),
    ("rollout.policy_name", "vllm", SERVED, {"rollouts.url": "http://127.0.0.1:8000"}),
    ("rollout.policy_name", "local", {}, {"rollouts": None}),
    (
        "rollout.policy_config",
        {"temperature": 1.1, "max_new_tokens": 99, "thoughts": "latent"},
        {},
        {
            f"{SAMPLING}.temperature": 1.1,
            f"{SAMPLING}.max_new_tokens": 99,
            f"{INIT}.sampling.max_new_tokens": 99,
            f"{INIT}.model.thoughts": "latent",
        },
    ),
    (
        "rollout.max_turns",
        4,
        EPISODES,
        {"data.init_args.tasks.0.init_args.turns": 4, f"{INIT}.policy": "tiny-episodes"},
    ),
    ("rollout.episodes_per_batch", 12, MANY, {"scoring.programs_per_step": 4}),
    ("rollout.max_concurrent_rollouts", 7, {}, {"scoring.max_in_flight": 7}),
    ("rollout.batches_per_step", 3, {"training.group_size": 5}, {"scoring.programs_per_step": 15}),
    (
        "training.num_epochs",
        2,
        {},
        {
            "trainer.max_steps": 100,
            f"{INIT}.lr_scheduler.init_args.T_max": 100,
            "scoring.anneal_steps": 100,
            "data.init_args.steps_per_epoch": 50,
        },
    ),
    (
        "training.iterations_per_epoch",
        3,
        {"training.num_epochs": 2},
        {"trainer.max_steps": 6, "data.init_args.steps_per_epoch": 3, "checkpoint.every_n_train_steps": 6},
    ),
    (
        "training.gradient_accumulation_steps",
        4,
        {"training.iterations_per_epoch": 3},
        {"trainer.accumulate_grad_batches": 4, "data.init_args.steps_per_epoch": 12},
    ),
    (
        "training.max_accumulated_minibatch",
        2,
        {"training.gradient_accumulation_steps": 4},
        {"trainer.accumulate_grad_batches": 2},
    ),
    (
        "training.max_turns",
        4,
        {"rollout.env_name": "death_process"},
        {"data.init_args.tasks.0.init_args.turns": 4},
    ),
    ("training.batch_size", 9, {}, {"data.init_args.batch_size": 9}),
    ("training.group_size", 6, {}, {"scoring.programs_per_step": 6}),
    ("training.learning_rate", 1e-4, {}, {f"{INIT}.optimizer.init_args.lr": 1e-4}),
    ("training.log_interval", 2, {}, {"trainer.log_every_n_steps": 2}),
    ("training.weight_sync_interval", 5, SERVED, {"rollouts.publish_every": 5}),
    ("training.weight_sync.enable", True, SERVED, {"rollouts.url": SERVED["vllm.url"]}),
    ("training.weight_sync.targets", ["policy"], SERVED, {"rollouts.url": SERVED["vllm.url"]}),
    ("training.weight_sync.mode", "direct", SERVED, {"rollouts.url": SERVED["vllm.url"]}),
    ("training.weight_sync.direct", True, SERVED, {"rollouts.url": SERVED["vllm.url"]}),
    ("training.weight_sync.verify_every_k", 1, SERVED, {"rollouts.url": SERVED["vllm.url"]}),
    ("training.lora.r", 8, {}, {f"{INIT}.lora.rank": 8}),
    ("training.lora.alpha", 24, {}, {f"{INIT}.lora.alpha": 24}),
    ("training.lora.dropout", 0.1, {}, {f"{INIT}.lora.dropout": 0.1}),
    ("training.lora.target_modules", ["q_proj"], {}, {f"{INIT}.lora.target_modules": ["q_proj"]}),
    ("training.lora.target_modules", "q_proj", {}, {f"{INIT}.lora.target_modules": ["q_proj"]}),
    ("training.lora.target_modules", "all-linear", {}, {f"{INIT}.lora.target_modules": "all-linear"}),
    ("training.rewards.step_rewards_enabled", True, STEPWISE, {OBJECTIVE: "ActionSubTrajectoryBalance"}),
    ("training.rewards.step_rewards_enabled", False, STEPWISE, {OBJECTIVE: "TrajectoryBalance"}),
    ("training.rewards.step_rewards_mode", "off", STEPWISE, {OBJECTIVE: "TrajectoryBalance"}),
    ("training.rewards.step_rewards_mode", "env_sparse", STEPWISE, {OBJECTIVE: "TrajectoryBalance"}),
    (
        "training.rewards.step_rewards_indicator_lambda",
        0.3,
        STEPWISE,
        {f"{INIT}.objective.init_args.auxiliary_weight": 0.3},
    ),
    (
        "training.rewards.step_rewards_strategy",
        "linear",
        STEPWISE,
        {f"{INIT}.objective.init_args.potentials": "linear"},
    ),
    (
        "training.rewards.step_rewards_beta",
        0.5,
        STEPWISE,
        {f"{INIT}.objective.init_args.information": 0.5},
    ),
    ("training.rewards.event_rewards_kind", "unique", {}, {"data.init_args.multiplicity": "program"}),
    ("training.rewards.event_rewards_kind", "absolute", {}, {"data.init_args.multiplicity": "text"}),
    (
        "evaluation.instances",
        2,
        MANY,
        {
            "unseen_tasks.tasks.1.init_args": {
                "simulator": "death_process",
                "seed": 1001,
                "num_observations": 5,
                "name": "death_process/1001",
            }
        },
    ),
    ("evaluation.seeds", [70, 71], MANY, {"unseen_tasks.tasks.0.init_args.seed": 70}),
    ("evaluation.every_n_iters", 25, {**MANY, "evaluation.instances": 1}, {"unseen_tasks.every_n_steps": 25}),
    ("verifier.type", "llm", JUDGED, {"scoring.reward.term_weights": "nats", f"{TERM}.model": "m"}),
    ("verifier.enabled", False, JUDGED, {"scoring.reward.terms": None}),
    ("verifier.timeout_s", 7, JUDGED, {f"{TERM}.timeout_s": 7}),
    (
        "verifier.reward_blend.outcome",
        0.3,
        {**JUDGED, "verifier.reward_blend.env": 0.7},
        {f"{TERM}.weight": 0.3, "scoring.reward.term_weights": "shares"},
    ),
    ("verifier.reward_blend.env", 2, JUDGED, {"scoring.reward.terms.0.init_args.weight": 2}),
    (
        "verifier.options.provider",
        "openai",
        {"verifier.options.model": "m"},
        {f"{TERM}.base_url": "https://api.openai.com/v1", f"{TERM}.api_key_env": "OPENAI_API_KEY"},
    ),
    ("verifier.options.model", "judge-1", JUDGED, {f"{TERM}.model": "judge-1"}),
    ("verifier.options.rubric_id", "default", JUDGED, {f"{TERM}.rubric": None}),
    ("verifier.options.rubric_overrides", "Is it short?", JUDGED, {f"{TERM}.rubric": "Is it short?"}),
    ("verifier.options.rubric_overrides", {"outcome": "Short?"}, JUDGED, {f"{TERM}.rubric": "Short?"}),
    ("verifier.options.tracks", ["outcome"], JUDGED, {f"{TERM}.weight": 1}),
    ("verifier.options.weights", {"outcome": 0.5}, JUDGED, {f"{TERM}.weight": 0.5}),
    ("verifier.options.max_concurrency", 9, JUDGED, {f"{TERM}.max_concurrency": 9}),
    ("compute.gpu_type", "cpu", {"policy.base": "Qwen/Qwen3-0.6B"}, {"trainer.accelerator": "cpu"}),
    ("compute.gpu_type", "H200", {}, {"trainer.accelerator": "gpu", "trainer.devices": 1}),
    (
        "compute.gpu_count",
        4,
        {},
        {"trainer.devices": 4, "trainer.strategy.class_path": "lightning.pytorch.strategies.DDPStrategy"},
    ),
    ("compute.gpu_count", 0, {"policy.base": "Qwen/Qwen3-0.6B"}, {"trainer.accelerator": "cpu"}),
    (
        "compute.topology.gpus_for_vllm",
        1,
        {"compute.gpu_count": 4, "compute.topology.type": "single_node_split"},
        {"trainer.devices": 3},
    ),
    ("compute.topology.gpus_for_training", 2, {"compute.gpu_count": 4}, {"trainer.devices": 2}),
    ("compute.topology.type", "single_node", {}, {"trainer.devices": 1}),
    ("compute.topology.nodes", 2, {}, {"trainer.num_nodes": 2}),
    ("compute.topology.gpus_for_ref", 0, {}, {"trainer.devices": 1}),
    ("compute.topology.tensor_parallel", 1, {}, {"trainer.devices": 1}),
    (
        "vllm.url",
        ["http://a:1", "http://b:1"],
        {"policy.base": "tiny"},
        {"rollouts.url": ["http://a:1", "http://b:1"]},
    ),
    ("vllm.base_model", "b", SERVED, {"rollouts.base_model": "b"}),
    ("vllm.keep", 3, SERVED, {"rollouts.keep": 3}),
    ("vllm.adapter_folder", "a", SERVED, {"rollouts.adapter_folder": "a"}),
    ("vllm.path_on_server", "/a", SERVED, {"rollouts.path_on_server": "/a"}),
    ("vllm.api_key_env", "KEY", SERVED, {"rollouts.api_key_env": "KEY"}),
    ("vllm.timeout_s", 5.0, SERVED, {"rollouts.timeout_s": 5.0}),
    ("vllm.patience_s", 6.0, SERVED, {"rollouts.patience_s": 6.0}),
    ("vllm.overlap", False, SERVED, {"rollouts.overlap": False}),
    ("vllm.max_gap", 0.1, SERVED, {"rollouts.max_gap": 0.1}),
    ("tags", {"team": "a", "n": 1}, {}, {"trainer.callbacks.1.init_args.tags": {"team": "a", "n": 1}}),
]
"""Key, value, what else the job says, and paths of the configuration with what they hold then."""


ISSUE = {
    "algorithm.type",
    "algorithm.method",
    "algorithm.variety",
    "policy.source",
    "policy.base",
    "policy.trainer_mode",
    "policy.label",
    "services.task_url",
    "services.verifier_url",
    "rollout.env_name",
    "rollout.policy_name",
    "rollout.env_config",
    "rollout.policy_config",
    "rollout.max_turns",
    "rollout.episodes_per_batch",
    "rollout.max_concurrent_rollouts",
    "rollout.batches_per_step",
    "training.num_epochs",
    "training.iterations_per_epoch",
    "training.gradient_accumulation_steps",
    "training.max_accumulated_minibatch",
    "training.max_turns",
    "training.batch_size",
    "training.group_size",
    "training.learning_rate",
    "training.log_interval",
    "training.weight_sync_interval",
    "training.weight_sync.enable",
    "training.weight_sync.targets",
    "training.weight_sync.mode",
    "training.weight_sync.direct",
    "training.weight_sync.verify_every_k",
    "training.lora.r",
    "training.lora.alpha",
    "training.lora.dropout",
    "training.lora.target_modules",
    "training.rewards.step_rewards_enabled",
    "training.rewards.step_rewards_mode",
    "training.rewards.step_rewards_indicator_lambda",
    "training.rewards.step_rewards_beta",
    "training.rewards.step_rewards_strategy",
    "training.rewards.event_rewards_kind",
    "evaluation.instances",
    "evaluation.every_n_iters",
    "evaluation.seeds",
    "verifier.type",
    "verifier.timeout_s",
    "verifier.enabled",
    "verifier.reward_blend.env",
    "verifier.reward_blend.event",
    "verifier.reward_blend.outcome",
    "verifier.options.provider",
    "verifier.options.model",
    "verifier.options.rubric_id",
    "verifier.options.rubric_overrides",
    "verifier.options.tracks",
    "verifier.options.weights",
    "verifier.options.max_concurrency",
    "compute.gpu_type",
    "compute.gpu_count",
    "tags",
}
"""Keys that other systems' job files have."""


def at(configuration: Any, path: str) -> Any:
    """The value at a dotted path in which numbers are places in lists; `None` where there is none."""
    for part in path.split("."):
        if isinstance(configuration, list):
            configuration = configuration[int(part)] if int(part) < len(configuration) else None
        else:
            configuration = configuration.get(part) if isinstance(configuration, dict) else None
    return configuration


@pytest.mark.parametrize(("key", "value", "beside", "expected"), EFFECTS, ids=lambda each: str(each)[:40])
def test_effect(key: str, value: Any, beside: dict[str, Any], expected: dict[str, Any]) -> None:
    found = translate(nested({**beside, key: value}), "rl")
    assert not found.problems
    for path, wanted in expected.items():
        assert at(found.configuration, path) == wanted, path


def test_every_key_is_tried() -> None:
    tried = {case[0] for case in EFFECTS} | {case[0] for case in REFUSALS} | {"smoke.enabled", "smoke.only"}
    assert tried >= ISSUE
    assert {key.name for key in KEYS["rl"]} == tried


def test_bundled_policies_are_those_that_there_are() -> None:
    assert tuple(loading.BUNDLED) == BUNDLED
    assert BASE_FILE in ADAPTER_FILES


def test_smoke() -> None:
    assert translate({"smoke": {"enabled": True}}).smoke == "first"
    assert translate({"smoke": {"only": True}}).smoke == "only"
    assert translate({}, "rl").smoke == "no"


@pytest.mark.parametrize("kind", KEYS)
def test_defaults_that_the_table_leaves_to_the_configuration_are_there(kind: Any) -> None:
    usual = shipped(*{"rl": ["quickstart"], "sft": ["warm_start"], "graph": BASES}[kind])
    own = {"rollouts": 0, "unseen_tasks": 0}  # sections whose defaults are those of their classes
    for key in KEYS[kind]:
        assert key.effect.endswith("."), key.name
        if key.path and key.default is None and key.path.split(".")[0] not in own:
            assert get(usual, key.path, "none") is not None, key.name
