"""Objectives on policy learn from fresh programs alone, drawn at temperature 1, each once a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.objectives import GRPO, GSPO, RLOO, Objective
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.testing.fakes import FakeExecutor

PROGRAMS = 4


class Watch(Callback):
    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.clipped: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.batches.append(batch)
        self.clipped.append(float(trainer.callback_metrics["train/clipped_share"]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("objective", "every"), [(GRPO(), 1), (GSPO(clip=1e-6), 3), (RLOO(), 1)], ids=str)
def test_batches_are_fresh_programs(objective: Objective, every: int, tmp_path: Any) -> None:
    module = GFlowNetModule(
        objective=objective, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=12), seed=1
    )
    scoring = ProgramScoring(
        programs_per_step=PROGRAMS, warmup_programs=PROGRAMS, every_n_steps=every, executor=FakeExecutor(),
        sampling=SamplingSettings(max_new_tokens=12, temperature=1.7, epsilon=0.2), require_scored=False,
    )  # fmt: skip
    watch = Watch()
    Trainer(
        max_steps=6, accelerator="cpu", logger=False, enable_progress_bar=False, log_every_n_steps=1,
        enable_model_summary=False, enable_checkpointing=False, limit_val_batches=0,
        default_root_dir=tmp_path, callbacks=[scoring, watch],
    ).fit(module, ReplayDataModule(batch_size=PROGRAMS, seed=1))  # fmt: skip
    for number, batch in enumerate(watch.batches):
        assert batch.step.tolist() == [number - number % every] * PROGRAMS, "of the last round alone"
        assert batch.token_log_probs is not None
        summed = torch.where(batch.program_mask, batch.token_log_probs, 0.0).sum(1)
        assert torch.allclose(summed, batch.log_prob, atol=1e-4)
    if every > 1:
        assert max(watch.clipped) > 0, "steps behind the round, ratios leave the trust region"


class InterruptsARound(Callback):
    """Ctrl-C while the round of step 2 is scored: after it was handed over, or before it was sampled."""

    def __init__(self, scoring: ProgramScoring, place: str) -> None:
        self.scoring, self.place = scoring, place

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 1:
            owner = self.scoring.queue if self.place == "scores" else self.scoring.scorer
            name = "take" if self.place == "scores" else "sample"
            before = getattr(owner, name)

            def stop(*arguments: Any, **options: Any) -> Any:
                if self.place == "scores" and not len(self.scoring.queue):
                    return before(*arguments, **options)
                raise KeyboardInterrupt

            setattr(owner, name, stop)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["scores", "sampling"])
def test_a_run_that_was_interrupted_within_a_round_goes_on_with_it(place: str, tmp_path: Any) -> None:
    def run(interrupted: bool) -> tuple[Trainer, Watch, GFlowNetModule, ReplayDataModule]:
        module = GFlowNetModule(
            objective=GRPO(), lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=12), seed=1
        )
        scoring = ProgramScoring(
            programs_per_step=PROGRAMS, warmup_programs=PROGRAMS, executor=FakeExecutor(),
            require_scored=False,
        )  # fmt: skip
        watch = Watch()
        callbacks = [scoring, watch, *([InterruptsARound(scoring, place)] if interrupted else [])]
        trainer = Trainer(
            max_steps=5, accelerator="cpu", logger=False, enable_progress_bar=False, log_every_n_steps=1,
            enable_model_summary=False, enable_checkpointing=False, limit_val_batches=0,
            default_root_dir=tmp_path, callbacks=callbacks,
        )  # fmt: skip
        return trainer, watch, module, ReplayDataModule(batch_size=PROGRAMS, seed=1)

    trainer, _, module, data = run(interrupted=True)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        trainer.fit(module, data)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    trainer, watch, module, data = run(interrupted=False)
    trainer.fit(module, data, ckpt_path=tmp_path / "a.ckpt")
    assert trainer.global_step == 5
    assert [batch.step.tolist() for batch in watch.batches] == [[step] * PROGRAMS for step in (2, 3, 4)]
