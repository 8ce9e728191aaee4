"""Training in every precision: it runs, rewards and log Z stay wide, a bad gradient harms no later step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.skipped_steps import SkippedSteps
from synthstats_lightning.objectives import FlowRL, LogVariance, Objective, SubTrajectoryBalance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory
from synthstats_lightning.tasks import get_task, task_prompt

PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "16-true", "64-true")
REWARD = -20.123456
pytestmark = pytest.mark.filterwarnings("ignore")


class Watch(Callback):
    """What steps saw; from step `since` on, and for so many, the gradient of log Z is made NaN."""

    def __init__(self, since: int = -1, steps: int = 0) -> None:
        self.losses: list[float] = []
        self.rewards: set[float] = set()
        self.dtypes: set[torch.dtype] = set()
        self.bad = range(since, since + steps)
        self.batches = 0

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.losses.append(float(outputs["loss"]))
        self.rewards |= set(batch.log_reward.tolist())
        self.dtypes |= {batch.log_reward.dtype, pl_module.batch_residual.dtype, pl_module.log_z.value.dtype}

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if self.batches in self.bad:
            pl_module.log_z.value.grad.fill_(torch.nan)
        self.batches += 1


def fit(
    folder: Any, watch: Watch, steps: int = 3, objective: Objective | None = None, **more: Any
) -> tuple[Trainer, GFlowNetModule]:
    settings = {name: more.pop(name) for name in ("max_skipped_steps",) if name in more}
    sampling = SamplingSettings(max_new_tokens=12)
    module = GFlowNetModule(
        objective=objective, lora=LoraSettings(rank=2), sampling=sampling, seed=3, **settings
    )
    trainer = Trainer(
        max_steps=steps, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, accelerator="cpu", default_root_dir=folder, callbacks=[watch], **more,
    )  # fmt: skip
    buffer = ReplayBuffer(recent=4, capacity=10)
    encoder = GFlowNetModule(seed=3)
    encoder.configure_model()
    buffer.register_prompt(0, encoder.loaded_policy.encode_prompt("rules", "request"))
    for number in range(4):
        ids = tuple(encoder.loaded_policy.encode_program(f"x = {number}\n"))
        buffer.add(Trajectory(0, ids, REWARD, REWARD, -10.0))
    trainer.fit(module, ReplayLoader(buffer, 4, 100, seed=1))
    return trainer, module


@pytest.mark.parametrize(
    ("precision", "objective"),
    [
        *((precision, None) for precision in PRECISIONS),
        *(
            (precision, objective)
            for precision in ("bf16-mixed", "bf16-true", "64-true")
            for objective in (LogVariance(), SubTrajectoryBalance(), FlowRL())
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_precision_trains(precision: str, objective: Objective | None, tmp_path: Any) -> None:
    watch = Watch()
    trainer, module = fit(tmp_path, watch, objective=objective, precision=precision)
    assert trainer.global_step == 3
    assert torch.isfinite(torch.tensor(watch.losses)).all()
    assert watch.rewards == {torch.tensor(REWARD, dtype=torch.float32).item()}, "rounded on the way"
    assert watch.dtypes <= {torch.float32, torch.float64}
    assert module.skipped_steps.count == 0
    trained = {value.dtype for value in module.parameters() if value.requires_grad}
    assert trained <= {torch.float32, torch.float64}, "what is trained is never rounded"
    base = {value.dtype for value in module.loaded_policy.parameters() if not value.requires_grad}
    if precision.endswith("-true"):
        half = {"bf16-true": torch.bfloat16, "16-true": torch.float16, "64-true": torch.float64}
        assert base == {half.get(precision, torch.float32)}
    with trainer.precision_plugin.forward_context(), torch.no_grad():
        drawn = module.sample([task_prompt(get_task("dugongs"))], 4, module.sampling, stream=0)
    assert drawn.log_prob.dtype == torch.float32
    if precision == "bf16-true":
        return
    assert torch.get_default_dtype() == torch.float32


def test_a_batch_of_requests_passes_every_precision_plugin() -> None:
    from lightning.pytorch.plugins.precision import DoublePrecision, HalfPrecision

    from synthstats_lightning.learning.prompts import PromptRequests

    (request,) = PromptRequests([get_task("dugongs")], 2, 2)
    for plugin in (HalfPrecision("bf16-true"), DoublePrecision()):
        assert plugin.convert_input(request) is request


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_with_a_gradient_that_is_not_finite_is_skipped(accumulate: int, tmp_path: Any) -> None:
    watch = Watch(since=2, steps=1)
    trainer, module = fit(tmp_path, watch, steps=4, accumulate_grad_batches=accumulate, gradient_clip_val=1.0)
    assert trainer.global_step == 4
    assert module.skipped_steps.count == 1
    assert all(bool(value.isfinite().all()) for value in module.parameters())
    state = trainer.optimizers[0].state
    assert state
    assert {int(each["step"]) for each in state.values()} == {3}, "the skipped step leaves no trace"
    assert float(trainer.callback_metrics["train/skipped_steps"]) == 1
    saved: dict[str, Any] = {}
    module.on_save_checkpoint(saved)
    assert saved["skipped_steps"] == 1


def test_too_many_in_a_row_end_the_run_with_the_reason(tmp_path: Any) -> None:
    watch = Watch(since=1, steps=99)
    with pytest.raises(
        FloatingPointError, match=r"gradients of 3 training steps in a row.*max_skipped_steps=2"
    ):
        fit(tmp_path, watch, steps=20, max_skipped_steps=2)
    assert watch.batches == 4
    with pytest.raises(ValueError, match="max_skipped_steps must be at least 0, got -1"):
        SkippedSteps(-1)


def test_large_but_finite_gradients_are_kept() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.full((2,), 3e38)
    skipped = SkippedSteps(0)
    skipped.check([parameter], 0.0)
    assert skipped.count == 0
    assert parameter.grad is not None
