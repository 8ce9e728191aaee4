"""The regressions that are written first join a run: scored, stored with the trainer's log-probabilities."""

from __future__ import annotations

from concurrent.futures import wait

import pytest
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks.proposals.first_regressions import ORIGIN, FirstRegressions
from synthstats_lightning.objectives import RLOO
from synthstats_lightning.policy import LoraSettings, SamplingSettings, load_policy
from synthstats_lightning.pretraining.wide.regressions import regressions
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.shares import by_origin
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.testing.fakes import FakeExecutor, fake_score
from tests.support.completion_server import plain_log_probs


def fit(folder, first, *, steps=2, ckpt=None, objective=None, max_programs=None):
    module = GFlowNetModule(
        seed=1,
        lora=LoraSettings(rank=2),
        objective=objective,
        sampling=SamplingSettings(max_new_tokens=160),
    )
    scoring = ProgramScoring(
        programs_per_step=2,
        warmup_programs=2,
        synchronous=True,
        require_scored=False,
        executor=FakeExecutor(),
        max_programs=max_programs,
    )
    trainer = Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        limit_val_batches=0,
        default_root_dir=folder,
        callbacks=[first, scoring],
    )
    data = ReplayDataModule(batch_size=2, steps_per_epoch=4, seed=1)
    trainer.fit(module, data, ckpt_path=ckpt)
    trainer.save_checkpoint(folder / "last.ckpt")
    return data


def given(folder):
    return [record for record in read_records(folder) if record.origin]


def test_a_run_learns_from_them(tmp_path):
    expected = regressions(get_task("dugongs"), 2)
    assert len(expected) >= 2
    first = FirstRegressions(2)
    data = fit(tmp_path, first)
    records = given(tmp_path)
    assert {record.source for record in records} == set(expected)
    assert (first.written, first.given.added) == (len(expected), len(expected))
    assert not first.given.failures
    policy = load_policy("tiny", LoraSettings(rank=2), seed=1)
    prompt = policy.encode_prompt(*task_prompt(get_task("dugongs")))
    stored = {item.program_ids: item for item in data.buffer.trajectories}
    for record in records:
        assert (record.origin, record.count) == (ORIGIN, 0)
        ids = tuple(policy.encode_program(record.source))
        exact = sum(plain_log_probs(policy, prompt, [list(ids)])[0])
        assert stored[ids].reference_log_prob == pytest.approx(exact, abs=1e-2)
        assert record.score.evidence == fake_score(record.source).evidence
    assert by_origin(list(read_records(tmp_path)))[ORIGIN]["programs"] == len(expected)


def test_a_run_that_goes_on_has_them_already(tmp_path):
    fit(tmp_path, FirstRegressions(2))
    before = len(given(tmp_path))
    again = FirstRegressions(2)
    fit(tmp_path, again, steps=4, ckpt=tmp_path / "last.ckpt")
    assert again.written == 0
    assert len(given(tmp_path)) == before


@pytest.mark.parametrize("stops", [KeyboardInterrupt, RuntimeError("the disk is full")])
def test_a_warm_up_that_is_interrupted_keeps_their_scores(tmp_path, monkeypatch, stops):
    expected = regressions(get_task("dugongs"), 2)
    first = FirstRegressions(2)

    def interrupted(self, trainer, seconds=0.0):
        assert len(first.given) == len(expected)
        wait([program.score for program in first.given._waiting])
        raise stops

    monkeypatch.setattr(ProgramScoring, "_harvest", interrupted)
    with pytest.raises((KeyboardInterrupt, SystemExit, RuntimeError)):
        fit(tmp_path, first)
    records = given(tmp_path)
    assert {record.source for record in records} == set(expected)
    assert {record.score.evidence for record in records} == {
        fake_score(source).evidence for source in expected
    }


def test_they_are_a_quarter_of_the_limit_at_most(tmp_path):
    first = FirstRegressions(2)
    fit(tmp_path, first, max_programs=5)
    assert (first.written, first.given.added) == (1, 1)
    assert len(given(tmp_path)) == 1
    assert sum(1 for _ in read_records(tmp_path)) <= 5


def test_objectives_on_policy_have_none(tmp_path):
    first = FirstRegressions(3)
    fit(tmp_path, first, objective=RLOO(2))
    assert first.written == 0
    assert not given(tmp_path)


def test_families_out_of_range():
    with pytest.raises(ValueError, match=r"regressions.families must be from 0 to 3, got 4"):
        FirstRegressions(4)
