"""Values computed by hand, gradients of very long programs, and what objectives refuse."""

from __future__ import annotations

import math

import pytest
import torch

from synthstats_lightning.objectives import (
    ActionSubTrajectoryBalance,
    DetailedBalance,
    FlowRL,
    LogVariance,
    ModifiedSubTrajectoryBalance,
    RapTB,
    Regression,
    RelativeTrajectoryBalance,
    SubTrajectoryBalance,
    TrajectoryBalance,
    action_potentials,
    detailed_balance_loss,
    ending_window_loss,
    flow_rl_loss,
    log_variance_loss,
    modified_sub_trajectory_balance_loss,
    relative_trajectory_balance_loss,
    rooted_prefix_loss,
    sub_trajectory_balance_loss,
)
from synthstats_lightning.objectives.prefixes import absorbed, interpolate

# A program of three tokens: a, b and the stop token, of probabilities 1/2, 1/4, 1/2; R = 2, Z = 8. The flows
# of the prefixes "a" and "a b" are 4 and 1.
TOKENS = torch.tensor([[0.5, 0.25, 0.5]], dtype=torch.float64).log()
MASK = torch.ones(1, 3, dtype=torch.bool)
LOG_R = torch.tensor([2.0], dtype=torch.float64).log()
LOG_Z = torch.tensor([8.0], dtype=torch.float64).log()
FLOW = torch.tensor([[123.0, 4.0, 1.0]], dtype=torch.float64).log()
LN2 = math.log(2)


def test_detailed_balance_of_three_tokens():
    # 8 · 1/2 / 4 = 1, 4 · 1/4 / 1 = 1, 1 · 1/2 / 2 = 1/4
    loss, residual = detailed_balance_loss(TOKENS, MASK, FLOW, LOG_R, LOG_Z)
    assert loss.item() == pytest.approx((2 * LN2) ** 2 / 3)
    assert residual.item() == pytest.approx(-2 * LN2)


def test_sub_trajectory_balance_of_three_tokens():
    # the windows that end in the stop token are off by log 1/4, the others by nothing; λ = 1/2:
    # lengths 1, 2, 3 have weights 1/2, 1/4, 1/8 and numbers 3, 2, 1
    loss, _ = sub_trajectory_balance_loss(TOKENS, MASK, FLOW, LOG_R, LOG_Z, decay=0.5)
    weight = (1 / 2 + 1 / 4 + 1 / 8) / (3 / 2 + 2 / 4 + 1 / 8)
    assert loss.item() == pytest.approx(weight * (2 * LN2) ** 2)


def test_windows_that_reach_the_end_of_three_tokens_and_of_one():
    # a flow of 2 after "a": from there 2 · 1/4 · 1/2 / 2 = 1/8; else 1/4 as above; λ = 1/2. The second
    # program is one token: 8 · 1/2 / 2 = 2
    tokens = TOKENS.repeat(2, 1).requires_grad_()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    flow = torch.tensor([[123.0, 2.0, 1.0]], dtype=torch.float64).log().repeat(2, 1)
    loss = ending_window_loss(tokens, mask, flow, LOG_R.repeat(2), LOG_Z.repeat(2), decay=0.5)
    first = (1 / 8 * 2**2 + 1 / 4 * 3**2 + 1 / 2 * 2**2) / (7 / 8)
    assert loss.item() == pytest.approx((first + 1) / 2 * LN2**2)
    loss.backward()
    assert (tokens.grad != 0).tolist() == mask.tolist()


def test_slopes_of_flows_relative_to_the_policy():
    # the program is off by -2 ln 2; the head says ln 2 after "a" and -ln 2 after "a b", so that the windows
    # from there to the end are off by -ln 2 and -3 ln 2. Each token learns half from the mean of the windows
    # that hold it, of three, and half from the whole program; the windows that end before are the head's
    tokens = TOKENS.clone().requires_grad_()
    head = LN2 * torch.tensor([[5.0, 1.0, -1.0]], dtype=torch.float64)
    log_flow = (LOG_Z[:, None] + head).requires_grad_()
    objective = SubTrajectoryBalance(1.0, relative_to_policy=True)
    output = objective(tokens.sum(1), LOG_R, LOG_Z, token_log_probs=tokens, mask=MASK, log_flow=log_flow)
    output.loss.backward()
    assert output.residual.item() == pytest.approx(-2 * LN2)
    expected = [2 * (-2 / 3 - 2) / 2, 2 * (-3 / 3 - 2) / 2, 2 * (-6 / 3 - 2) / 2]
    assert (tokens.grad[0] / LN2).tolist() == pytest.approx(expected)
    assert log_flow.grad[0, 0] == 0
    assert (log_flow.grad[0, 1:] != 0).all()


STOP = torch.tensor([[0.25, 0.5, 0.5]], dtype=torch.float64).log()
REWARDS = torch.tensor([[1.0, 4.0, 2.0, 99.0]], dtype=torch.float64).log()
NOT_FORCED = torch.zeros(1, dtype=torch.bool)


def test_modified_sub_trajectory_balance_of_three_tokens():
    # flows R / q are 4, 8, 4; 4 · 1/2 / 8 = 1/4, 8 · 1/4 / 4 = 1/2, both 1/8
    expected = (2**2 + 1 + 3**2) / 3 * LN2**2
    loss, residual = modified_sub_trajectory_balance_loss(TOKENS, STOP, MASK, NOT_FORCED, REWARDS)
    assert loss.item() == pytest.approx(expected)
    assert residual.item() == pytest.approx(-3 * LN2)
    known = torch.tensor([[True, False, True, True]])
    loss, _ = modified_sub_trajectory_balance_loss(TOKENS, STOP, MASK, NOT_FORCED, REWARDS, known)
    assert loss.item() == pytest.approx((3 * LN2) ** 2)
    # no stop before the second token: one window is left
    late = STOP.masked_fill(torch.tensor([[True, False, False]]), -torch.inf)
    loss, _ = modified_sub_trajectory_balance_loss(TOKENS, late, MASK, NOT_FORCED, REWARDS)
    assert loss.item() == pytest.approx(LN2**2)


def test_a_forced_stop_is_no_factor_of_the_probability():
    # the third token is an ordinary one; then the limit stops with probability 1: flow 4 · ... = R = 1/2
    rewards = torch.tensor([[1.0, 4.0, 2.0, 0.5]], dtype=torch.float64).log()
    loss, residual = modified_sub_trajectory_balance_loss(TOKENS, STOP, MASK, ~NOT_FORCED, rewards)
    # flows 4, 8, 4, 1/2; steps 1/4, 1/2 and 4 · 1/2 / (1/2) = 4
    a, b, c = -2, -1, 2
    squares = a**2 + b**2 + c**2 + (a + b) ** 2 + (b + c) ** 2 + (a + b + c) ** 2
    assert loss.item() == pytest.approx(squares / 6 * LN2**2)
    assert residual.item() == pytest.approx(-LN2)


def test_rooted_prefixes_of_three_tokens():
    stop = STOP.clone().requires_grad_()
    loss = rooted_prefix_loss(TOKENS, stop, MASK, NOT_FORCED, REWARDS, decay=0.5)
    assert loss.item() == pytest.approx((2**2 + 3**2 / 2) / 1.5 * LN2**2)
    assert not loss.requires_grad  # the stop probabilities are constants, and nothing else has a gradient


def test_action_boundaries_of_three_tokens():
    ends = torch.tensor([[False, True, True]])
    linear, actions = action_potentials(TOKENS, MASK, ends, LOG_R, LOG_Z)
    assert actions.tolist() == [2]
    # log F = log 8, log 4, log 2; reached with probability 1, 1/8, 1/16
    assert linear[0, :3].tolist() == pytest.approx([3 * LN2, 5 * LN2, 5 * LN2])
    learned, _ = action_potentials(TOKENS, MASK, ends, LOG_R, LOG_Z, FLOW)
    assert learned[0, :3].tolist() == pytest.approx([3 * LN2, 3 * LN2, 5 * LN2])
    # an action of which 2 log 2 were expected: the learned flow is what comes on top
    potential = torch.tensor([[0.0, 9.0, 2 * LN2]], dtype=torch.float64)
    forward = ActionSubTrajectoryBalance(auxiliary_weight=1.0, information=0.5)
    inputs = {"token_log_probs": TOKENS, "mask": MASK, "action_ends": ends}
    inputs |= {"log_flow": FLOW - 0.5 * potential, "information": potential}
    plain = ActionSubTrajectoryBalance(auxiliary_weight=1.0)
    given = TOKENS.sum(1), LOG_R, LOG_Z
    found, expected = forward(*given, **inputs), plain(*given, **(inputs | {"log_flow": FLOW}))
    assert found.loss.item() == pytest.approx(expected.loss.item())
    # actions that are equally surprising, and earn their share: nothing to learn
    even = torch.tensor([[0.5, 0.5, 0.25, 0.25]], dtype=torch.float64).log()
    mask, ends = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[False, False, True, True]])
    reward = LOG_Z + even.sum(1)
    equal = ActionSubTrajectoryBalance("linear", auxiliary_weight=1.0)
    inputs = {"token_log_probs": even, "mask": mask, "action_ends": ends}
    assert equal(even.sum(1), reward, LOG_Z, **inputs).loss > 0.1
    ends = torch.tensor([[False, False, False, True]])
    assert equal(even.sum(1), reward, LOG_Z, **(inputs | {"action_ends": ends})).loss < 1e-20
    even = torch.tensor([[0.5, 0.5, 0.25]], dtype=torch.float64).log()
    inputs = {"token_log_probs": even, "mask": MASK, "action_ends": torch.tensor([[False, True, True]])}
    assert equal(even.sum(1), LOG_Z + even.sum(1), LOG_Z, **inputs).loss < 1e-20


def test_log_variance_is_centred_within_tasks():
    log_prob = torch.tensor([-1.0, -3.0, -2.0])
    log_reward = torch.tensor([1.0, 1.0, 50.0])
    loss, residual = log_variance_loss(log_prob, log_reward, torch.tensor([0, 0, 1]))
    # log R − log π = 2, 4 | 52; means 3 | 52
    assert residual.tolist() == [1.0, -1.0, 0.0]
    assert loss.item() == pytest.approx(2 / 3)


def test_relative_balance_and_flow_rl_by_hand():
    log_prob, reference = torch.tensor([-6.0]), torch.tensor([-9.0])
    loss, residual = relative_trajectory_balance_loss(
        log_prob, reference, torch.tensor([4.0]), torch.tensor([2.0]), beta=0.5
    )
    assert (loss.item(), residual.item()) == (9.0, 3.0)
    loss, residual = flow_rl_loss(
        log_prob, reference, torch.tensor([4.0]), torch.tensor([2.0]), torch.tensor([3]), beta=0.5
    )
    assert (loss.item(), residual.item()) == (1.0, 1.0)
    # π / π_old = e², e⁵: the second is clipped at 10
    weights = torch.tensor([2.0, 5.0], requires_grad=True)
    loss, _ = flow_rl_loss(
        log_prob.expand(2), reference.expand(2), torch.tensor([4.0, 4.0]), torch.zeros(2), log_ratio=weights
    )
    assert loss.item() == pytest.approx((math.exp(2) + 10) / 2)
    assert not loss.requires_grad


def test_interpolation_and_absorption():
    values = torch.tensor([[0.0, 7.0, 7.0, 6.0, 7.0]], dtype=torch.float64)
    known = torch.tensor([[True, False, False, True, False]])
    assert interpolate(values, known).tolist() == [[0.0, 2.0, 4.0, 6.0, 6.0]]
    assert interpolate(values, torch.tensor([[False, False, True, False, False]])).tolist() == [[7.0] * 5]
    last = torch.tensor([3])
    moved = absorbed(values, known, last, decay=0.5, max_share=1.0, sharpness=1.0)
    # unknown 7s at distances 2 and 1 from the end go 1/4 and 1/2 of the way to 6
    assert moved.tolist() == [[0.0, 6.75, 6.5, 6.0, 7.0]]
    soft = absorbed(values, known, last, decay=1.0, max_share=0.0, sharpness=2.0)
    assert soft[0, 1].item() == pytest.approx(6.0)
    both = torch.tensor([[False, False, True, True, False]])
    soft = absorbed(values, both, last, decay=1.0, max_share=0.0, sharpness=2.0)
    assert soft[0, 0].item() == pytest.approx(math.log(math.exp(14) + math.exp(12)) / 2)


BALANCE = {
    "TB": TrajectoryBalance(),
    "VarGrad": LogVariance(),
    "RTB": RelativeTrajectoryBalance(),
    "SubTB": SubTrajectoryBalance(),
    "SubTB length": SubTrajectoryBalance(1.0, "length"),
    "modified SubTB": ModifiedSubTrajectoryBalance(),
    "modified SubTB interpolated": ModifiedSubTrajectoryBalance(rewards="interpolated"),
    "DB": DetailedBalance(),
    "AB-SubTB": ActionSubTrajectoryBalance(),
    "AB-SubTB linear": ActionSubTrajectoryBalance("linear"),
    "FlowRL": FlowRL(),
    "FlowRL normalised": FlowRL(normalise_length=True),
    "RapTB": RapTB(),
} | {
    f"TB {kind}": TrajectoryBalance(regression=Regression(kind, 2.0))
    for kind in ("huber", "shifted_cosh", "linex")
}


@pytest.mark.parametrize("name", BALANCE)
def test_gradients_of_2000_tokens_500_nats_off(name):
    time, objective = 2000, BALANCE[name]
    tokens = torch.full((2, time), -0.5, requires_grad=True)
    stop = torch.full((2, time), -4.0, requires_grad=True)
    flow = torch.zeros(2, time, requires_grad=True)
    mask = torch.ones(2, time, dtype=torch.bool)
    log_prob = tokens.sum(1)  # -1000
    output = objective(
        log_prob,
        torch.tensor([-1500.0, -500.0]),
        torch.zeros(2),
        task_index=torch.zeros(2, dtype=torch.long),
        reference_log_prob=torch.zeros(2),
        stored_reference_log_prob=torch.zeros(2),
        behaviour_log_prob=log_prob.detach(),
        mask=mask,
        token_log_probs=tokens,
        stop_log_probs=stop,
        forced_stop=torch.zeros(2, dtype=torch.bool),
        log_flow=flow,
        action_ends=mask & (torch.arange(time) % 20 == 0),
    )
    output.loss.backward()
    assert torch.isfinite(output.loss)
    assert torch.isfinite(tokens.grad).all()
    assert (tokens.grad.norm(dim=1) > 1e-3).all()
    assert output.residual.abs().max() >= 0.2


def test_missing_inputs_and_wrong_settings_are_named():
    with pytest.raises(TypeError, match="SubTrajectoryBalance needs log_flow, token_log_probs; got mask"):
        SubTrajectoryBalance()(torch.zeros(1), torch.zeros(1), torch.zeros(1), mask=MASK)
    with pytest.raises(ValueError, match=r"decay must be in \(0, 1\], got 1.5"):
        SubTrajectoryBalance(decay=1.5)
    with pytest.raises(ValueError, match=r"forward_looking_weight must be 0 .* got 0.5"):
        SubTrajectoryBalance(forward_looking_weight=0.5, relative_to_policy=True)
    with pytest.raises(ValueError, match="give huber_delta or regression, not both"):
        TrajectoryBalance(1.0, Regression())
    with pytest.raises(ValueError, match="beta must be positive and finite, got 0"):
        RelativeTrajectoryBalance(beta=0.0)
    with pytest.raises(ValueError, match="reset_reference_every must be 0 or more, got -1"):
        RelativeTrajectoryBalance(reset_reference_every=-1)
    with pytest.raises(ValueError, match="max_weight must be positive"):
        FlowRL(max_weight=0.0)
    with pytest.raises(ValueError, match="auxiliary_weight must be 0 or more"):
        RapTB(auxiliary_weight=-1.0)
    with pytest.raises(ValueError, match=r"max_share must be in \[0, 1\], got 2"):
        RapTB(max_share=2.0)
