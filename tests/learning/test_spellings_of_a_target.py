"""A target with the reference in the reward, and the same with it in the objective: one and the same run."""

from __future__ import annotations

import functools

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.objectives import FlowRL, Objective, RelativeTrajectoryBalance, TrajectoryBalance
from synthstats_lightning.policy import LoraSettings
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory

STEPS = 15
pytestmark = pytest.mark.filterwarnings("ignore")


class Seen(Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        self.losses.append(float(outputs["loss"]))


def run(objective: Objective, prior_weight: float, folder: object) -> tuple[list[float], GFlowNetModule]:
    """A short run on given programs whose stored reference log-probability is the policy's own."""
    # plain gradient descent, which small differences of rounding do not steer elsewhere
    optimizer = functools.partial(torch.optim.SGD, lr=1e-8)
    lora = LoraSettings(rank=2)
    module = GFlowNetModule(objective=objective, lora=lora, optimizer=optimizer, log_z_lr=0.05, seed=3)
    module.configure_model()
    policy = module.loaded_policy
    buffer = ReplayBuffer(recent=4, capacity=10, priority=0.0)
    buffer.register_prompt(0, policy.encode_prompt("rules", "request"))
    for number in range(4):
        ids = tuple(policy.encode_program("x = 1\n" * (1 + 2 * number)))
        with torch.no_grad():
            given = torch.tensor([ids])
            prompt = torch.tensor([buffer.prompts[0]])
            reference = float(policy.program_log_probs(prompt, given, torch.ones_like(given).bool()))
        buffer.add(Trajectory(0, ids, 0.5 * number + prior_weight * reference, reference, reference))
    seen = Seen()
    Trainer(
        max_steps=STEPS, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, accelerator="cpu", callbacks=[seen], default_root_dir=folder,
    ).fit(module, ReplayLoader(buffer, 4, STEPS, seed=1))  # fmt: skip
    return seen.losses, module


@pytest.mark.slow
@pytest.mark.parametrize("objective", [RelativeTrajectoryBalance, FlowRL])
def test_both_spellings_start_near_balance_and_learn_the_same(objective, tmp_path) -> None:
    beside, module = run(objective(), 0.0, tmp_path)
    inside, other = run(objective(prior_weight=1.0), 1.0, tmp_path)
    assert beside[0] < 1
    assert beside == pytest.approx(inside, rel=2e-2, abs=1e-3)
    assert module.learned_log_z(0) == pytest.approx(other.learned_log_z(0), abs=1e-2)
    if objective is RelativeTrajectoryBalance:
        plain, _ = run(TrajectoryBalance(), 1.0, tmp_path)
        assert beside == pytest.approx(plain, rel=2e-2, abs=1e-3)
    assert float(module.batch_residual.abs().max()) < 2
