"""A report made afterwards with fresh programs: the run's warm-up is a part of what was drawn."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import yaml
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.evaluation.run_report import fresh_programs
from synthstats_lightning.evaluation.run_warmup import RunWarmup
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.journal import PROGRAMS, read_records
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_settings import CONFIGURATION, RunSettings
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.testing.fakes import FakeExecutor

pytestmark = pytest.mark.long

LENGTH = 96
HOT = SamplingSettings(max_new_tokens=LENGTH, temperature=1.2)


def module() -> GFlowNetModule:
    settings = SamplingSettings(max_new_tokens=LENGTH)
    return GFlowNetModule(policy="writer", seed=3, lora=LoraSettings(rank=2), sampling=settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a run of six steps after a warm-up of twelve programs."""
    folder = tmp_path_factory.mktemp("run")
    scoring = ProgramScoring(
        programs_per_step=4, warmup_programs=12, synchronous=True, executor=FakeExecutor(), sampling=HOT
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=6,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring],
        default_root_dir=folder,
    )
    trainer.fit(module(), ReplayDataModule(proposal="digest", batch_size=4, steps_per_epoch=50))
    trainer.save_checkpoint(folder / "a.ckpt")
    data = {"init_args": {"tasks": ["dugongs"], "proposal": "digest"}}
    (folder / CONFIGURATION).write_text(yaml.safe_dump({"data": data}))
    return folder


def drawn(run: Any, records: list[ProgramRecord]) -> Any:
    told = RunSettings(run)
    trained = GFlowNetModule.load_from_checkpoint(run / "a.ckpt", map_location="cpu")
    warmup = RunWarmup(run / "a.ckpt", records)
    with ProgramScorer(1, executor=FakeExecutor()) as scorer:
        found = fresh_programs(trained, scorer, told, 20, time.monotonic() + 60, warmup=warmup)
    return found, trained, warmup, told.left_out


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_the_warm_up_is_a_part_of_the_mixture(run: Any) -> None:
    """Its parts from two other modules: the trained one of the checkpoint and an untrained one."""
    found, trained, warmup, left_out = drawn(run, list(read_records(run)))
    assert left_out == []
    assert [len(part["dugongs"]) for part in found] == [18, 2, 12]
    draws = warmup.draws(0, "dugongs")
    assert [each.source for each in draws] == [record.source for record in found.early["dugongs"]]
    prompts = [task_prompt(looking(get_task("dugongs"), "digest", "short"))]
    ids = [each.program_ids for each in draws]
    untrained = module()
    untrained.configure_model()
    first = untrained.weigh(prompts, [0] * 12, ids, HOT).double()
    own = trained.weigh(prompts, [0] * 12, ids).double()
    assert float((first - own).abs().max()) > 0.05
    for record, then, now in zip(found.early["dugongs"], first.tolist(), own.tolist(), strict=True):
        parts = [(18, now), (2, record.reference_log_prob), (12, then)]
        mixture = np.logaddexp.reduce([math.log(n / 32) + log_prob for n, log_prob in parts])
        assert record.mixture_log_prob == pytest.approx(mixture, abs=1e-3)
        assert record.log_prob == pytest.approx(now, abs=1e-3)
    for record in found.fresh["dugongs"]:  # at least its own part, and at most all of one
        assert record.mixture_log_prob > math.log(18 / 32) + record.log_prob


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_a_warm_up_without_all_its_scores_is_left_out_and_said(run: Any) -> None:
    records = list(read_records(run))
    found, _, warmup, left_out = drawn(run, records[1:])
    assert found.early["dugongs"] == []
    assert records[0].source in {row[1] for row in warmup._rows}
    assert left_out == [
        "the warm-up's programs of dugongs, beside the fresh ones: not all of them have a score among the"
        " run's programs"
    ]


def test_fresh_programs_take_the_place_of_those_that_the_run_ended_with(tmp_path: Any) -> None:
    def record(source: str, evidence: float, **more: Any) -> ProgramRecord:
        score = Score(evidence=evidence, evidence_se=0.0, structure=source)
        return ProgramRecord("t", source, score, evidence - 1.0, -1.0, -1.0, **more)

    old = [record("a", 1.0, fresh=3, mixture_log_prob=-2.0), record("b", 2.0)]
    (tmp_path / PROGRAMS).write_text("".join(each.to_json_line() for each in old))
    made = from_folder(tmp_path, log_z={"t": 1.0}, fresh={"t": [record("c", 9.0), record("a", 1.0)]})
    assert made["t"]["log_z_found"] == pytest.approx(np.logaddexp.reduce([0.0, 1.0, 8.0]))
    assert made["t"]["method"] == "fresh programs"
