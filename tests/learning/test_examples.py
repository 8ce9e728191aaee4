"""A proposal is shown a run's best programs, which change: the target of a whole language does not."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.callbacks.course.prompt_examples import show_examples
from synthstats_lightning.learning.prompts import present_prompts
from synthstats_lightning.policy.prompt_room import UnreadableDataError, check_reads_data
from synthstats_lightning.replay import ReplayBuffer, Trajectory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Prompt, get_task, task_prompt
from synthstats_lightning.tasks.proposal import Example, looking
from tests.learning.test_two_prompts import (  # noqa: F401 - a fixture
    BLIND,
    PROGRAMS,
    SETTINGS,
    exact,
    folder,
    made,
    scores,
    train,
)


class Told:
    """A run of one task whose programs are those of the toy language."""

    def __init__(self, number: int) -> None:
        self.tasks = [looking(get_task("dugongs"), "nothing", examples=number)]

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return present_prompts([BLIND], self.tasks)

    def gain(self, score: Score, task_index: int) -> float:
        return score.evidence + 1.0


def test_examples_that_change_move_no_target_and_no_weight(folder):  # noqa: F811
    module, told, buffer = made(folder, awake=False), Told(2), ReplayBuffer(recent=1)
    encode, policy = module.policy.encode_prompt, module.policy
    buffer.register_prompt(0, encode(*BLIND))
    prior, known = exact(module, BLIND, reference=True), scores()
    records, prompts = [], []
    for round_number in range(4):
        show_examples(told, records, buffer, module)
        prompts.append(told.prompts[0])
        samples = module.sample(told.prompts, 2, SETTINGS, stream=round_number)
        rows = [PROGRAMS.index(tuple(ids[mask].tolist())) for ids, mask in zip(*samples[1:3], strict=True)]
        assert torch.allclose(samples.log_prob, exact(module, prompts[-1])[rows], atol=1e-4)
        assert torch.allclose(samples.reference_log_prob, prior[rows], atol=1e-4)
        assert buffer.prompts[0] == tuple(encode(*prompts[-1]))
        assert buffer.prior_prompts.get(0, buffer.prompts[0]) == tuple(encode(*BLIND))
        for row in set(rows):
            reference = float(prior[row])
            log_reward = float(known[row]) + reference
            buffer.add(Trajectory(0, PROGRAMS[row], log_reward, reference, float(samples.log_prob[0])))
            text = policy.tokenizer.decode(PROGRAMS[row])
            score = Score(evidence=float(known[row]), structure=str(row))
            records.append(ProgramRecord("dugongs", text, score, log_reward, 0.0, reference))
        train(module, buffer, steps=1)
    assert len({prompt.data for prompt in prompts}) >= 3
    assert not prompts[0].data
    best = sorted({record.source: record for record in records}.values(), key=lambda r: -r.score.evidence)[:2]
    for row in range(len(PROGRAMS)):
        reference = float(prior[row])
        buffer.add(Trajectory(0, PROGRAMS[row], float(known[row]) + reference, reference))
    show_examples(told, records, buffer, module)
    assert told.tasks[0].examples == tuple(Example(r.source, r.score.evidence + 1.0) for r in best)
    train(module, buffer, steps=150)
    present, target = told.prompts[0], (prior + known).softmax(0)
    assert 0.5 * (exact(module, present).exp() - target).abs().sum() <= 0.02
    # exact importance weights, whatever the prompt
    samples = module.sample([present], 800, SETTINGS, stream=9)
    rows = [PROGRAMS.index(tuple(ids[mask].tolist())) for ids, mask in zip(*samples[1:3], strict=True)]
    weights = (samples.reference_log_prob + known[rows] - samples.proposal_log_prob).exp()
    assert (
        abs(float(weights.mean()) - float((prior + known).exp().sum()))
        < 1e-3 + 4 * float(weights.std()) / len(weights) ** 0.5
    )


def test_as_many_are_shown_as_leave_room(folder):  # noqa: F811
    module, told, buffer = made(folder), Told(4), ReplayBuffer(recent=1)
    records = [
        ProgramRecord(
            "dugongs", "A B " * 3, Score(evidence=float(place), structure=str(place)), 0.0, 0.0, 0.0
        )
        for place in range(4)
    ]
    show_examples(told, records, buffer, module)
    assert 0 < len(told.tasks[0].examples) < 4
    positions = module.policy.text_config.max_position_embeddings
    assert len(buffer.prompts[0]) + SETTINGS.max_new_tokens <= positions


def test_runs_keep_what_they_show():
    module = ReplayDataModule(["dugongs"], proposal_examples=2)
    assert not task_prompt(module.tasks[0]).data
    shown = (Example("with pm.Model() as model: ...", 3.25), Example("other", -1.0))
    module.tasks[0].examples = shown
    assert not get_task("dugongs").examples
    again = ReplayDataModule(["dugongs"], proposal_examples=2)
    again.load_state_dict(module.state_dict())
    assert again.tasks[0].examples == shown
    fewer = ReplayDataModule(["dugongs"], proposal_examples=1)
    fewer.load_state_dict(module.state_dict())
    assert fewer.tasks[0].examples == shown[:1]
    # requests are in the words of the moment
    requests = again.val_dataloader().dataset
    prompt = requests[0].prompts[0]
    assert "# 1: +3.2\nwith pm.Model() as model: ...\n# 2: -1.0\nother" in prompt.data
    assert prompt.prior == task_prompt(get_task("dugongs"))
    again.tasks[0].examples = ()
    assert not requests[0].prompts[0].data


def test_what_cannot_show_any_is_refused_in_words():
    with pytest.raises(ValueError, match="proposal_examples must be from 0 to 4, got 5"):
        ReplayDataModule(["dugongs"], proposal_examples=5)
    config = type("Config", (), {"reads_data": False})()
    with pytest.raises(UnreadableDataError, match="proposal_examples 0, for policy 'tiny'"):
        check_reads_data(config, "tiny", True)
