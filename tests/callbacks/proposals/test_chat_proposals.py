"""A chat model's programs join a run: scored, stored with the trainer's log-probabilities, told apart."""

from __future__ import annotations

import json
import threading

import pytest
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks.proposals.chat_proposals import ChatProposals
from synthstats_lightning.objectives import RLOO
from synthstats_lightning.policy import LoraSettings, SamplingSettings, load_policy
from synthstats_lightning.replay import read_demonstrations
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.shares import by_origin, origin_lines
from synthstats_lightning.rollouts import RolloutError
from synthstats_lightning.scoring.terms import chat_endpoint
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.testing.fakes import FakeExecutor, fake_score
from tests.support.chat_server import serving
from tests.support.completion_server import plain_log_probs

GOOD = [item.source for item in read_demonstrations("replay/demonstrations.jsonl", ["dugongs"])]
LONG = "with pm.Model() as model:\n" + "".join(f'    a{i} = pm.Normal("a{i}", 0, 1)\n' for i in range(40))


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(chat_endpoint, "FIRST_PAUSE", 0.001)


def fenced(source):
    return f"Growth that levels off:\n\n```python\n{source}```\n"


def fit(folder, proposals, synchronous=True, objective=None):
    module = GFlowNetModule(
        seed=1,
        lora=LoraSettings(rank=2),
        objective=objective,
        sampling=SamplingSettings(max_new_tokens=160),
    )
    scoring = ProgramScoring(
        programs_per_step=2,
        warmup_programs=2,
        every_n_steps=2,
        synchronous=synchronous,
        require_scored=False,
        sampling=SamplingSettings(max_new_tokens=160),
        executor=FakeExecutor(),
    )
    trainer = Trainer(
        max_steps=3,
        accelerator="cpu",
        log_every_n_steps=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        limit_val_batches=0,
        default_root_dir=folder,
        callbacks=[scoring, proposals],
    )
    data = ReplayDataModule(batch_size=2, steps_per_epoch=4, seed=1)
    trainer.fit(module, data)
    return trainer, module, data


def test_a_run_learns_from_proposals(tmp_path):
    answers = {
        0: (200, fenced(GOOD[0])),
        1: (200, (fenced(GOOD[1]), "length")),
        2: (401, ""),
        3: (200, fenced(LONG)),
        4: (200, fenced(GOOD[0])),  # the second round
    }
    with serving(lambda number, body: answers.get(number, (200, fenced(GOOD[1])))) as server:
        proposals = ChatProposals(
            server.url, "strong", programs=4, every_n_steps=2, at_once=1, retries=0, temperature=0.9
        )
        with pytest.warns(UserWarning, match=r"proposals: .*; further ones") as said:
            trainer, _, data = fit(tmp_path, proposals)
    assert [str(each.message).count("status 401") for each in said].count(1) == 1
    prompt = task_prompt(get_task("dugongs"))
    assert {body["temperature"] for body in server.bodies} == {0.9}
    assert server.bodies[0]["messages"][0] == {"role": "system", "content": prompt.rules}
    assert len(server.bodies) == 8
    policy = load_policy("tiny", LoraSettings(rank=2), seed=1)
    stored = {item.program_ids: item for item in data.buffer.trajectories}
    sources = [source.strip() for source in GOOD]
    encoded = policy.encode_prompt(*prompt)
    records = [record for record in read_records(tmp_path) if record.origin]
    assert sorted(record.source.strip() for record in records) == sorted(sources)
    for record in records:
        assert record.origin == proposals.writer.name
        assert record.count == 0
        ids = tuple(policy.encode_program(record.source))
        assert ids[-1] == policy.stop_token_id
        item = stored[ids]
        # the reference's own, by a plain pass of transformers; scored as any other program of the run
        expected = sum(plain_log_probs(policy, encoded, [list(ids)])[0])
        assert item.reference_log_prob == pytest.approx(expected, abs=1e-2)
        assert record.score.evidence == fake_score(record.source).evidence
        assert ids not in [each.program_ids for each in data.buffer.recent]
    # the first was proposed before training: under a new adapter, which changes nothing
    assert records[0].log_prob == pytest.approx(records[0].reference_log_prob, abs=1e-3)
    assert (proposals.asked, proposals.given.added) == (8, 2)
    assert proposals.given.failures == {"cut_off": 1, "status": 1, "too_long": 1, "known": 3}
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert metrics["proposals/asked"] == 8
    assert metrics["proposals/added"] == 2
    assert metrics["proposals/failed"] == 6
    again = ChatProposals(server.url, "strong")
    again.load_state_dict(proposals.state_dict())
    assert again.state_dict() == {
        "counts": {"asked": proposals.asked, "added": proposals.given.added},
        "failures": dict(proposals.given.failures),
    }
    # the report
    everything = list(read_records(tmp_path))
    figures = by_origin(everything)
    assert list(figures) == ["policy", proposals.writer.name]
    assert figures[proposals.writer.name]["programs"] == 2
    assert figures["policy"]["programs"] == len(everything) - 2
    assert sum(each["posterior_share"] for each in figures.values()) == pytest.approx(1.0)
    best = max(record.score.evidence for record in records)
    assert f"2 programs, 2 scored, best evidence {best:.2f}" in origin_lines(everything)[1]
    line = next(line for line in (tmp_path / "programs.jsonl").read_text().splitlines() if "origin" in line)
    assert json.loads(line)["origin"] == f"strong@{server.url}"


@pytest.mark.slow
def test_training_does_not_wait_for_an_endpoint(tmp_path):
    over = threading.Event()

    def late(number, body):
        over.wait(120)
        return 200, fenced(GOOD[0])

    with serving(late) as server:
        proposals = ChatProposals(server.url, "strong", programs=1, every_n_steps=1)
        try:
            _, _, data = fit(tmp_path, proposals, synchronous=False)
        finally:
            over.set()
    # one round, which was under way all the time
    assert (proposals.asked, proposals.given.added) == (1, 0)
    assert len(data.buffer)


@pytest.mark.slow
def test_a_failure_may_end_the_run(tmp_path):
    with serving(lambda number, body: (404, "")) as server:
        proposals = ChatProposals(server.url, "strong", retries=0, on_failure="stop")
        with pytest.raises(RolloutError, match=r"proposals: .*status 404"):
            fit(tmp_path, proposals)


def test_runs_that_could_not_learn_from_proposals():
    proposals = ChatProposals("http://127.0.0.1:1", "strong")
    data = ReplayDataModule()
    proposals.check(GFlowNetModule(), data)
    with pytest.raises(ValueError, match=r"proposals.url must be null for RLOO, which learns from programs"):
        proposals.check(GFlowNetModule(objective=RLOO()), data)
    with pytest.raises(ValueError, match="must be above 0 where there are proposals"):
        proposals.check(GFlowNetModule(), ReplayDataModule(replay_fraction=0.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"programs": 0}, "programs must be at least 1, got 0"),
        ({"every_n_steps": 0}, "every_n_steps must be at least 1, got 0"),
        ({"url": "here"}, "url must be that of a server"),
        ({"model": None}, "model must name a model of the endpoint"),
    ],
)
def test_values_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChatProposals(**({"url": "http://127.0.0.1:1", "model": "strong"} | arguments))
