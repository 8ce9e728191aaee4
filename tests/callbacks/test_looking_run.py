"""A run whose policy looks at the data: demonstrations, training, metrics, unseen tasks, resuming."""

from __future__ import annotations

import json

import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.callbacks.unseen_tasks import UnseenTasks
from synthstats_lightning.objectives import RapTB
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.testing.fakes import FakeExecutor, fake_score
from tests.policy.conftest import save_random_model

pytestmark = pytest.mark.filterwarnings("ignore")


def trainer(folder, steps):
    scoring = ProgramScoring(
        programs_per_step=4, warmup_programs=6, synchronous=True, executor=FakeExecutor(),
        prefix_resampling_fraction=0.5,
    )  # fmt: skip
    other = get_task("dugongs")
    other.name = "others"
    callbacks = [scoring, TrainingMetrics(every_n_steps=1, num_programs=4), UnseenTasks([other], 1, 4)]
    return Trainer(
        accelerator="cpu",
        max_steps=steps,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=callbacks,
        default_root_dir=folder,
    )


def parts(folder, model, proposal, examples=0):
    module = GFlowNetModule(
        str(model), ["dugongs"], LoraSettings(rank=2), objective=RapTB(prior_weight=1.0),
        sampling=SamplingSettings(max_new_tokens=12), seed=1,
    )  # fmt: skip
    data = ReplayDataModule(
        ["dugongs"], batch_size=4, demonstrations=str(folder / "given.jsonl"), seed=1, proposal=proposal,
        proposal_examples=examples,
    )  # fmt: skip
    return module, data


def write_demonstrations(folder):
    lines = [{"task": "dugongs", "source": f"x = {number}\n"} for number in (1, 2, 3, 5)]
    (folder / "given.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.slow
@pytest.mark.parametrize("proposal", ["rows", "digest"])
def test_a_run_knows_both_prompts_and_goes_on_with_them(tmp_path, proposal):
    model = save_random_model(tmp_path / "model", max_position_embeddings=4096)
    write_demonstrations(tmp_path)
    module, data = parts(tmp_path, model, proposal)
    first = trainer(tmp_path, 2)
    first.fit(module, data)
    policy, buffer = module.loaded_policy, data.buffer
    blind = policy.encode_prompt(*task_prompt(get_task("dugongs")))
    assert buffer.prior_prompts == {0: tuple(blind)}
    assert len(buffer.prompts[0]) > len(blind)
    assert len(buffer) >= 3
    for item in buffer.trajectories:
        ids = torch.tensor([item.program_ids])
        with torch.no_grad(), policy.evaluating(), policy.reference():
            prior = policy.program_log_probs(torch.tensor([blind]), ids, torch.ones_like(ids).bool())
        assert item.reference_log_prob == pytest.approx(float(prior), abs=1e-3)
    told = first.callback_metrics
    assert all(torch.isfinite(told[name]) for name in ("train/loss", "unseen/valid_rate"))
    first.save_checkpoint(tmp_path / "a.ckpt")
    module, data = parts(tmp_path, model, proposal)
    trainer(tmp_path, 3).fit(module, data, ckpt_path=tmp_path / "a.ckpt")
    assert data.buffer.prior_prompts == buffer.prior_prompts
    assert data.buffer.prompts == buffer.prompts
    module, data = parts(tmp_path, model, "nothing")
    with pytest.raises(
        ValueError, match=f"proposal must be '{proposal}' as in the checkpoint, got 'nothing'"
    ):
        trainer(tmp_path, 3).fit(module, data, ckpt_path=tmp_path / "a.ckpt")


@pytest.mark.slow
def test_a_run_shows_its_best_programs_and_goes_on_with_them(tmp_path):
    model = save_random_model(tmp_path / "model", max_position_embeddings=4096)
    write_demonstrations(tmp_path)
    ends = {}
    for name, steps in {"whole": (4,), "resumed": (2, 4)}.items():
        checkpoint = None
        for end in steps:
            module, data = parts(tmp_path, model, "nothing", examples=3)
            run = trainer(tmp_path, end)
            run.fit(module, data, ckpt_path=checkpoint)
            run.save_checkpoint(checkpoint := tmp_path / f"{name}-{end}.ckpt")
        ends[name] = module, data
    module, data = ends["whole"]
    shown = data.tasks[0].examples
    assert 1 <= len(shown) <= 3
    scores = [fake_score(example.source).evidence for example in shown]
    assert scores == sorted(scores, reverse=True)
    assert [example.gain for example in shown] == pytest.approx([score + 45.0 for score in scores])
    assert len({fake_score(example.source).structure for example in shown}) == len(shown)
    assert all(
        example.source.strip() in data.val_dataloader().dataset[0].prompts[0].data for example in shown
    )
    policy, blind = module.loaded_policy, task_prompt(get_task("dugongs"))
    assert data.buffer.prior_prompts == {0: tuple(policy.encode_prompt(*blind))}
    assert data.buffer.prompts == {0: tuple(policy.encode_prompt(*blind.with_examples(shown)))}
    again, same = ends["resumed"]
    assert same.tasks[0].examples == shown
    assert same.buffer.trajectories == data.buffer.trajectories
    for name, value in module.named_parameters():
        assert torch.equal(value, again.get_parameter(name)), name
