"""One short run with everything on that is off by default, stopped and resumed."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from synthstats_lightning import GFlowNetModule, ReplayDataModule, Reward
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule
from tests.support.shared_scoring import SharedScoring

pytestmark = pytest.mark.long

STEPS = 4
GOOD = 'with pm.Model() as model:\n    a = pm.Normal("a", 2, 1)\n    s = pm.HalfNormal("s", 1)\n'
GOOD += '    pm.Normal("y", a + 0.1 * age, s, observed=length)\n'


def parts(folder):
    (folder / "given.jsonl").write_text(
        json.dumps({"task": "dugongs", "source": GOOD}) + "\n" + json.dumps({"source": "no python("}) + "\n"
    )
    data = ReplayDataModule(
        batch_size=8,
        steps_per_epoch=STEPS,
        replay_fraction=0.3,
        structure_fraction=0.3,
        uniform_fraction=0.2,
        multiplicity="program",
        demonstrations=str(folder / "given.jsonl"),
        seed=0,
    )
    scoring = SharedScoring(
        reward=Reward(prior_weight=1.0, format_weight=1.0),
        reward_schedule=RewardSchedule(beta=Ramp(0.25, 3), prior_weight=Ramp(0.5, 3, "cosine")),
        programs_per_step=6,
        warmup_programs=16,
        synchronous=True,
        num_workers=1,
        prefix_resampling_fraction=0.5,
        sampling=SamplingSettings(100, temperature=0.8, temperature_high=1.4, epsilon=0.001),
        anneal_steps=8,
    )
    module = GFlowNetModule(
        tasks=data.task_names, lora=LoraSettings(rank=2), sampling=SamplingSettings(100), seed=0
    )
    return data, scoring, module


def fit(folder, checkpoint=None):
    data, scoring, module = parts(folder)
    metrics = TrainingMetrics(every_n_steps=2, num_programs=8, prefix_lengths=(8,))
    saving = ModelCheckpoint(
        dirpath=folder / "saved", every_n_train_steps=2, save_top_k=-1, filename="{step}"
    )
    trainer = Trainer(
        max_steps=STEPS,
        log_every_n_steps=1,
        callbacks=[scoring, metrics, saving],
        logger=CSVLogger(folder, name="log"),
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        limit_val_batches=0,
        default_root_dir=folder,
    )
    trainer.fit(module, data, ckpt_path=checkpoint)
    return SimpleNamespace(data=data, scoring=scoring, module=module, trainer=trainer)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.warns(UserWarning, match="1 of 2 demonstrations have no score; the first: line 2"):
        return folder, fit(folder)


def test_demonstrations_are_scored_pinned_and_no_samples(run):
    _, done = run
    buffer = done.data.buffer
    assert buffer.composition(STEPS)["pinned"] == 1
    assert buffer.added == 16 + 6 * STEPS
    given = buffer.trajectories[0]
    assert done.module.loaded_policy.decode(list(given.program_ids)) == GOOD.strip("\n") or given.canonical
    record = next(item for item in done.scoring.records if item.source == GOOD)
    assert record.count == 0
    assert record.log_reward == pytest.approx(
        record.score.evidence - baseline(done) + record.reference_log_prob
    )


def baseline(done):
    """The baseline program's evidence, from a record: both are in its untempered part."""
    trajectory = next(t for t in done.data.buffer.trajectories if t.canonical and not math.isinf(t.parts[0]))
    record = next(r for r in done.scoring.records if r.score.canonical == trajectory.canonical)
    return record.score.evidence - trajectory.parts[0]


def test_the_buffer_holds_untempered_parts_and_rewards_of_the_last_step(run):
    _, done = run
    final = done.scoring.tempering.present(0)
    assert final.beta == done.scoring.reward.beta
    for item in done.data.buffer.trajectories:
        expected = final.blend(np.array([item.parts]), np.array([item.reference_log_prob]))
        assert item.log_reward == pytest.approx(float(expected[0])), "the ramp ends at step 3"
        assert item.canonical or item.parts[0] == -math.inf
    assert {item.step for item in done.data.buffer.trajectories} == set(range(STEPS + 1))


def test_half_of_the_samples_begin_as_programs_that_were_good_before(run):
    _, done = run
    items = [item for item in done.data.buffer.trajectories if item.program_ids]
    earlier = {item.program_ids[:12] for item in items if item.step < STEPS and item.canonical}
    later = [item for item in items if item.step == STEPS]
    assert sum(item.program_ids[:12] in earlier for item in later) >= 2


def test_every_metric_is_logged_and_within_its_range(run):
    _, done = run
    names = set(done.trainer.callback_metrics)
    values = {name: float(done.trainer.callback_metrics[name]) for name in names}
    assert {
        "balance/residual_mean",
        "balance/residual_std",
        "replay/drawn_age",
        "replay/age_mean",
        "replay/effective_structures",
        "fresh/log_ratio_variance",
        "fresh/log_z_gap/dugongs",
        "fresh/effective_sample_size/dugongs",
        "fresh/valid_rate",
        "fresh/structures",
        "fresh/effective_structures",
        "fresh/top_mass",
        "fresh/length_drift",
        "fresh/stop_drift",
        "fresh/prefix_collapse_8",
        "reward/beta/dugongs",
        "estimate/log_z_gap/dugongs",
    } <= names
    assert 1 <= values["fresh/effective_sample_size/dugongs"] <= 8
    assert 0 <= values["fresh/valid_rate"] <= 1
    assert values["fresh/effective_structures"] <= values["fresh/structures"] + 1e-5
    assert 0 <= values["fresh/prefix_collapse_8"] <= 1
    assert 0 <= values["replay/drawn_age"] <= STEPS
    assert values["fresh/log_ratio_variance"] > 0
    assert values["reward/beta/dugongs"] == 1.0


@pytest.mark.slow
def test_resumed_equals_uninterrupted(run, tmp_path_factory):
    folder, whole = run
    again = tmp_path_factory.mktemp("again")
    with pytest.warns(UserWarning, match="1 of 1 demonstrations have no score"):
        resumed = fit(again, str(folder / "saved" / "step=2.ckpt"))
    assert resumed.data.buffer.trajectories == whole.data.buffer.trajectories
    for name, value in whole.module.named_parameters():
        assert torch.equal(value, resumed.module.get_parameter(name)), name
