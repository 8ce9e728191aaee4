"""The warm-up's programs beside the report's fresh ones: what drew them, and what they weigh."""

from __future__ import annotations

import json
import math
from concurrent.futures import Future
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks.course.warmup_draws import WarmupDraws
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.policy.forced import forced_behaviour_log_probs
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.testing.fakes import FakeExecutor

pytestmark = pytest.mark.long

LENGTH = 96


def writer(**sampling):
    settings = SamplingSettings(max_new_tokens=LENGTH, **sampling)
    module = GFlowNetModule(policy="writer", seed=3, lora=LoraSettings(rank=2), sampling=settings)
    module.configure_model()
    module.eval()
    return module


@pytest.mark.parametrize(
    "drawing",
    [
        {},
        {"temperature": 1.3},
        {"temperature": 1.1, "epsilon": 0.05},
        {"top_p": 0.9, "min_new_tokens": 5},
    ],
)
def test_given_programs_have_the_probability_that_they_were_drawn_with(drawing):
    """Two tasks of different columns, so that tokens are masked; decoding says what it drew with."""
    module = writer(min_new_tokens=drawing.get("min_new_tokens", 0))
    prompts = [
        task_prompt(looking(get_task(name), "digest", "short")) for name in ("dugongs", "eight_schools")
    ]
    settings = SamplingSettings(max_new_tokens=LENGTH, **drawing)
    found = module.sample(prompts, 10, settings, stream=5)
    rows = zip(found.program_ids, found.program_mask, strict=True)
    given = prompts, found.prompt_index.tolist(), [row[mask].tolist() for row, mask in rows]
    assert module.weigh(*given, settings).numpy() == pytest.approx(found.proposal_log_prob.numpy(), abs=1e-3)
    assert module.weigh(*given).numpy() == pytest.approx(found.log_prob.numpy(), abs=1e-3)


def test_a_temperature_for_each_program_is_refused():
    settings = SamplingSettings(temperature_high=1.5)
    rows = torch.zeros(1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1).bool()
    with pytest.raises(ValueError, match=r"temperature_high must be None here, got 1\.5"):
        forced_behaviour_log_probs(Mock(), [[1]], *rows, settings)


def test_draws_in_proportion_to_three_parts_give_log_z_exactly():
    """A language of four programs, each part drawing each as often as expected: no error is left."""
    evidence, prior = np.array([0.0, 1.0, 4.0, 2.0]), np.array([0.25, 0.25, 0.25, 0.25])
    policy, warmup = np.array([0.5, 0.25, 0.125, 0.125]), np.array([0.0, 0.25, 0.25, 0.5])
    with np.errstate(divide="ignore"):
        own, early = np.log(policy), np.log(warmup)

    def drawn(index):
        score = Score(evidence=evidence[index], evidence_se=0.0, structure="abcd"[index])
        target = math.log(prior[index]) + evidence[index]
        record = ProgramRecord("t", "abcd"[index], score, target, own[index], math.log(prior[index]))
        record.draw_from_mixture(0.25, 0.25, early[index])
        return record

    fresh = [drawn(index) for index in (0, 0, 0, 0, 1, 1, 2, 3)]
    blind = [drawn(index) for index in (0, 1, 2, 3)]
    warmed = [drawn(index) for index in (1, 2, 3, 3)]
    log_z = math.log(prior @ np.exp(evidence))
    metrics = evaluation_metrics(fresh, log_z, others=[*blind, *warmed])
    assert metrics["log_z_importance"] == pytest.approx(log_z)
    weight = prior * np.exp(evidence) / (0.5 * policy + 0.25 * prior + 0.25 * warmup)
    weight = np.repeat(weight, [5, 4, 3, 4])
    assert metrics["effective_sample_size"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    report = TaskReport("t", fresh, fresh, log_z, blind=blind, early=warmed)
    assert "12 fresh programs, 4 of them the prior's and 4 of the warm-up" in report._log_z_line()
    posterior = report.posterior_by_form()
    assert posterior.estimate.num_draws == 16
    assert posterior.estimate.effective_sample_size == pytest.approx(metrics["effective_sample_size"])


def run(folder, steps=6, perturbed=False, fresh=20):
    scoring = ProgramScoring(
        programs_per_step=4,
        warmup_programs=12,
        synchronous=True,
        executor=FakeExecutor(),  # what scores say is no matter here
        sampling=SamplingSettings(max_new_tokens=LENGTH, temperature=1.2),
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, PosteriorReport(num_programs=fresh, plotted=1)],
        default_root_dir=folder,
    )
    module = writer().train()
    if perturbed:
        generator = torch.Generator().manual_seed(0)
        for parameter in module.policy.parameters():
            if parameter.requires_grad:
                parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    return trainer, scoring, module, ReplayDataModule(proposal="digest", batch_size=4, steps_per_epoch=50)


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_a_resumed_run_weighs_the_warm_up_by_what_the_untrained_policy_writes(tmp_path):
    """The mixture of every program from two other modules: a trained one of the run and an untrained one."""
    trainer, _, module, data = run(tmp_path / "first", 2, fresh=None)
    trainer.fit(module, data)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    trainer, scoring, module, data = run(tmp_path / "second")
    trainer.fit(module, data, ckpt_path=tmp_path / "a.ckpt")
    assert len(scoring.warmup_draws.programs) == 12
    lines = (tmp_path / "second" / "programs.jsonl").read_text().splitlines()
    records = {record["source"]: record for record in map(json.loads, lines)}
    assert sum(record["fresh"] for record in records.values()) == 32
    prompts = [task_prompt(looking(get_task("dugongs"), "digest", "short"))]
    early = scoring.warmup_draws.programs
    ids = [program.program_ids for program in early]
    hot = SamplingSettings(max_new_tokens=LENGTH, temperature=1.2)
    first = writer().weigh(prompts, [0] * 12, ids, hot).double()
    own = module.weigh(prompts, [0] * 12, ids).double()
    assert float((first - own).abs().max()) > 0.05
    for program, then, now in zip(early, first.tolist(), own.tolist(), strict=True):
        record = records[program.source]
        parts = [(18, now), (2, record["reference_log_prob"]), (12, then)]
        mixture = np.logaddexp.reduce([math.log(n / 32) + log_prob for n, log_prob in parts])
        assert record["mixture_log_prob"] == pytest.approx(mixture, abs=1e-3)
        assert record["count"] >= record["fresh"] >= 1


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_a_policy_that_began_elsewhere_leaves_its_warm_up_out(tmp_path, capsys):
    trainer, scoring, module, data = run(tmp_path, 2, perturbed=True)
    trainer.fit(module, data)
    assert len(scoring.warmup_draws.programs) == 12
    said = capsys.readouterr().out
    assert "20 fresh programs, 2 of them the prior's" in said
    assert "of the warm-up" not in said
    records = map(json.loads, (tmp_path / "programs.jsonl").read_text().splitlines())
    assert sum(record["fresh"] for record in records) == 20


@pytest.mark.filterwarnings("ignore:dugongs, step")
def test_an_error_of_the_weighing_costs_the_warm_up_alone(tmp_path, monkeypatch):
    def fail(*arguments, **more):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(GFlowNetModule, "weigh", fail)
    trainer, _, module, data = run(tmp_path, 1)
    trainer.fit(module, data)
    found = json.loads((tmp_path / "report.json").read_text())["dugongs"]
    line = "the warm-up's programs, beside the fresh ones: OutOfMemoryError: no room"
    assert line in found["left_out"]
    records = map(json.loads, (tmp_path / "programs.jsonl").read_text().splitlines())
    assert sum(record["fresh"] for record in records) == 20


def pending(source, score, **more):
    future = Future()
    future.set_result(score)
    return PendingProgram(0, source, (5, 6, 7), -3.0, -4.0, future, proposal_log_prob=-3.5, **more)


def test_what_a_checkpoint_holds_of_a_warm_up_comes_back_with_its_scores():
    """One that was cut at its limit stays so: its text might be a whole program."""
    cut = Score.failed(FailureCategory.TRUNCATED, "no stop token")
    draws = WarmupDraws()
    hot = SamplingSettings(max_new_tokens=LENGTH, temperature=1.2)
    draws.take([pending("a", Score(evidence=1.0)), pending("b", cut, looking=0.5)], hot)
    state = json.loads(json.dumps(draws.state()))
    with ProgramScorer(1, executor=FakeExecutor()) as pool:
        scorer = SampleScorer([get_task("dugongs")], Reward(), pool)
        back = WarmupDraws()
        back.restore([state])
        assert json.loads(json.dumps(back.state())) == state  # saved again before the run goes on
        back.resubmit(scorer)
        assert back.drawing == hot
        assert [program.source for program in back.programs] == ["a", "b"]
        assert [program.program_ids for program in back.programs] == [(5, 6, 7)] * 2
        assert [program.proposal_log_prob for program in back.programs] == [-3.5] * 2
        assert back.programs[1].looking == 0.5
        assert back.programs[0].score.result().scored
        assert back.programs[1].score.result().failure is FailureCategory.TRUNCATED


@pytest.mark.parametrize(
    ("programs", "drawing"),
    [
        ([pending("a", Score(evidence=1.0))], SamplingSettings(temperature_high=1.5)),
        ([pending("a", Score(evidence=1.0), episode=object())], SamplingSettings()),
        ([pending("a", Score(evidence=1.0))._replace(proposal_log_prob=math.inf)], SamplingSettings()),
    ],
)
def test_draws_of_unknown_probability_are_not_kept(programs, drawing):
    draws = WarmupDraws()
    draws.take(programs, drawing)
    assert draws.programs == []
    assert draws.weighed(Mock(spec=Trainer), Mock(spec=GFlowNetModule), [], []) is None
