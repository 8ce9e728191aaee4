"""Agreement with another library, torchgfn, on random numbers."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import torch.utils.data  # looks for dill when it is imported: must not find the stand-in

from synthstats_lightning.objectives import (
    Regression,
    detailed_balance_loss,
    sub_trajectory_balance_loss,
    trajectory_balance_loss,
)

# Packages that torchgfn imports, and that have no part in its losses: gigabytes, minutes, another NumPy.
UNUSED = (
    *("torch_geometric", "torch_geometric.data", "torch_geometric.nn", "torch_geometric.utils"),
    *("tensordict", "tensordict.base", "tensordict.nn"),
    *("linear_attention_transformer", "einops", "xxhash", "dill"),
)
with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in UNUSED}):
    gflownet = pytest.importorskip("gfn.gflownet", reason="pip install --no-deps torchgfn")

LENGTHS = torch.tensor([4, 1, 6, 3])
TIME = 6


def random_batch():
    """Log-probabilities `[batch, time]`, mask, log flows, log rewards."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    mask = torch.arange(TIME) < LENGTHS[:, None]
    return -draw(len(LENGTHS), TIME).exp(), mask, draw(len(LENGTHS), TIME), 5 * draw(len(LENGTHS))


class Stub:
    """What torchgfn's losses ask of a batch of trajectories and of their model, in its `[time, batch]`."""

    def __init__(self, log_probs, mask, log_flow, log_reward):
        self.log_pf = log_probs.masked_fill(~mask, 0.0).T
        self.log_flow = log_flow.masked_fill(~mask, -torch.inf).T
        exit_step = torch.zeros_like(mask).scatter(1, LENGTHS[:, None] - 1, True)
        self.trajectories = SimpleNamespace(
            terminating_idx=LENGTHS,
            batch_size=len(LENGTHS),
            max_length=TIME,
            log_rewards=log_reward,
            actions=SimpleNamespace(is_exit=exit_step.T),
            states=SimpleNamespace(conditions=None),
        )


class Trajectories(SimpleNamespace):
    def __len__(self):
        return self.batch_size


@pytest.fixture
def stub(monkeypatch):
    log_probs, mask, log_flow, log_reward = random_batch()
    made = Stub(log_probs, mask, log_flow, log_reward)
    made.trajectories = Trajectories(**vars(made.trajectories))
    for cls in (gflownet.TBGFlowNet, gflownet.SubTBGFlowNet):
        monkeypatch.setattr(
            cls, "get_pfs_and_pbs", lambda *_, **__: (made.log_pf, torch.zeros_like(made.log_pf))
        )
    monkeypatch.setattr(gflownet.SubTBGFlowNet, "calculate_log_state_flows", lambda *_, **__: made.log_flow)
    return made


def model(cls, **settings):
    """An instance without the estimators that the patched methods stand for."""
    made = cls.__new__(cls)
    torch.nn.Module.__init__(made)
    fixed = {"debug": False, "log_reward_clip_min": -float("inf"), "loss_fn": gflownet.SquaredLoss()}
    for name, value in {**fixed, **settings}.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("kind", ["square", "shifted_cosh"])
def test_trajectory_balance(stub, kind):
    log_probs, mask, _, log_reward = random_batch()
    log_z = torch.tensor(1.7, dtype=torch.float64)
    theirs = gflownet.SquaredLoss() if kind == "square" else gflownet.ShiftedCoshLoss()
    # only the square is theirs for any residual: the other one is cut where ours goes straight
    scale = 1.0 if kind == "square" else 0.05
    stub.log_pf, stub.trajectories.log_rewards = stub.log_pf * scale, log_reward * scale
    expected = model(gflownet.TBGFlowNet, logZ=log_z * scale, loss_fn=theirs).loss(None, stub.trajectories)
    log_prob = log_probs.masked_fill(~mask, 0.0).sum(1)
    loss, _ = trajectory_balance_loss(
        log_prob * scale,
        log_reward * scale,
        (log_z * scale).expand(len(LENGTHS)),
        regression=Regression(kind),
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("theirs", "decay", "weighting"),
    [
        ("geometric_within", 0.9, "within"),
        ("equal_within", 1.0, "within"),
        ("equal", 1.0, "batch"),
        ("geometric", 0.7, "length"),
    ],
)
def test_sub_trajectory_balance(stub, theirs, decay, weighting):
    log_probs, mask, log_flow, log_reward = random_batch()
    net = model(gflownet.SubTBGFlowNet, weighting=theirs, lamda=decay, forward_looking=False)
    expected = net.loss("any", stub.trajectories)
    loss, _ = sub_trajectory_balance_loss(
        log_probs, mask, log_flow, log_reward, log_flow[:, 0], decay, weighting
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(("theirs", "weighting"), [("DB", "batch"), ("ModifiedDB", "within")])
def test_detailed_balance(stub, theirs, weighting):
    log_probs, mask, log_flow, log_reward = random_batch()
    net = model(gflownet.SubTBGFlowNet, weighting=theirs, lamda=1.0, forward_looking=False)
    expected = net.loss("any", stub.trajectories)
    loss, _ = detailed_balance_loss(log_probs, mask, log_flow, log_reward, log_flow[:, 0], weighting)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
