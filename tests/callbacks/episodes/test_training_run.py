"""A short run on three environments: experiments, submissions, scores, transcripts, and a run resumed."""

from __future__ import annotations

import json
import math

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule, Reward
from synthstats_lightning.callbacks.episodes import EpisodeScoring
from synthstats_lightning.objectives import ActionSubTrajectoryBalance, ModifiedSubTrajectoryBalance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.tasks.experiments import ExperimentTask

pytestmark = pytest.mark.long

ENVIRONMENTS = ("dugongs_simulator", "death_process", "peregrines_simulator")
STEPS = 2


def parts(objective=None):
    data = ReplayDataModule(
        tasks=[ExperimentTask(name, seed=1, experiments=1) for name in ENVIRONMENTS],
        batch_size=6,
        steps_per_epoch=STEPS,
        eval_programs=4,
        eval_batch_size=4,
        seed=0,
    )
    scoring = EpisodeScoring(programs_per_step=2, warmup_programs=4, synchronous=True, num_workers=1)
    module = GFlowNetModule(
        policy="tiny-episodes",
        tasks=data.task_names,
        objective=objective,
        lora=LoraSettings(rank=2),
        sampling=SamplingSettings(max_new_tokens=120),
        seed=0,
    )
    return data, scoring, module


def fit(folder, objective=None, checkpoint=None):
    data, scoring, module = parts(objective)
    trainer = Trainer(
        max_steps=STEPS,
        log_every_n_steps=1,
        callbacks=[
            scoring,
            ModelCheckpoint(folder / "saved", "{step}", every_n_train_steps=1, save_top_k=-1),
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        limit_val_batches=0,
        default_root_dir=folder,
    )
    trainer.fit(module, data, ckpt_path=checkpoint)
    return data, module, trainer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    data, module, trainer = fit(folder, ActionSubTrajectoryBalance(information=1.0))
    metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
    return folder, data, module, metrics


def test_the_policy_experiments_submits_and_is_scored(run):
    _, data, _, metrics = run
    assert metrics["episode/submitted"] > 0
    assert 0 < metrics["episode/experiments"] <= 1
    assert metrics["sample/valid_rate"] > 0
    assert all(math.isfinite(value) for value in metrics.values())
    stored = data.buffer.trajectories
    assert {item.task_index for item in stored} == {0, 1, 2}
    assert any(len(item.runs) == 3 for item in stored)
    for item in stored:
        assert sum(item.runs) == len(item.program_ids)


def test_experiments_are_credited_with_what_they_were_expected_to_tell(run):
    _, data, _, metrics = run
    stored = data.buffer.trajectories
    for item in stored:
        assert len(item.gains) == (len(item.runs) + 1) // 2 or not item.runs
        assert item.gains[-1] == 0 or len(item.runs) % 2 == 0  # a submission tells nothing
        assert all(0 <= gain < 5 for gain in item.gains)
    assert any(item.gains[0] > 0.1 for item in stored)
    told = [sum(item.gains) for item in stored]
    assert min(told) <= metrics["episode/information"] <= max(told)


def test_transcripts_show_every_episode_turn_by_turn(run):
    folder, data, _, _ = run
    documents = [json.loads(line) for line in (folder / "transcripts.jsonl").read_text().splitlines()]
    assert len(documents) == data.buffer.added == 3 * (4 + STEPS * 2)
    assert {document["task"] for document in documents} == set(ENVIRONMENTS)
    assert sum(bool(document["program"]) for document in documents) >= 0.5 * len(documents)
    scored = next(d for d in documents if d["status"] == "scored" and d["experiments"])
    assert scored["turns"][0]["kind"] == "observe"
    assert scored["turns"][-1]["text"] == f"<program>{scored['program']}</program>"
    assert math.isfinite(scored["heldout_lpd"])
    text = (folder / "transcripts.txt").read_text()
    assert text.count("=== episode ") == len(documents)
    assert "--- environment\n" + scored["turns"][0]["answer"] in text


@pytest.mark.slow
def test_a_run_resumes_to_the_same_end(run, tmp_path):
    folder, data, module, _ = run
    objective = ActionSubTrajectoryBalance(information=1.0)
    again, other, _ = fit(tmp_path, objective, checkpoint=folder / "saved" / "step=1.ckpt")
    assert again.buffer.trajectories == data.buffer.trajectories
    for name, value in module.policy.adapter_state_dict().items():
        assert value.equal(other.policy.adapter_state_dict()[name])


@pytest.mark.slow
def test_validation_samples_episodes(run, tmp_path):
    data, scoring, module = parts()
    trainer = Trainer(
        callbacks=[scoring],
        logger=False,
        enable_progress_bar=False,
        accelerator="cpu",
        default_root_dir=tmp_path,
    )
    (metrics,) = trainer.validate(module, data, verbose=False)
    assert math.isfinite(metrics["val/log_reward/death_process"])


def test_what_does_not_go_with_episodes(tmp_path):
    with pytest.raises(ValueError, match=r"reward.score must be 'heldout_lpd' for episodes, got 'elpd'"):
        EpisodeScoring(reward=Reward(score="elpd"))
    with pytest.raises(ValueError, match=r"prefix_resampling_fraction must be 0 for episodes, got 0.5"):
        EpisodeScoring(prefix_resampling_fraction=0.5)
    with pytest.raises(ValueError, match="ModifiedSubTrajectoryBalance needs forced_stop, stop_log_probs"):
        fit(tmp_path, ModifiedSubTrajectoryBalance())
    with pytest.raises(ValueError, match="tasks must all be of several turns, or none"):
        ReplayDataModule(tasks=["dugongs", ExperimentTask("death_process")])
    assert issubclass(EpisodeScoring, ProgramScoring)
