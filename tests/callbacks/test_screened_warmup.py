"""A warm-up of screened programs: which are scored, and what they count as drawn with."""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks.episodes import EpisodeScoring
from synthstats_lightning.callbacks.sample_scorer import SampleScorer
from synthstats_lightning.callbacks.screening import screened
from synthstats_lightning.learning.screen import Screen
from synthstats_lightning.policy import LoraSettings, SampledPrograms, SamplingSettings
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.tasks import get_task
from synthstats_lightning.testing.fakes import FakeExecutor, fake_score
from tests.policy.conftest import save_random_model

HEAD = "with pm.Model() as model:\n    a = pm.Normal('a', 0, 10)\n"
MEANS = ("a", "a + b*age", "a + b*pt.log(age)", "a + b*age**2", "a - b*pt.exp(-c*age)", "a + b/age")
SOURCES = [
    f"{HEAD}    pm.{family}('y', {mean}, s, observed=length)"
    for family in ("Normal", "Laplace", "Logistic")
    for mean in MEANS
]


def samples(stopped=True) -> SampledPrograms:
    count = len(SOURCES)
    log_prob = torch.linspace(-20.0, -10.0, count)
    return SampledPrograms(
        torch.zeros(count, dtype=torch.long),
        torch.arange(count)[:, None],
        torch.ones(count, 1, dtype=torch.bool),
        log_prob,
        log_prob - 1.0,
        torch.full((count,), stopped),
        SOURCES,
        proposal_log_prob=log_prob + 2.0,
    )


def test_a_weighted_mean_over_the_scored_programs_is_that_over_all_that_were_drawn():
    given = samples()
    module, trainer = Mock(spec=GFlowNetModule), Mock(spec=Trainer)
    module.global_rank, module.sample.return_value = 0, given
    trainer.precision_plugin.forward_context = nullcontext
    with ProgramScorer(1, executor=FakeExecutor()) as pool:
        scorer = SampleScorer([get_task("dugongs")], Reward(), pool)
        totals, seen = [], set()
        for seed in range(150):
            module.seed = seed
            programs = scorer.screen(trainer, module, 4, SamplingSettings(), 0, len(SOURCES) / 4)
            assert len(programs) == 4
            seen |= {program.source for program in programs}
            scores = [program.score.result() for program in programs]
            weights = [
                np.exp(score.evidence + 36 + program.log_prob - program.proposal_log_prob)
                for score, program in zip(scores, programs, strict=True)
                if score.scored
            ]
            totals.append(sum(weights) / 4)
    assert seen == set(SOURCES)
    known = [fake_score(source) for source in SOURCES]
    wanted = sum(np.exp(score.evidence + 36 - 2.0) for score in known if score.scored) / len(SOURCES)
    assert abs(np.mean(totals) - wanted) < 4 * np.std(totals) / np.sqrt(len(totals))


def test_programs_that_did_not_stop_are_left_out_where_there_are_others():
    task, generator = get_task("dugongs"), np.random.default_rng(0)
    given = samples()
    given.stopped[::2] = False
    found = screened(given, [task], [5], generator)
    assert len(found) == 5
    assert all(row % 2 for row in found)
    assert len(screened(samples(stopped=False), [task], [5], generator)) == 5
    assert screened(samples(), [task], [0], generator) == {}


def test_what_the_data_speak_for_is_scored_more_often():
    task = get_task("dugongs")
    preferred = Screen(task).log_ratios(SOURCES)
    best, worst = int(preferred.argmax()), int(preferred.argmin())
    rows = [screened(samples(), [task], [4], np.random.default_rng(seed)) for seed in range(60)]
    assert sum(best in row for row in rows) > 1.5 * sum(worst in row for row in rows)


@pytest.mark.filterwarnings("ignore")
def test_a_run_scores_as_many_programs_as_it_was_to(tmp_path):
    model = save_random_model(tmp_path / "model", max_position_embeddings=1024)
    scoring = ProgramScoring(
        programs_per_step=2, warmup_programs=4, warmup_candidates=12, synchronous=True, require_scored=False,
        executor=FakeExecutor(),
    )  # fmt: skip
    module = GFlowNetModule(
        str(model), ["dugongs"], LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=6), seed=1
    )
    data = ReplayDataModule(["dugongs"], batch_size=2, seed=1)
    drawn = []
    sample = module.sample
    module.sample = lambda prompts, number, *more, **named: (
        drawn.append(number) or sample(prompts, number, *more, **named)
    )
    trainer = Trainer(
        accelerator="cpu", max_steps=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0, callbacks=[scoring],
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, data)
    assert drawn[0] == [12]
    assert scoring.replay.warmup == 4


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="warmup_candidates must be at least 0, got -1"):
        ProgramScoring(warmup_candidates=-1)
    with pytest.raises(ValueError, match="warmup_candidates must be 0 for episodes, got 5"):
        EpisodeScoring(warmup_candidates=5)
