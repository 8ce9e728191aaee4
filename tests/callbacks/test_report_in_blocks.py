"""A report of 2,000 programs by a model whose cache has no room for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.policy import LoraSettings, ModelSettings, SamplingSettings
from synthstats_lightning.policy.memory_plan.plan import CACHE_BLOCK, GIB
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.testing.fakes import FakeExecutor
from tests.policy.conftest import save_random_model
from tests.support.live_bytes import LiveBytes

PROGRAMS, NEW_TOKENS = 2000, 8
SETTINGS = {"lora": LoraSettings(rank=2), "sampling": SamplingSettings(max_new_tokens=NEW_TOKENS), "seed": 1}


def whole_cache(folder: Path) -> tuple[float, int]:
    """Bytes of the cache of all programs of the report, and of one token."""
    module = GFlowNetModule(str(folder), **SETTINGS)  # type: ignore[arg-type]
    module.configure_model()
    prompt = task_prompt(get_task("dugongs"))
    module.sample([prompt], 1, module.sampling, stream=1)
    plan = module.loaded_policy.memory.plan
    assert plan is not None
    tokens = -(-(plan.prompt_tokens + NEW_TOKENS) // CACHE_BLOCK) * CACHE_BLOCK
    return plan.cache.per_token * tokens * PROGRAMS, int(plan.cache.per_token)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:dugongs, step")  # of a run that is this short
def test_its_peak_is_within_a_budget_forty_times_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_random_model(tmp_path / "model", layers=1, head_dim=128, num_key_value_heads=4)
    cache, per_token = whole_cache(folder)
    budget = cache / 40
    sampled, peaks, results = [], [], []
    real = GFlowNetModule.sample

    def watched(self: GFlowNetModule, *given: Any, **more: Any) -> Any:
        self.loaded_policy.tokens_per_pass()  # weighs the cache outside
        with LiveBytes() as memory:
            drawn = real(self, *given, **more)
        sampled.append(len(drawn.sources))
        peaks.append(memory.peak)
        results.append(sum(each.nbytes for each in drawn if hasattr(each, "nbytes")))
        return drawn

    monkeypatch.setattr(GFlowNetModule, "sample", watched)
    report = PosteriorReport(num_programs=PROGRAMS, plotted=1, deadline=3600.0)
    # a random model hardly ever stops, so that nothing scores
    scoring = ProgramScoring(
        programs_per_step=4, warmup_programs=8, executor=FakeExecutor(), require_scored=False
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, report],
        default_root_dir=tmp_path,
    )
    model = ModelSettings(memory_gib=budget / GIB)
    module = GFlowNetModule(str(folder), model=model, **SETTINGS)  # type: ignore[arg-type]
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=1))
    assert sum(sampled) >= PROGRAMS
    for number, peak, kept in zip(sampled, peaks, results, strict=True):
        assert peak <= budget + kept, f"{number} programs"
    assert max(peaks) > per_token * NEW_TOKENS  # something was watched
    assert scoring.records
