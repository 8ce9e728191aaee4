from __future__ import annotations

import pytest
import torch

from synthstats_lightning.objectives import FlowHead, PromptLogZ, ScalarLogZ

WIDTH = 16
FEATURES = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))


def made(initial: float = 0.0) -> PromptLogZ:
    log_z = PromptLogZ(3, WIDTH, initial)
    log_z.set_features(torch.arange(3), FEATURES)
    return log_z


def test_starts_from_the_estimates_of_its_tasks_as_they_come() -> None:
    log_z = made()
    assert log_z.per_task().tolist() == [0.0, 0.0, 0.0]
    log_z.initialise(torch.tensor([4.0, 6.0, -30.0]), torch.tensor([0, 0, 1]))
    assert log_z.per_task()[:2].tolist() == pytest.approx([5.0, -30.0], abs=1e-4)
    log_z.initialise(torch.tensor([99.0, 70.0]), torch.tensor([0, 2]))
    assert log_z.per_task().tolist() == pytest.approx([5.0, -30.0, 70.0], abs=1e-3)
    log_z.follow(torch.tensor([15.0]), torch.tensor([0]), rate=0.5)
    assert log_z.per_task().tolist() == pytest.approx([10.0, -30.0, 70.0], abs=1e-3)
    assert log_z.predict(FEATURES).tolist() == pytest.approx(log_z.per_task().tolist(), abs=1e-4)


def test_learns_different_tasks_and_leaves_the_features_alone() -> None:
    log_z, exact = made(), torch.tensor([3.0, 5.0, -2.0])
    features = FEATURES.clone().requires_grad_()
    log_z.set_features(torch.arange(3), features)
    optimizer = torch.optim.Adam(log_z.parameters(), lr=0.1)
    for _ in range(800):
        optimizer.zero_grad()
        (log_z(torch.arange(3)) - exact).square().mean().backward()
        optimizer.step()
    assert torch.allclose(log_z.per_task(), exact, atol=0.05)
    assert features.grad is None


def test_a_step_moves_it_about_as_far_as_the_learning_rate() -> None:
    log_z = made()
    optimizer = torch.optim.Adam(log_z.parameters(), lr=0.1)
    (log_z(torch.tensor([0])) - 100).square().sum().backward()
    optimizer.step()
    assert 0.1 < log_z.per_task()[0] < 0.21


def test_all_forms_stay_float32_and_are_saved() -> None:
    for log_z in (made(3.0), ScalarLogZ(3, 3.0)):
        log_z.to(torch.bfloat16)
        assert all(parameter.dtype == torch.float32 for parameter in log_z.parameters())
        log_z.initialise(torch.tensor([7.0, 9.0]), torch.tensor([1, 1]))
        fresh = PromptLogZ(3, WIDTH) if isinstance(log_z, PromptLogZ) else ScalarLogZ(3)
        fresh.load_state_dict(log_z.state_dict())
        assert torch.equal(fresh.per_task(), log_z.per_task())
        assert fresh.per_task()[1].item() == pytest.approx(8.0, abs=1e-4)


def test_one_log_z_for_all_tasks() -> None:
    log_z = ScalarLogZ(3)
    log_z.initialise(torch.tensor([2.0, 4.0]), torch.tensor([0, 2]))
    assert log_z.per_task().tolist() == [3.0] * 3
    assert log_z.initialised.all()
    log_z(torch.tensor([0, 1])).sum().backward()
    assert log_z.value.grad.tolist() == [2.0]


def test_flow_head_starts_at_log_z_and_sends_no_gradient_back() -> None:
    head = FlowHead(WIDTH, width=8, seed=1)
    hidden = torch.randn(2, 5, WIDTH, requires_grad=True)
    log_z = torch.tensor([3.0, -40.0], requires_grad=True)
    flow = head(hidden, log_z)
    assert torch.equal(flow, log_z.detach()[:, None].expand(2, 5))
    flow.sum().backward()
    assert hidden.grad is None
    assert log_z.grad is None
    assert head.layers[-1].weight.grad.abs().sum() > 0
    assert head.to(torch.float16)(hidden.half(), log_z).dtype == torch.float32
    again, other = FlowHead(WIDTH, width=8, seed=1), FlowHead(WIDTH, width=8, seed=2)
    assert torch.equal(head.layers[1].weight, again.layers[1].weight)
    assert not torch.equal(head.layers[1].weight, other.layers[1].weight)


def test_numbers_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        PromptLogZ(1, 0)
    with pytest.raises(ValueError, match="hidden_size and width must be at least 1, got 4 and 0"):
        FlowHead(4, 0)
