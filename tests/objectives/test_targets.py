"""Every balance objective: nothing to learn at its exact optimum, and training arrives there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from synthstats_lightning.objectives import (
    RLOO,
    ActionSubTrajectoryBalance,
    DetailedBalance,
    FlowRL,
    LogVariance,
    ModifiedSubTrajectoryBalance,
    Objective,
    RapTB,
    Regression,
    RelativeTrajectoryBalance,
    SubTrajectoryBalance,
    TrajectoryBalance,
)
from synthstats_lightning.testing.language import (
    TabularPolicy,
    every_program,
    multimodal_log_reward,
    objective_inputs,
    random_policy,
)
from synthstats_lightning.testing.tabular_training import total_variation, train

LENGTH = 3
FAILURE = -2.0


def plain(log_reward: Tensor) -> Tensor:
    return log_reward


def with_reference(log_reward: Tensor) -> Tensor:
    return log_reward + random_policy(len(log_reward), LENGTH).log_probs()


def length_normalised(log_reward: Tensor) -> Tensor:
    """log π_ref + |y| (r − z), with the one z that makes it sum to 1; found by bisection."""
    policy = random_policy(len(log_reward), LENGTH)
    tokens = torch.tensor([len(program) + 1 for program in policy.programs])
    low, high = torch.full((len(log_reward), 1), -99.0), torch.full((len(log_reward), 1), 99.0)
    low, high = low.double(), high.double()
    for _ in range(200):
        middle = (low + high) / 2
        mass = (policy.log_probs() + tokens * (log_reward - middle)).logsumexp(1, keepdim=True)
        low, high = torch.where(mass > 0, middle, low), torch.where(mass > 0, high, middle)
    return policy.log_probs() + tokens * (log_reward - low)


def prefixes_fail(programs: list[tuple[int, ...]], prompts: int) -> Tensor:
    """Only programs of full length do not fail."""
    full = torch.tensor([len(program) == LENGTH for program in programs])
    return torch.where(full, multimodal_log_reward(programs, prompts), FAILURE)


def linear_in_length(programs: list[tuple[int, ...]], prompts: int) -> Tensor:
    lengths = torch.tensor([len(program) for program in programs]).double()
    return FAILURE + lengths * (1.0 + torch.arange(prompts).double()[:, None])


CASES = {
    "TB": (TrajectoryBalance(), plain),
    "TB shifted cosh": (TrajectoryBalance(regression=Regression("shifted_cosh", 2.0)), plain),
    "VarGrad": (LogVariance(), plain),
    "VarGrad linex": (LogVariance(Regression("linex")), plain),
    "RTB": (RelativeTrajectoryBalance(), with_reference),
    "TBA": (RelativeTrajectoryBalance(log_z="batch"), with_reference),
    "SubTB within": (SubTrajectoryBalance(0.9, "within"), plain),
    "SubTB batch": (SubTrajectoryBalance(0.9, "batch"), plain),
    "SubTB length": (SubTrajectoryBalance(1.0, "length"), plain),
    "SubTB huber": (SubTrajectoryBalance(0.9, regression=Regression("huber", 3.0)), plain),
    "SubTB forward-looking": (SubTrajectoryBalance(forward_looking_weight=1.0), plain),
    "SubTB relative": (SubTrajectoryBalance(1.0, relative_to_policy=True), plain),
    "modified SubTB": (ModifiedSubTrajectoryBalance(rewards="given"), plain),
    "modified SubTB batch": (ModifiedSubTrajectoryBalance(0.9, "batch", "given"), plain),
    "DB": (DetailedBalance(), plain),
    "DB forward-looking": (DetailedBalance("within", forward_looking_weight=0.5), plain),
    "AB-SubTB": (ActionSubTrajectoryBalance(), plain),
    "FlowRL": (FlowRL(), with_reference),
    "FlowRL normalised": (FlowRL(normalise_length=True), length_normalised),
    "RapTB": (RapTB(rewards="given"), plain),
    "RLOO with prior": (RLOO(kl_weight=1.0), with_reference),
}
SPECIAL = {
    "modified SubTB failed": (
        ModifiedSubTrajectoryBalance(rewards="failed", prefix_score=FAILURE),
        prefixes_fail,
    ),
    "modified SubTB interpolated": (
        ModifiedSubTrajectoryBalance(rewards="interpolated", prefix_score=FAILURE),
        linear_in_length,
    ),
    "RapTB without absorption": (RapTB(absorption_decay=1e-9, prefix_score=FAILURE), prefixes_fail),
}


def loss_at(
    objective: Objective, log_target: Tensor, log_reward: Tensor
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Loss, gradients and residual at the exact optimum, over every program of both prompts."""
    policy = TabularPolicy(num_prompts=2, max_length=LENGTH)
    reference = random_policy(2, LENGTH)
    log_flow = policy.set_optimum(log_target)
    if weight := getattr(objective, "forward_looking_weight", 0.0):
        # what the head is to say is what is left of the flow
        log_flow = log_flow - weight * prefix_reference(reference)
    if getattr(objective, "relative_to_policy", False):
        # at the optimum the policy sends Z π(prefix) through each prefix
        log_flow = log_flow - prefix_reference(policy).detach()
        assert torch.allclose(log_flow, log_flow[:, :1])
    log_flow.requires_grad_()
    exact = log_target.logsumexp(1)
    if isinstance(objective, FlowRL) and objective.normalise_length:
        exact = solved_log_z(log_reward, log_target)
    assert exact[1] - exact[0] > 1  # the prompts do differ
    log_z = exact.clone().requires_grad_()
    prompt, row = every_program(policy)
    inputs = objective_inputs(policy, reference, log_flow, log_reward, prompt, row)
    output = objective(inputs.pop("log_prob"), log_reward.flatten(), log_z[prompt], **inputs)
    output.loss.backward()
    grads = [policy.logits.grad, *(p.grad for p in (log_z, log_flow) if p.grad is not None)]
    return output.loss.detach(), grads, output.residual


def solved_log_z(log_reward: Tensor, log_target: Tensor) -> Tensor:
    """The z of `length_normalised`, read off the empty program, which has one token."""
    return log_reward[:, 0] - (log_target - random_policy(2, LENGTH).log_probs())[:, 0]


def prefix_reference(reference: TabularPolicy) -> Tensor:
    """Reference log-probability of having written each prefix, `[prompts, programs]`."""
    prompt, row = every_program(reference)
    tokens, _ = reference.token_log_probs(prompt, row)
    last = reference.mask(row).sum(1, keepdim=True) - 1
    written = tokens.cumsum(1).gather(1, last) - tokens.gather(1, last)
    return written.reshape(len(reference.logits), -1)


@pytest.mark.parametrize("name", CASES)
def test_no_loss_and_no_gradient_at_the_optimum_of_two_prompts(name: str) -> None:
    objective, target = CASES[name]
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    loss, grads, residual = loss_at(objective, target(log_reward), log_reward)
    assert abs(loss.item()) < 1e-12
    assert max(grad.abs().max().item() for grad in grads) < 1e-9
    assert residual.abs().max() < 1e-9


@pytest.mark.parametrize("name", SPECIAL)
def test_no_loss_and_no_gradient_where_assumed_prefix_rewards_are_true(name: str) -> None:
    objective, reward = SPECIAL[name]
    log_reward = reward(TabularPolicy(1, LENGTH).programs, 2)
    loss, grads, _ = loss_at(objective, log_reward, log_reward)
    assert loss.item() < 1e-12
    assert max(grad.abs().max().item() for grad in grads) < 1e-9


@pytest.mark.parametrize("name", CASES)
def test_there_is_something_to_learn_elsewhere(name: str) -> None:
    objective, target = CASES[name]
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    wrong = target(log_reward) + torch.linspace(0, 2, log_reward.shape[1])
    loss, grads, _ = loss_at(objective, wrong, log_reward)
    assert torch.isfinite(loss)
    assert grads[0].abs().max() > 1e-4


@pytest.mark.parametrize("name", CASES)
def test_training_on_policy_samples_reaches_the_documented_target(name: str) -> None:
    objective, target = CASES[name]
    log_reward = multimodal_log_reward(TabularPolicy(1, LENGTH).programs, 2)
    # a policy gradient on exploratory samples is biased, and noisier than a balance loss
    own = name.startswith("RLOO")
    trained = train(objective, log_reward, LENGTH, 700, exploration=0.0 if own else 0.1)
    distance = total_variation(trained.policy, target(log_reward))
    assert distance.max() <= (0.1 if own else 0.03), distance.tolist()


@pytest.mark.parametrize("name", SPECIAL)
def test_training_reaches_the_target_where_assumed_prefix_rewards_are_true(name: str) -> None:
    objective, reward = SPECIAL[name]
    log_reward = reward(TabularPolicy(1, LENGTH).programs, 2)
    trained = train(objective, log_reward, LENGTH, 900)
    assert total_variation(trained.policy, log_reward).max() <= 0.03


PLAIN = [name for name, (_, target) in CASES.items() if target is plain]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if number % 3 else []) for number, name in enumerate(PLAIN)],
)
def test_probability_rises_with_reward(name: str) -> None:
    objective, _ = CASES[name]
    programs = TabularPolicy(1, 1).programs
    log_reward = torch.tensor([[1.0, 2.0, 4.0, 8.0]], dtype=torch.float64).log()
    assert len(programs) == 4
    trained = train(objective, log_reward, 1, 300)
    probability = trained.policy.log_probs()[0].exp()
    assert (probability.diff() > 0).all()
    assert torch.allclose(probability, log_reward[0].exp() / 15, atol=0.02)
