"""Sums over sub-trajectories against a loop over all of them."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.objectives.regression import Regression
from synthstats_lightning.objectives.sub_trajectory_balance import sub_trajectory_balance_loss
from synthstats_lightning.objectives.windows import keep_states, window_loss, window_weights

LENGTHS = torch.tensor([5, 1, 8, 0, 3])
STATES = 9


def brute_force(potential, decay, weighting, regression):
    """The definition, one window at a time."""
    windows = [
        (b, j - i, regression(potential[b, i] - potential[b, j]))
        for b, n in enumerate(LENGTHS.tolist())
        for i in range(n + 1)
        for j in range(i + 1, n + 1)
    ]
    if weighting == "within":
        total = 0.0
        for b in range(len(LENGTHS)):
            own = [(k, value) for row, k, value in windows if row == b]
            if own:
                weight = sum(decay**k for k, _ in own)
                total = total + sum(decay**k * value for k, value in own) / weight
        return total / len(LENGTHS)
    if weighting == "batch":
        return sum(decay**k * value for _, k, value in windows) / sum(decay**k for _, k, _ in windows)
    lengths = sorted({k for _, k, _ in windows})
    means = {k: torch.stack([v for _, length, v in windows if length == k]).mean() for k in lengths}
    return sum(decay**k * means[k] for k in lengths) / sum(decay**k for k in lengths)


@pytest.mark.parametrize("weighting", ["within", "batch", "length"])
@pytest.mark.parametrize("decay", [0.6, 1.0])
@pytest.mark.parametrize("kind", ["square", "huber", "shifted_cosh", "linex"])
def test_equals_the_definition_with_its_gradient(weighting, decay, kind):
    generator = torch.Generator().manual_seed(0)
    potential = 3 * torch.randn(len(LENGTHS), STATES, dtype=torch.float64, generator=generator)
    potential.requires_grad_()
    regression = Regression(kind, 1.5)
    loss = window_loss(potential, LENGTHS, decay, weighting, regression)
    expected = brute_force(potential, decay, weighting, regression)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    ours = torch.autograd.grad(loss, potential)[0]
    theirs = torch.autograd.grad(expected, potential)[0]
    assert torch.allclose(ours, theirs, atol=1e-12)
    beyond = torch.arange(STATES) > LENGTHS[:, None]
    assert (ours[beyond] == 0).all()


@pytest.mark.parametrize("weighting", ["within", "batch", "length"])
def test_weights_sum_to_one(weighting):
    lengths = LENGTHS[LENGTHS > 0]
    per_length, per_row = window_weights(lengths, STATES, 0.8, weighting)
    total = sum(
        per_row[b] * per_length[k] * (n + 1 - k)
        for b, n in enumerate(lengths.tolist())
        for k in range(1, n + 1)
    )
    assert float(total) == pytest.approx(1.0)


def test_long_trajectories_lose_no_digits_and_decays_do_not_underflow():
    lengths = torch.tensor([2000, 3])
    potential = torch.zeros(2, 2001)
    potential[0] = torch.linspace(0, 500, 2001)
    potential.requires_grad_()
    loss = window_loss(potential, lengths, 0.5, "within")
    loss.backward()
    # windows of k tokens have residual k / 4 and weights 0.5^k: the mean of k² is 6
    assert loss.item() == pytest.approx(6 / 16 / 2, rel=0.01)
    assert torch.isfinite(potential.grad).all()
    assert potential.grad[0, 0] != 0
    shifted = window_loss(potential.detach() + 1000, lengths, 0.5, "within")
    assert shifted.item() == pytest.approx(loss.item(), rel=1e-4)


def test_nothing_to_sum_is_zero():
    potential = torch.randn(2, 4, requires_grad=True)
    for weighting in ("within", "batch", "length"):
        loss = window_loss(potential, torch.zeros(2, dtype=torch.long), 0.9, weighting)
        assert loss.item() == 0
        assert (torch.autograd.grad(loss, potential)[0] == 0).all()


def test_kept_states_come_first_in_order():
    potential = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 9.0, 9.0, 9.0]])
    kept = torch.tensor([[True, False, True, True], [False, True, False, False], [False] * 4])
    moved, transitions = keep_states(potential, kept)
    assert moved.tolist() == [[1.0, 3.0, 4.0, 0.0], [6.0, 0.0, 0.0, 0.0], [0.0] * 4]
    assert transitions.tolist() == [2, 0, 0]


def test_sub_trajectory_balance_ignores_what_is_masked():
    mask = torch.tensor([[True, True, False]])
    tokens = torch.tensor([[-1.0, -2.0, torch.nan]], requires_grad=True)
    flow = torch.tensor([[torch.nan, 3.0, torch.nan]], requires_grad=True)
    loss, _ = sub_trajectory_balance_loss(
        tokens, mask, flow, torch.tensor([1.0]), torch.tensor([2.0]), 1.0, "within"
    )
    loss.backward()
    # residuals 2 - 1 - 3, 3 - 2 - 1 and 2 - 3 - 1
    assert loss.item() == pytest.approx((4 + 0 + 4) / 3)
    assert tokens.grad[0, 2] == 0
    assert flow.grad[0].tolist()[::2] == [0.0, 0.0]


def test_sub_trajectory_balance_loses_no_digits_in_float32():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([2000, 700])
    mask = torch.arange(2000) < lengths[:, None]
    single = [-torch.rand(2, 2000, generator=generator), torch.randn(2, 2000, generator=generator)]
    single += [torch.tensor([-500.0, 10.0]), torch.tensor([3.0, 3.0])]
    slopes = []
    for dtype in (torch.float32, torch.float64):
        tokens, flow, log_reward, log_z = (x.to(dtype, copy=True).requires_grad_() for x in single)
        loss, _ = sub_trajectory_balance_loss(tokens, mask, flow, log_reward, log_z, 1.0, "within")
        loss.backward()
        slopes.append([loss.detach(), tokens.grad, flow.grad, log_reward.grad, log_z.grad])
    for ours, exact in zip(*slopes, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - exact).abs().max() <= 1e-6 * exact.abs().max()
