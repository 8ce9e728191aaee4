"""Every refusal of a key of RL jobs, in one line."""

from __future__ import annotations

import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning.jobs.translation import nested, translate

EPISODES = {"rollout.env_name": "death_process", "rollout.max_turns": 4}
STEPWISE = {
    **EPISODES,
    "training.rewards.step_rewards_enabled": True,
    "training.rewards.step_rewards_mode": "decision_stepwise",
}
SERVED = {"vllm.url": "http://127.0.0.1:8000", "policy.base": "tiny"}
JUDGED = {"services.verifier_url": "http://127.0.0.1:9", "verifier.options.model": "m"}
MANY = {"rollout.env_name": "death_process", "rollout.env_config": {"instances": 3, "num_observations": 5}}

REFUSALS: list[tuple[str, Any, dict[str, Any], str]] = [
    ("algorithm.variety", "gspo", {}, "algorithm.variety must be one of tb, .* for gflownet, got 'gspo'"),
    (
        "algorithm.variety",
        "tb",
        {"algorithm.method": "policy_gradient"},
        "must be one of grpo, gspo, rloo for",
    ),
    ("policy.source", "a", {"policy.base": "tiny"}, "policy must have base or source, and has both"),
    ("policy.base", "writr", {}, r"policy.base must be a bundled policy \(nearest: writer\), .*got 'writr'$"),
    (
        "policy.trainer_mode",
        "full",
        {"policy.source": "a/adapter"},
        "must be 'lora' or 'qlora' where policy.source is an adapter.*, got 'full'",
    ),
    ("policy.trainer_mode", "qlora", {}, "must be 'lora' on a CPU, got 'qlora'"),
    ("policy.label", "a/b", {}, "policy.label must be a name of a folder, .* got 'a/b'"),
    ("policy.label", "a\0b", {}, "policy.label must be a name of a folder, "),
    ("policy.label", "\u00e9" * 128, {}, "policy.label must be a name of a folder, of at most 255 bytes"),
    (
        "services.task_url",
        "http://x",
        {},
        "services.task_url is not supported: programs are built and scored",
    ),
    ("services.verifier_url", "http://x", {}, r"services.verifier_url needs a \[verifier\]"),
    (
        "rollout.env_name",
        "dugnogs",
        {},
        r"rollout.env_name must be one of .* got 'dugnogs' \(nearest: dugongs",
    ),
    ("rollout.env_name", "rods.csv", {}, "rollout.env_config.response must name the column"),
    ("rollout.env_name", "rods.yaml", {}, "must be the file of data itself .*, got 'rods.yaml'"),
    (
        "rollout.env_config",
        {"first_seed": 3},
        {"rollout.env_name": "death_process"},
        "env_config.first_seed must be left out where there are no instances, .* got 3",
    ),
    (
        "rollout.env_config",
        {"instances": 2, "seed": 1, "first_seed": 3},
        {"rollout.env_name": "death_process"},
        "env_config.first_seed must be left out where .* seed says it, got 3",
    ),
    (
        "rollout.env_config",
        {"seed": -1},
        {"rollout.env_name": "death_process"},
        "rollout.env_config.seed must be an integer, at least 0, got -1",
    ),
    ("rollout.env_config", {"a": 1}, {}, "rollout.env_config must be empty for the data set 'dugongs'"),
    (
        "rollout.env_config",
        {"sed": 1},
        {"rollout.env_name": "death_process"},
        "sed is no argument .* nearest is seed",
    ),
    ("rollout.policy_name", "vllm", {}, "vllm.url must say where the server is"),
    ("rollout.policy_name", "local", SERVED, "rollout.policy_name must be 'vllm' where vllm.url is given"),
    ("vllm.url", "http://a:1", {}, "vllm.url must be left out for the policy 'writer'.*policy.base says"),
    (
        "vllm.url",
        "http://a:1",
        {"policy.base": "writer"},
        "vllm.url must be left out for the policy 'writer'",
    ),
    ("rollout.policy_config", {"top_k": 5}, {}, "rollout.policy_config.top_k is no key; there are epsilon"),
    ("rollout.max_turns", 3, {}, "rollout.max_turns must be 1 where rollout.env_name is no simulator"),
    ("rollout.episodes_per_batch", 10, MANY, "must be a multiple of the number of tasks, 3, got 10"),
    (
        "rollout.episodes_per_batch",
        12,
        {"training.group_size": 5},
        "must be training.group_size times 1 tasks, 5",
    ),
    ("training.max_turns", 5, EPISODES, "training.max_turns must be as rollout.max_turns, 4, got 5"),
    ("training.weight_sync.enable", False, SERVED, "training.weight_sync.enable must be true"),
    ("training.weight_sync.targets", ["critic"], {}, "targets must be a list of 'policy', got"),
    ("training.weight_sync.mode", "disk", {}, "training.weight_sync.mode must be one of 'direct', 'adapter'"),
    ("training.weight_sync.direct", False, {}, "training.weight_sync.direct must be true"),
    ("training.weight_sync.verify_every_k", 4, {}, "verify_every_k must be 1: every version is checked"),
    (
        "training.weight_sync_interval",
        3,
        {**SERVED, "algorithm.method": "policy_gradient"},
        "training.weight_sync_interval must be 1 for policy_gradient",
    ),
    ("training.rewards.step_rewards_beta", -0.5, {}, "must be a finite number of nats a nat, at least 0"),
    (
        "training.rewards.step_rewards_beta",
        0.5,
        {**STEPWISE, "training.rewards.step_rewards_strategy": "linear"},
        "step_rewards_beta must be 0 with step_rewards_strategy 'linear'",
    ),
    (
        "training.rewards.step_rewards_beta",
        0.5,
        {**STEPWISE, "training.rewards.step_rewards_mode": "env_sparse"},
        "step_rewards_beta must be 0 without step_rewards_mode 'decision_stepwise'",
    ),
    ("training.rewards.step_rewards_strategy", "consistent", {}, "must be one of 'learned', 'linear'"),
    (
        "training.rewards.step_rewards_mode",
        "decision_stepwise",
        {"training.rewards.step_rewards_enabled": True},
        "step_rewards_mode must be 'off' where rollout.max_turns is 1",
    ),
    (
        "training.rewards.step_rewards_mode",
        "decision_stepwise",
        {**STEPWISE, "algorithm.method": "policy_gradient"},
        "must be 'env_sparse' or 'off' for policy_gradient",
    ),
    ("training.rewards.event_rewards_kind", "both", {}, "must be one of 'unique', 'absolute', got 'both'"),
    ("evaluation.instances", 2, {}, "evaluation needs a simulator as rollout.env_name"),
    (
        "evaluation.seeds",
        [71, 72],
        {**MANY, "evaluation.instances": 3},
        "must be as many as evaluation.instances, 3",
    ),
    ("evaluation.seeds", [71, 71], MANY, r"each once, got \[71, 71\]"),
    ("evaluation.seeds", [-2], MANY, r"must be a list of integers, at least 0, each once, got \[-2\]"),
    ("tags", {"day": date(2026, 1, 2)}, {}, "tags must be a table without dates, nan and inf, got"),
    ("tags", {"shares": [{"a": math.nan}]}, {}, "tags must be a table without dates, nan and inf, got"),
    ("evaluation.seeds", [1], MANY, r"must be of instances that are not trained on, got \[1\]"),
    ("verifier.type", "rules", JUDGED, "verifier.type must be 'llm', got 'rules'"),
    ("verifier.reward_blend.event", 0.5, JUDGED, "verifier.reward_blend.event must be 0: marks are given"),
    ("verifier.options.provider", "local", {"verifier.options.model": "m"}, "must say where the verifier is"),
    ("verifier.options.provider", "openai", {}, "verifier.options.model must name the model"),
    ("verifier.options.rubric_id", "x", JUDGED, "verifier.options.rubric_id must be 'default', got 'x'"),
    ("verifier.options.rubric_overrides", {"event": "x"}, JUDGED, "rubric_overrides.event is no track"),
    ("verifier.options.tracks", ["process"], JUDGED, "tracks must be a list of 'outcome', got"),
    ("verifier.options.weights", {"process": 1}, JUDGED, "weights.process is no track that is marked"),
    (
        "compute.gpu_type",
        "cpu",
        {"compute.gpu_count": 2},
        "gpu_type must be the name of a GPU where GPUs are",
    ),
    (
        "compute.gpu_type",
        "CPU",
        {"compute.gpu_count": 2},
        "gpu_type must be the name of a GPU where GPUs are",
    ),
    ("compute.gpu_count", 0, {"compute.gpu_type": "H200"}, "must be at least 1 where .* is a GPU, got 0"),
    ("compute.topology.gpus_for_ref", 1, {}, "gpus_for_ref must be 0: the reference is the policy without"),
    ("compute.topology.tensor_parallel", 2, {}, "tensor_parallel must be 1: the policy is not sharded"),
    ("compute.topology.gpus_for_vllm", 1, {"compute.gpu_count": 2}, "must be 'single_node_split' where"),
    (
        "compute.topology.gpus_for_training",
        9,
        {"compute.gpu_count": 2},
        "must be at most compute.gpu_count=2",
    ),
    ("compute.topology.nodes", 2, {"compute.topology.type": "single_node"}, "type must be 'multi_node'"),
    *(
        (f"vllm.{name}", value, SERVED, f"vllm.{name} is the server's own option: start it with --")
        for name, value in (
            ("tensor_parallel_size", 2),
            ("max_model_len", 4096),
            ("gpu_memory_utilization", 0.8),
            ("max_loras", 3),
            ("max_lora_rank", 32),
            ("dtype", "bfloat16"),
        )
    ),
]
"""Key, value, what else the job says, and what the one line says."""


@pytest.mark.parametrize(("key", "value", "beside", "line"), REFUSALS, ids=lambda each: str(each)[:40])
def test_refusal(key: str, value: Any, beside: dict[str, Any], line: str) -> None:
    found = translate(nested({**beside, key: value}), "rl")
    assert len(found.problems) == 1, found.problems
    assert re.search(line, found.problems[0]), found.problems[0]
    assert "\n" not in found.problems[0]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"vllm.keep": 3}, "vllm.keep"),
        ({"training.weight_sync_interval": 3}, "training.weight_sync_interval"),
        (
            {
                "training.rewards.step_rewards_enabled": True,
                "training.rewards.step_rewards_mode": "env_sparse",
                "training.rewards.step_rewards_indicator_lambda": 0.5,
            },
            "training.rewards.step_rewards_indicator_lambda",
        ),
    ],
)
def test_what_has_no_effect_is_said(given: dict[str, Any], name: str) -> None:
    found = translate(nested(given), "rl")
    assert not found.problems
    assert [line for line in found.warnings if line.startswith(f"{name} has no effect")]


@pytest.mark.parametrize("text", ["{oops", "[]"])
def test_an_adapter_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(text)
    (found,) = translate({"policy": {"source": str(tmp_path)}}).problems
    assert found.startswith("policy.source must be an adapter whose files can be read (")


@pytest.mark.parametrize(
    ("name", "config", "lines"),
    [
        (
            "dugongs_simulator",
            {"num_observations": "x", "held_out": True, "goal": "g", "response_range": "all", "instances": 0},
            [
                "num_observations must be an integer, got 'x'",
                "held_out must be an integer, got True",
                "response_range must be one of 'observed', 'prior', got 'all'",
                "instances must be an integer, at least 1, got 0",
            ],
        ),
        (
            "plants.csv",
            {
                "response": 3,
                "units": {"dose": "g", "length": 2},
                "ranges": {"dose": [0, "x"], "length": [0, 1], "age": [1]},
                "levels": {"dose": ["low", 1]},
                "rounding": "x",
                "total": 1.5,
                "columns": "dose",
                "views": "yes",
                "screen": 4,
            },
            [
                "response must be a text, got 3",
                "units.length must be a text, got 2",
                "ranges.dose.1 must be a finite number, got 'x'",
                "ranges.age must be a list of 2, each a finite number, got [1]",
                "levels.dose.1 must be a text, got 1",
                "rounding must be a finite number, got 'x'",
                "total must be a text or an integer, got 1.5",
                "columns must be a list, each a text, got 'dose'",
                "views must be true or false, got 'yes'",
            ],
        ),
        (
            "death_process",
            {"experiments": "many", "thoughts": "loud"},
            [
                "experiments must be an integer, got 'many'",
                "thoughts must be one of 'none', 'latent', 'stripped', got 'loud'",
            ],
        ),
        ("death_process", {"num_observations": 3, "design": [{"time": 1.0}, 2.0], "seed": 1}, []),
    ],
)
def test_values_of_a_task_are_all_told_at_once(name: str, config: dict[str, Any], lines: list[str]) -> None:
    turns = 4 if "experiments" in config else 1
    job = {"rollout": {"env_name": name, "env_config": config, "max_turns": turns}}
    assert translate(job, "rl").problems == [f"rollout.env_config.{line}" for line in lines]
