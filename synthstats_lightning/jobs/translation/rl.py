"""From a job that learns from rewards to the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthstats_lightning.jobs.translation.bundled import base_of, misspelt, policy_configs
from synthstats_lightning.jobs.translation.configuration import shipped
from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.environment import Environment, translate_environment
from synthstats_lightning.jobs.translation.hardware import translate_compute, translate_mode
from synthstats_lightning.jobs.translation.placing import EVENTS_CALLBACK, place_run
from synthstats_lightning.jobs.translation.rl_keys import RL_KEYS
from synthstats_lightning.jobs.translation.server import translate_server
from synthstats_lightning.jobs.translation.varieties import GFLOWNET, POLICY_GRADIENT, USUAL, VARIETIES
from synthstats_lightning.jobs.translation.verifier import translate_verifier

BASE = "quickstart"
"""The configuration that a job's goes over."""
EPISODES = "episodes/dugongs"
"""What goes over it where the policy experiments."""
STEP_KEYS = tuple(
    f"training.rewards.step_rewards_{name}" for name in ("mode", "indicator_lambda", "strategy", "beta")
)
"""Keys that count where step rewards are enabled."""
STEPWISE = "objective/action_sub_trajectory_balance"
ADAPTER_CALLBACK = "synthstats_lightning.callbacks.course.best_adapter.BestAdapter"


def translate_rl(values: Mapping[str, Any]) -> Draft:
    """The configuration of a job that learns from rewards.

    Args:
        values: Values by dotted key, all of the right type.
    """
    found = Draft(values, {})
    environment = translate_environment(found)
    policy = _policy(found, environment)
    objective = _objective(found, environment)
    names = [BASE, *([EPISODES] if environment.episodes else [])]
    names += policy_configs(policy, environment.episodes)
    names += [objective] if objective is not None else []
    draft = Draft(values, shipped(*names), found.problems, found.warnings)
    if policy is not None:
        draft.put("model.init_args.policy", policy)
    _length(draft)
    draft.pass_on(RL_KEYS)
    _source(draft)
    draft.put("data.init_args.tasks", environment.tasks)
    _programs(draft, environment)
    _sampling(draft)
    _step_rewards(draft)
    draft.put_layers()
    translate_compute(draft)
    translate_mode(draft, "policy.trainer_mode", draft.given("policy.trainer_mode", "lora"))
    translate_verifier(draft)
    translate_server(draft, on_policy=draft.given("algorithm.method") == "policy_gradient")
    _evaluation(draft, environment)
    label = draft.given("policy.label", "rl")
    events = {"kind": "rl", "label": label, "tags": draft.given("tags", {})}
    draft.add_callbacks(
        {"class_path": ADAPTER_CALLBACK}, {"class_path": EVENTS_CALLBACK, "init_args": events}
    )
    place_run(draft, label)
    return draft


def _policy(draft: Draft, environment: Environment) -> str | None:
    """The base model, where the job says it; `None` for that of the base configuration."""
    base, source = draft.given("policy.base"), draft.given("policy.source")
    if source is None:
        if base is not None and (near := misspelt(base)) is not None:
            draft.refuse("policy.base", f"a bundled policy (nearest: {near}), a folder or a model of a hub")
            return near  # so that what it takes is no problem besides
        return str(base) if base is not None else None
    if base is not None:
        draft.problems.append("policy must have base or source, and has both")
        return str(base)
    try:
        return None if source.endswith(".ckpt") else base_of(source)
    except ValueError as error:
        draft.refuse("policy.source", f"an adapter whose files can be read ({error})")
        return None


def _source(draft: Draft) -> None:
    source = draft.given("policy.source")
    if source is None:
        return
    if source.endswith(".ckpt"):
        draft.put("ckpt_path", source)
        for name in ("policy", "lora"):  # the checkpoint's hold
            draft.configuration["model"]["init_args"].pop(name, None)
    else:
        draft.put("model.init_args.adapter", source)


def _objective(draft: Draft, environment: Environment) -> str | None:
    method = draft.given("algorithm.method")
    variety = draft.given("algorithm.variety", USUAL[method or "gflownet"])
    of_method = POLICY_GRADIENT if method == "policy_gradient" else GFLOWNET
    if variety not in of_method:
        draft.refuse("algorithm.variety", f"one of {', '.join(of_method)} for {method or 'gflownet'}")
    found = VARIETIES[variety]
    if not draft.given("training.rewards.step_rewards_enabled"):
        for name in STEP_KEYS:
            if draft.given(name, "off") != "off":
                draft.warnings.append(f"{name} has no effect without step_rewards_enabled = true")
        return found
    if draft.given("training.rewards.step_rewards_mode", "off") != "decision_stepwise":
        for name in STEP_KEYS[1:3]:
            if name in draft.values:
                draft.warnings.append(f"{name} has no effect without step_rewards_mode = 'decision_stepwise'")
        return found
    if method == "policy_gradient":
        draft.refuse(STEP_KEYS[0], "'env_sparse' or 'off' for policy_gradient")
    elif not environment.episodes:
        draft.refuse(STEP_KEYS[0], "'off' where rollout.max_turns is 1: one action")
    elif variety not in ("tb", "action_subtb"):
        draft.refuse(
            "training.rewards.step_rewards_mode", f"'off' for variety {variety!r}, or the variety tb"
        )
    return STEPWISE


def _step_rewards(draft: Draft) -> None:
    section = "training.rewards"
    kind = draft.given(f"{section}.event_rewards_kind")
    if kind is not None:
        draft.put("data.init_args.multiplicity", {"unique": "program", "absolute": "text"}[kind])
    if not draft.given(f"{section}.step_rewards_enabled", False):
        return
    beta = draft.given(f"{section}.step_rewards_beta", 0)
    if draft.given(f"{section}.step_rewards_mode") == "decision_stepwise":
        for name, argument in (
            ("step_rewards_indicator_lambda", "auxiliary_weight"),
            ("step_rewards_strategy", "potentials"),
            ("step_rewards_beta", "information"),
        ):
            if (value := draft.given(f"{section}.{name}")) is not None:
                draft.put(f"model.init_args.objective.init_args.{argument}", value)
        if beta and draft.given(f"{section}.step_rewards_strategy") == "linear":
            draft.refuse(f"{section}.step_rewards_beta", "0 with step_rewards_strategy 'linear'")
    elif beta:
        draft.refuse(f"{section}.step_rewards_beta", "0 without step_rewards_mode 'decision_stepwise'")


def _length(draft: Draft) -> None:
    """The number of steps, and everything that changes in proportion."""
    before = draft.get("trainer.max_steps")
    epochs, iterations = draft.given("training.num_epochs"), draft.given("training.iterations_per_epoch")
    iterations = iterations or draft.get("data.init_args.steps_per_epoch")
    epochs = epochs or max(1, before // draft.get("data.init_args.steps_per_epoch"))
    steps, factor = epochs * iterations, epochs * iterations / before
    batches = draft.given("training.gradient_accumulation_steps", 1)
    most = draft.given("training.max_accumulated_minibatch", batches)
    if batches > most:
        draft.warnings.append(
            f"training.gradient_accumulation_steps is {most}, by max_accumulated_minibatch, not {batches}"
        )
    draft.put("trainer.accumulate_grad_batches", min(batches, most))
    draft.put("trainer.max_steps", steps)
    draft.put("data.init_args.steps_per_epoch", iterations * min(batches, most))
    for path in ("model.init_args.lr_scheduler.init_args.T_max", "scoring.anneal_steps"):
        if length := draft.get(path):
            draft.put(path, max(1, round(length * factor)))
    every = "checkpoint.every_n_train_steps"
    draft.put(every, min(draft.get(every), steps))


def _programs(draft: Draft, environment: Environment) -> None:
    """Programs of a sampling round."""
    group, batch = draft.given("training.group_size"), draft.given("rollout.episodes_per_batch")
    tasks = environment.number
    if batch is not None and batch % tasks:
        draft.refuse("rollout.episodes_per_batch", f"a multiple of the number of tasks, {tasks}")
    if batch is not None and group is not None and batch != group * tasks:
        draft.refuse(
            "rollout.episodes_per_batch", f"training.group_size times {tasks} tasks, {group * tasks}"
        )
    if batch is not None and group is None:
        group = max(1, batch // tasks)
    rounds = draft.given("rollout.batches_per_step", 1)
    draft.put("scoring.programs_per_step", (group or draft.get("scoring.programs_per_step")) * rounds)


_DRAWN = {"temperature", "temperature_high", "epsilon", "top_p", "max_new_tokens", "min_new_tokens"}


def _sampling(draft: Draft) -> None:
    """How training programs are drawn; lengths are the policy's everywhere."""
    given = draft.given("rollout.policy_config", {})
    for name, value in given.items():
        if name == "thoughts":
            draft.put("model.init_args.model.thoughts", value)
        elif name not in _DRAWN:
            known = ", ".join(sorted({*_DRAWN, "thoughts"}))
            draft.problems.append(f"rollout.policy_config.{name} is no key; there are {known}")
        else:
            draft.put(f"scoring.sampling.{name}", value)
            if name.endswith("_tokens"):
                draft.put(f"model.init_args.sampling.{name}", value)


def _evaluation(draft: Draft, environment: Environment) -> None:
    """Tasks that are never trained on."""
    if not draft.has("evaluation"):
        return
    instances, seeds = draft.given("evaluation.instances"), draft.given("evaluation.seeds")
    if instances is not None and seeds is not None and len(seeds) != instances:
        draft.refuse("evaluation.seeds", f"as many as evaluation.instances, {instances}")
    if environment.simulator is None:
        draft.problems.append(
            "evaluation needs a simulator as rollout.env_name, of which there are other instances, got"
            f" {draft.given('rollout.env_name', 'dugongs')!r}"
        )
        return
    seeds = seeds or [1000 + number for number in range(instances or 1)]
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        draft.refuse("evaluation.seeds", "a list of integers, at least 0, each once")
    if taken := sorted(set(seeds) & set(environment.seeds)):
        draft.problems.append(f"evaluation.seeds must be of instances that are not trained on, got {taken}")
    draft.put("unseen_tasks.tasks", [environment.instance(seed) for seed in seeds])
