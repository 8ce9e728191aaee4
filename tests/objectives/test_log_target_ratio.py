"""What an objective says that its target minus log π is: log Z, of every program, at its exact optimum."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.objectives import (
    GRPO,
    GSPO,
    BestOfN,
    LogZ,
    Objective,
    RelativeTrajectoryBalance,
    Supervised,
    TrajectoryBalance,
)
from synthstats_lightning.testing.language import (
    TabularPolicy,
    every_program,
    multimodal_log_reward,
    objective_inputs,
    random_policy,
)
from tests.objectives.test_targets import CASES, LENGTH


def programs(log_target: torch.Tensor, log_reward: torch.Tensor) -> tuple[torch.Tensor, ...]:
    policy = TabularPolicy(num_prompts=2, max_length=LENGTH)
    log_flow = policy.set_optimum(log_target)
    prompt, row = every_program(policy)
    inputs = objective_inputs(policy, random_policy(2, LENGTH), log_flow, log_reward, prompt, row)
    log_prob = inputs.pop("log_prob").detach()
    return log_prob, log_reward[prompt, row], prompt, inputs


@pytest.mark.parametrize("name", CASES)
def test_at_the_target_it_is_log_z_of_every_program(name: str) -> None:
    objective, target = CASES[name]
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    log_target = target(log_reward)
    log_prob, reward, prompt, inputs = programs(log_target, log_reward)
    ratio = objective.log_target_ratio(log_prob, reward, inputs)
    first = torch.stack([ratio[prompt == task][0] for task in range(2)])
    torch.testing.assert_close(ratio, first[prompt])
    if name not in ("FlowRL normalised",):  # whose log Z is per token
        torch.testing.assert_close(first, log_target.logsumexp(1))
    log_z = LogZ(2)
    log_z.initialise(ratio, prompt)
    torch.testing.assert_close(log_z.value.detach().double(), first, rtol=1e-6, atol=1e-6)
    if objective.learns_log_z:
        output = objective(log_prob, reward, log_z.value.double()[prompt], **inputs)
        if name not in ("RapTB", "AB-SubTB"):  # of which this is the whole program's residual as well
            assert output.residual.abs().max() < 1e-5


@pytest.mark.parametrize("objective", [GRPO(), GSPO(), BestOfN(4), Supervised()])
def test_baselines_are_held_against_the_reward(objective: Objective) -> None:
    log_prob, log_reward = torch.tensor([-1.0, -2.0]), torch.tensor([3.0, 5.0])
    assert objective.log_target_ratio(log_prob, log_reward, {}).tolist() == [4.0, 7.0]


def test_two_spellings_of_one_target_say_the_same() -> None:
    """The reference in the reward, or beside it."""
    log_prob, score = torch.tensor([-10.0, -130.0]), torch.tensor([3.0, 5.0])
    reference = torch.tensor([-16.0, -120.0])
    inputs = {"reference_log_prob": reference, "stored_reference_log_prob": reference}
    beside = RelativeTrajectoryBalance().log_target_ratio(log_prob, score, inputs)
    inside = RelativeTrajectoryBalance(prior_weight=1.0).log_target_ratio(log_prob, score + reference, inputs)
    plain = TrajectoryBalance().log_target_ratio(log_prob, score + reference, inputs)
    assert beside.tolist() == inside.tolist() == plain.tolist() == [-3.0, 15.0]


@pytest.mark.parametrize("name", CASES)
def test_autocast_does_not_reach_the_mathematics(name: str) -> None:
    objective, target = CASES[name]
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    _, reward, prompt, inputs = programs(target(log_reward), log_reward)
    inputs = {key: value.detach() for key, value in inputs.items()}
    log_z = torch.tensor([3.0, 5.0])[prompt]

    def gradients(rounded: bool) -> list[torch.Tensor]:
        tokens = inputs["token_log_probs"].float().requires_grad_()
        flow = inputs["log_flow"].float().requires_grad_()
        narrow = {key: v.float() if v.is_floating_point() else v for key, v in inputs.items()}
        narrow |= {"token_log_probs": tokens, "log_flow": flow}
        whole = tokens.masked_fill(~inputs["mask"], 0.0).sum(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounded):
            output = objective(whole, reward.float(), log_z, **narrow)
        output.loss.backward()
        return [output.loss.detach(), *(x.grad for x in (tokens, flow) if x.grad is not None)]

    torch.testing.assert_close(gradients(rounded=True), gradients(rounded=False), rtol=1e-6, atol=1e-7)


def test_numbers_in_half_precision_are_summed_in_float32() -> None:
    log_prob = torch.tensor([-1.0, -2.0], dtype=torch.bfloat16)
    output = TrajectoryBalance()(log_prob, torch.tensor([300.25, 300.75]), torch.tensor([301.0, 303.0]))
    assert output.residual.tolist() == [-0.25, 0.25]
    assert output.loss.dtype == torch.float32
