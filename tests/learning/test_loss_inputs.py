"""What objectives ask for is what the module computes, once and no more."""

import pytest
import torch

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.loss_inputs import loss_inputs
from synthstats_lightning.objectives import (
    GRPO,
    FlowRL,
    LogVariance,
    ModifiedSubTrajectoryBalance,
    Objective,
    RapTB,
    RelativeTrajectoryBalance,
    SubTrajectoryBalance,
)
from synthstats_lightning.policy import LoraSettings, Policy, SamplingSettings
from synthstats_lightning.replay import Trajectory, collate, empty_batch

SETTINGS = {"lora": LoraSettings(rank=2), "seed": 3}


def made(**more):
    module = GFlowNetModule(**{**SETTINGS, **more})
    module.configure_model()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        for parameter in module.policy.parameters():
            if parameter.requires_grad:
                parameter += 0.02 * torch.randn_like(parameter)
    return module


@pytest.fixture(scope="module")
def module():
    return made(tasks=["a", "b"])


def batch(module, tasks=1):
    policy = module.loaded_policy
    prompts = {t: tuple(policy.encode_prompt("rules", f"request {t}")) for t in range(tasks)}
    rows = []
    for number in range(4):
        ids = policy.encode_program(f"x = 1\ny = {number}\n")
        ids = ids[:-1] if number == 3 else ids  # cut by the limit
        log_prob = [-7.0, float("inf")][number % 2]
        rows.append(Trajectory(number % tasks, tuple(ids), -20.0 - number, -21.0, log_prob))
    return collate(rows, prompts)


def test_nothing_that_was_not_asked_for_is_computed(module, monkeypatch):
    def never(*_, **__):
        raise AssertionError("not asked for")

    monkeypatch.setattr(Policy, "token_and_stop_log_probs", never)
    monkeypatch.setattr(Policy, "reference", never)
    inputs = loss_inputs(module.loaded_policy, batch(module), {"task_index"})
    assert inputs.log_prob.shape == (4,)
    assert inputs.hidden is None
    assert "token_log_probs" not in inputs.named


def test_what_was_asked_for_is_right(module):
    policy, given = module.loaded_policy, batch(module)
    needs = {
        *("token_log_probs", "stop_log_probs", "log_flow", "reference_token_log_probs", "forced_stop"),
        *("behaviour_log_prob", "action_ends", "mask", "reference_stop_log_probs"),
    }
    log_prob, named, hidden = loss_inputs(policy, given, needs)
    assert needs - {"log_flow"} <= named.keys()
    plain = loss_inputs(policy, given, set()).log_prob
    assert torch.allclose(log_prob, plain, atol=1e-4)
    assert torch.equal(named["token_log_probs"].sum(1), log_prob)
    assert named["forced_stop"].tolist() == [False, False, False, True]
    # +inf is for unknown: then the program counts as freshly sampled
    behaviour = named["behaviour_log_prob"]
    assert behaviour[::2].tolist() == [-7.0, -7.0]
    assert torch.equal(behaviour[1::2], log_prob[1::2].detach())
    assert not named["reference_token_log_probs"].requires_grad
    with torch.no_grad(), policy.evaluating(), policy.reference():
        reference = policy.program_log_probs(
            given.prompt_ids, given.program_ids, given.program_mask, given.prompt_mask
        )
    assert torch.allclose(named["reference_token_log_probs"].sum(1), reference, atol=1e-4)
    assert hidden.shape[:2] == given.program_ids.shape
    ends = [policy.tokenizer.decode([t]) for t in given.program_ids[0][named["action_ends"][0]].tolist()]
    assert len(ends) == 2
    assert all("\n" in text for text in ends)


def test_an_objective_that_asks_for_too_much_is_refused():
    with pytest.raises(ValueError, match="Balance needs prefix_known, prefix_log_reward"):
        GFlowNetModule(objective=ModifiedSubTrajectoryBalance(rewards="given"))


@pytest.mark.parametrize(
    "objective",
    [SubTrajectoryBalance(), RapTB(prior_weight=1.0), LogVariance(), FlowRL(prior_weight=1.0)],
    ids=lambda objective: type(objective).__name__,
)
@pytest.mark.parametrize("form", ["task", "scalar", "prompt"])
def test_every_parameter_has_a_gradient_and_log_z_its_own_group(objective: Objective, form):
    module = made(tasks=["a", "b"], objective=objective, log_z_form=form, log_z_lr=0.3, flow_lr=0.02)
    optimizer = module.configure_optimizers()
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert set(groups) == {"adapter", "log_z"} | ({"flow"} if module.flow_head is not None else set())
    assert (groups["log_z"]["lr"], groups["log_z"]["weight_decay"]) == (0.3, 0.0)
    given = batch(module, tasks=2)
    output = module.objective_loss(given)
    output.loss.backward()
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    assert all(p.grad is not None for p in trained)
    assert all(p.dtype == torch.float32 for p in groups["log_z"]["params"])
    log_prob = loss_inputs(module.loaded_policy, given, set()).log_prob
    estimate = torch.stack([(given.log_reward - log_prob)[given.task_index == t].mean() for t in (0, 1)])
    expected = estimate.mean().expand(2) if form == "scalar" else estimate
    assert torch.allclose(module.log_z.per_task(), expected, atol=1e-2)
    if not objective.learns_log_z:
        assert all((p.grad == 0).all() for p in groups["log_z"]["params"])


def test_log_z_follows_the_estimate_where_the_objective_learns_none():
    module = made(objective=LogVariance())
    given = batch(module)
    module.objective_loss(given)
    start = module.learned_log_z(0)
    with torch.no_grad():
        given.log_reward.add_(10.0)
    module.objective_loss(given)
    assert module.learned_log_z(0) == pytest.approx(start + 1.0, abs=1e-3)


def test_a_reset_reference_is_the_policy_as_it_was(monkeypatch):
    module = made(objective=RelativeTrajectoryBalance(log_z="batch", reset_reference_every=2))
    given = batch(module)
    step = {"now": 0}
    monkeypatch.setattr(GFlowNetModule, "global_step", property(lambda self: step["now"]))
    references = []
    seen = module.objective.compute
    monkeypatch.setattr(
        module.objective,
        "compute",
        lambda *a: references.append(a[3]["reference_log_prob"].clone()) or seen(*a),
    )
    current = []
    for step["now"] in range(5):
        current.append(loss_inputs(module.loaded_policy, given, set()).log_prob.detach())
        # the reference's pass stands between the policy's and its gradient
        module.objective_loss(given).loss.backward()
        with torch.no_grad():
            for parameter in module.loaded_policy.parameters():
                if parameter.requires_grad:
                    parameter *= 1.2
    assert torch.equal(references[0], given.reference_log_prob)
    assert torch.equal(references[1], given.reference_log_prob)
    assert torch.allclose(references[2], current[2], atol=1e-4)
    assert torch.allclose(references[3], current[2], atol=1e-4)
    assert torch.allclose(references[4], current[4], atol=1e-4)
    saved = {"hyper_parameters": dict(module.hparams)}
    module.on_save_checkpoint(saved)
    other = made(objective=RelativeTrajectoryBalance(log_z="batch", reset_reference_every=2))
    other.on_load_checkpoint(saved)
    for name, value in module.reference.adapter.items():
        assert torch.equal(other.reference.adapter[name], value)


def test_a_rank_without_programs_resets_its_reference_with_the_others(monkeypatch):
    module = made(objective=RelativeTrajectoryBalance(log_z="batch", reset_reference_every=2))
    step = {"now": 2}
    monkeypatch.setattr(GFlowNetModule, "global_step", property(lambda self: step["now"]))
    module.objective_loss(empty_batch())
    kept = {name: value.clone() for name, value in module.reference.adapter.items()}
    with torch.no_grad():
        for parameter in module.loaded_policy.parameters():
            if parameter.requires_grad:
                parameter *= 1.2
    step["now"] = 3
    module.objective_loss(batch(module))
    assert all(torch.equal(kept[name], value) for name, value in module.reference.adapter.items())


def test_minimum_length_reaches_the_loss_and_the_samples():
    module = made(sampling=SamplingSettings(max_new_tokens=8, min_new_tokens=3))
    from synthstats_lightning.tasks import get_task, task_prompt

    prompts = [task_prompt(get_task("dugongs"))]
    sampled = module.sample(prompts, 6, SamplingSettings(max_new_tokens=8), stream=0)
    assert (sampled.program_mask.sum(1) - sampled.stopped.long()).min() >= 3
    policy = module.loaded_policy
    ids = tuple(policy.encode_prompt(prompts[0].rules, prompts[0].request))
    rows = [
        Trajectory(0, tuple(ids_[mask].tolist()), 0.0, 0.0)
        for ids_, mask in zip(sampled.program_ids, sampled.program_mask, strict=True)
    ]
    inputs = loss_inputs(policy, collate(rows, {0: ids}), {"stop_log_probs"}, min_new_tokens=3)
    assert torch.allclose(inputs.log_prob, sampled.log_prob, atol=1e-3)
    assert inputs.named["stop_log_probs"][:, :3].isinf().all()


def test_token_log_probs_of_samples_reach_the_loss_that_clips():
    module = made(objective=GRPO())
    from synthstats_lightning.tasks import get_task, task_prompt

    prompts = [task_prompt(get_task("dugongs"))]
    sampled = module.sample(prompts, 4, SamplingSettings(max_new_tokens=8), stream=0)
    summed = (sampled.token_log_probs * sampled.program_mask).sum(1)
    assert torch.allclose(summed, sampled.log_prob, atol=1e-5)
    ids = tuple(module.loaded_policy.encode_prompt(*prompts[0]))
    rows = []
    for row in range(4):
        mask = sampled.program_mask[row]
        behaviour = tuple((sampled.token_log_probs[row][mask] - 1.0).tolist()) if row else ()
        rows.append(
            Trajectory(
                0, tuple(sampled.program_ids[row][mask].tolist()), float(row), 0.0, token_log_probs=behaviour
            )
        )
    given = collate(rows, {0: ids})
    inputs = loss_inputs(module.loaded_policy, given, module.objective.needs)
    gained = inputs.named["token_log_probs"] - inputs.named["behaviour_token_log_probs"]
    assert torch.allclose(gained[1:][given.program_mask[1:]], torch.ones(()), atol=1e-3)
    assert torch.equal(gained[0], torch.zeros_like(gained[0])), "unknown: drawn just now"
    assert module.objective_loss(given).metrics["clipped_share"] > 0.5
