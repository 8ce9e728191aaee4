"""Training a writer: rows against the policy's own passes, resuming, and what is saved."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
import torch

from synthstats_lightning.policy import ModelSettings, SamplingSettings, load_policy
from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.pretraining.writer import train
from synthstats_lightning.pretraining.writer.pupil import Pupil, new_model, new_tokenizer, spelling_for
from synthstats_lightning.pretraining.writer.rows import pair_row, writer_batch, writer_row
from synthstats_lightning.pretraining.writer.settings import Stage, WriterTraining
from synthstats_lightning.pretraining.writer.sources import drawn_example, fixed_pairs, pool_rows, sections_of
from synthstats_lightning.pretraining.writer.train import save_policy, train_writer
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.testing.writers import SHORT, SMALL


@pytest.fixture(scope="module")
def made():
    tokenizer, classes = new_tokenizer(SMALL, SHORT)
    pupil = Pupil(new_model(SMALL, tokenizer, seed=3), classes).eval()
    with torch.no_grad():
        pupil.model.model.embed_tokens.outer.normal_(std=0.1)
    return pupil, tokenizer, spelling_for(tokenizer, SMALL)


@torch.no_grad()
def test_packed_rows_have_the_log_probabilities_of_the_policys_own_prompts(made, tmp_path, monkeypatch):
    pupil, tokenizer, spelling = made
    # training teaches first lines, numbers, brackets and neighbours, and rules out none that are wrong
    limits = PointerSpelling.limits
    monkeypatch.setattr(
        PointerSpelling,
        "limits",
        lambda *given: limits(*given)._replace(rules=(), numbers=None, brackets=None, adjacent=None),
    )
    save_policy(pupil, tokenizer, tmp_path)
    policy = load_policy(str(tmp_path), None, ModelSettings(dtype="float32"))
    pupil.load_state_dict(
        {f"model.{name}": value for name, value in policy.model.state_dict().items()}, strict=False
    )
    pairs = fixed_pairs(SHORT, 4)
    batch = writer_batch([pair_row(spelling, *pair) for pair in pairs], spelling, pupil.classes)
    log_probs, _ = pupil(batch, "fp32")
    found = torch.zeros(8).index_add(0, batch.segment, log_probs)
    for place, (example, program) in enumerate(pairs):
        ids = torch.tensor([policy.encode_program(program.source, example.facts)])
        for informed, facts in enumerate((example.facts, replace(example.facts, digest=program.digest))):
            prompt = torch.tensor([policy.encode_prompt("", "", facts=facts)])
            expected = policy.program_log_probs(prompt, ids, ids >= 0)
            assert float(found[2 * place + informed]) == pytest.approx(float(expected), abs=2e-4)
    assert batch.informed.tolist() == [False, True] * 4


def test_blind_programs_are_unfiltered_and_pointers_are_dealt(made):
    spelling = made[2]
    rng, blind, pointers = Random(1), 0, set()
    stage = Stage(blind=1.0)
    for _ in range(15):
        example = drawn_example(rng, stage, 5, 2)
        row = writer_row(rng, spelling, example, SHORT, stage, sections_of(stage), SMALL.context)
        assert row.plans[0] == example.programs[0].plan
        assert row.informed[0] is False
        blind += example.programs[0].digest is None
        accepted = [program for program in example.programs if program.digest is not None]
        assert row.plans[1:] == [program.plan for program in accepted]
        assert len(accepted) <= 2
        pointers |= set(row.table.names.values())
    assert blind > 3  # a program whose data are not accepted is a blind one all the same
    assert len(pointers) > 8


@pytest.mark.slow
def test_a_training_that_was_ended_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    training = replace(SHORT, steps=4, evaluate_every=4)
    lines = []
    whole = train_writer(tmp_path_of(tmp_path, "whole"), training, SMALL, 0, lines.append)
    folder = tmp_path_of(tmp_path, "pieces")
    assert train_writer(folder, training, SMALL, 0, lines.append, stop=3) is None
    with (folder / "gain.jsonl").open("a") as file:  # of a step whose state was not saved, and half a line
        file.write('{"step": 4, "gain": 99.0}\n{"step"')
    # whatever has become of the grammar, weights go on with the tokens that they were trained with
    monkeypatch.setattr(train, "new_tokenizer", lambda size, training: pytest.fail("made anew"))
    pieces = train_writer(folder, training, SMALL, 0, lines.append)
    assert pieces == whole
    states = [torch.load(tmp_path / name / "state.pt", weights_only=True) for name in ("whole", "pieces")]
    for name, value in states[0]["pupil"].items():
        assert torch.equal(value, states[1]["pupil"][name]), name
    (only,) = map(json.loads, (folder / "gain.jsonl").read_text().splitlines())
    assert only["gain"] == whole.gain
    assert any("nats a token" in line for line in lines)
    with pytest.raises(ValueError, match="output must be a new folder"):
        train_writer(folder, replace(training, seed=9), SMALL, 0, lines.append)
    policy = load_policy(str(folder))
    prompt = task_prompt(looking(get_task("dugongs"), "digest"))
    ids, priors = [policy.encode_prompt(*prompt)], [policy.encode_prompt(*prompt.prior)]
    drawn = policy.sample(ids, 2, SamplingSettings(30), seed=1, prior_prompts=priors, facts=[prompt.facts])
    assert torch.isfinite(drawn.reference_log_prob).all()


def tmp_path_of(tmp_path, name):
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_schedules_follow_the_steps():
    training = WriterTraining(
        [Stage(share=1.0), Stage(share=3.0, blind=0.5)], steps=100, warmup=10, decay=0.25, learning_rate=1.0
    )
    assert [training.stage_at(step).blind for step in (0, 24, 25, 99)] == [0.25, 0.25, 0.5, 0.5]
    rates = [training.rate_at(step) for step in (0, 4, 9, 50, 75, 90, 99)]
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0, 0.4, 0.04])


def test_processes_see_other_rows_and_a_pool_repeats(made):
    spelling = made[2]
    training = replace(SHORT, rows=1)
    first, again, other = (
        [row.row.request for batch in pool_rows(training, spelling, 512, rank, 3) for row in batch]
        for rank in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_programs_of_the_wide_grammar_come_back_and_their_rows_fit(made):
    spelling, stage, rng = made[2], Stage(grammar="wide", covariates={16: 1.0}, blind=1.0), Random(4)
    training = replace(SHORT, stages=[stage])
    for _ in range(6):
        example = drawn_example(rng, stage, 4, 2)
        for program in example.programs:
            ids = spelling.program(program.source, example.facts)
            assert spelling.read(ids, example.facts, ()).source == program.source
        row = writer_row(rng, spelling, example, training, stage, sections_of(stage), 4000)
        assert set(row.plans[0].columns) <= row.table.names.keys()
        batch = writer_batch([row], spelling, made[0].classes)
        counted = batch.packed.targets[batch.packed.counted]
        assert batch.allowed[0, counted].all()  # nothing that is learned is masked
