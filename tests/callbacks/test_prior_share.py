"""The report's fresh programs from a mixture of policy and prior: who writes what, and what weights say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.estimates import draws_of, estimate_masses
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.testing.fakes import FakeExecutor

pytestmark = pytest.mark.long

SETTINGS = SamplingSettings(max_new_tokens=96)


def perturbed(policy_name):
    """A module whose adapter does something."""
    module = GFlowNetModule(policy=policy_name, seed=3, lora=LoraSettings(rank=2), sampling=SETTINGS)
    module.configure_model()
    module.eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in module.policy.parameters():
        if parameter.requires_grad:
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return module


@pytest.mark.parametrize("proposal", ["nothing", "digest"])
def test_the_prior_writes_with_the_adapter_off_and_on_its_own_prompt(proposal):
    """Its programs are those of an untrained policy that does not look; log π is that of the trained one."""
    prompt = task_prompt(looking(get_task("dugongs"), proposal, "short"))
    blind = task_prompt(get_task("dugongs"))
    module = perturbed("writer")
    found = module.sample_prior([prompt], 12, SETTINGS, stream=5)
    untrained = GFlowNetModule(policy="writer", seed=3, lora=LoraSettings(rank=2), sampling=SETTINGS)
    untrained.configure_model()
    untrained.eval()
    expected = untrained.sample([blind], 12, SETTINGS, stream=5)
    assert found.sources == expected.sources
    assert len(set(found.sources)) > 6
    assert found.reference_log_prob == pytest.approx(expected.log_prob, abs=1e-3)
    assert found.proposal_log_prob == pytest.approx(expected.log_prob, abs=1e-3)
    policy = module.policy
    for row in range(12):
        ids = found.program_ids[row][found.program_mask[row]][None]
        asked = torch.tensor([policy.encode_prompt(*prompt)])
        with torch.no_grad():
            own = policy.program_log_probs(asked, ids, torch.ones_like(ids, dtype=torch.bool))
        assert float(found.log_prob[row]) == pytest.approx(float(own), abs=1e-3)
    assert float((found.log_prob - found.reference_log_prob).abs().max()) > 0.1


def drawn(name, evidence, policy, prior, share):
    score = Score(evidence=evidence, evidence_se=0.0, structure=name)
    record = ProgramRecord("t", name, score, math.log(prior) + evidence, math.log(policy), math.log(prior))
    record.mixture_log_prob = math.log((1 - share) * policy + share * prior)
    return record


def test_draws_in_proportion_to_the_mixture_give_log_z_exactly():
    """A language of three programs, each drawn as often as expected: no error is left."""
    evidence, prior = np.array([0.0, 1.0, 4.0]), np.array([0.25, 0.25, 0.5])
    policy = [0.5, 0.25, 0.25]
    rows = [drawn("abc"[i], evidence[i], policy[i], prior[i], 0.5) for i in range(3)]
    own = [rows[0], rows[0], rows[1], rows[2]]
    blind = [rows[0], rows[1], rows[2], rows[2]]
    log_z = math.log(prior @ np.exp(evidence))
    metrics = evaluation_metrics(own, log_z, others=blind)
    assert metrics["log_z_importance"] == pytest.approx(log_z)
    assert metrics["log_z_gap"] == pytest.approx(0, abs=1e-12)
    # what is said of the policy is of its own draws and probabilities
    residual = log_z - np.log(prior * np.exp(evidence) / policy)[[0, 0, 1, 2]]
    assert metrics["residual_std"] == pytest.approx(residual.std())
    weight = np.exp(-residual)
    alone = weight.sum() ** 2 / (weight**2).sum()
    assert metrics["effective_sample_size_of_policy"] == pytest.approx(alone)
    assert metrics["top_structure_share"] == 0.5


def test_a_program_that_the_policy_writes_too_rarely_decides_nothing():
    """Its weight is at most its evidence above log Z, over the share."""
    common = [drawn(f"c{i}", 2.0, 0.01, 0.0095, 0.1) for i in range(99)]
    rare = drawn("rare", 2.5, 1e-6, 0.002, 0.1)
    metrics = evaluation_metrics([*common[:89], rare], 2.0, others=common[89:])
    assert metrics["effective_sample_size_of_policy"] < 2
    assert metrics["effective_sample_size"] > 30
    assert (
        "100 fresh programs, 10 of them the prior's"
        in TaskReport("t", common, [*common[:89], rare], 2.0, blind=common[89:])._log_z_line()
    )


def test_what_was_never_drawn_is_estimated_by_the_mixture():
    records = [drawn("a", 1.0, 0.5, 0.25, 0.5), drawn("b", 0.0, 0.25, 0.5, 0.5)]
    for record in records:
        record.fresh = 1
    draws = draws_of(records, records, fresh=True)
    assert np.exp(draws.log_prob) == pytest.approx([0.375, 0.375])
    assert np.exp(draws_of(records, records, fresh=False).log_prob) == pytest.approx([0.5, 0.25])
    target = np.log([0.25 * math.e, 0.5])
    masses = estimate_masses(target, draws)
    assert np.exp(masses.log_mass) == pytest.approx(np.exp(target) * (1 + 1 / (2 * 0.375)), rel=0.2)


def test_a_record_keeps_what_it_was_drawn_with():
    record = drawn("a", 1.0, 0.5, 0.25, 0.1)
    assert ProgramRecord.from_dict(record.to_dict()) == record
    record.mixture_log_prob = None
    assert "mixture_log_prob" not in record.to_dict()
    assert ProgramRecord.from_dict(record.to_dict()) == record
    assert record.drawn_log_prob == record.log_prob


def fit(folder, **report):
    scoring = ProgramScoring(
        programs_per_step=4, warmup_programs=8, synchronous=True, executor=FakeExecutor()
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, PosteriorReport(num_programs=30, plotted=1, **report)],
        default_root_dir=folder,
    )
    module = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SETTINGS)
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=50))
    records = [json.loads(line) for line in (folder / "programs.jsonl").read_text().splitlines()]
    return json.loads((folder / "report.json").read_text())["dugongs"], records


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_a_run_draws_the_share_that_is_asked_for(tmp_path, capsys):
    found, records = fit(tmp_path / "mixed", prior_share=0.2)
    assert "30 fresh programs, 6 of them the prior's" in capsys.readouterr().out
    fresh = [record for record in records if record["fresh"]]
    assert sum(record["fresh"] for record in fresh) == 38  # with the warm-up's, which the reference drew
    for record in fresh:
        mixture = np.logaddexp(
            math.log(24 / 38) + record["log_prob"], math.log(14 / 38) + record["reference_log_prob"]
        )
        assert record["mixture_log_prob"] == pytest.approx(mixture, abs=1e-4)  # float32, forced and as drawn
    assert found["effective_sample_size"] > 0
    assert found["effective_sample_size_of_policy"] > 0
    found, records = fit(tmp_path / "alone", prior_share=0.0)
    fresh = [record for record in records if record["fresh"]]
    for record in fresh:
        mixture = np.logaddexp(
            math.log(30 / 38) + record["log_prob"], math.log(8 / 38) + record["reference_log_prob"]
        )
        assert record["mixture_log_prob"] == pytest.approx(mixture, abs=1e-4)  # float32, forced and as drawn


def test_the_share_is_checked():
    with pytest.raises(ValueError, match=r"prior_share must be from 0 to 0\.5, got 0\.7"):
        PosteriorReport(prior_share=0.7)
