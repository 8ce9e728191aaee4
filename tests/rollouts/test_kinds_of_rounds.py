"""Whole runs whose rounds are more than programs of prompts: episodes of several turns, and new suffixes."""

from __future__ import annotations

import json

import pytest

from synthstats_lightning.policy import LoraSettings, load_policy
from synthstats_lightning.tasks import task_prompt
from tests.rollouts.test_run import fit, server, tiny  # noqa: F401 - fixtures
from tests.support.completion_server import serving

pytestmark = pytest.mark.slow


def rounds(served):
    return [body for body in served.bodies("/completions") if not body["ignore_eos"]]


def test_episodes_of_a_run_are_written_turn_by_turn(tmp_path):
    with serving(load_policy("tiny-episodes", LoraSettings(rank=4), seed=9)) as served:
        cli = fit(
            tmp_path,
            served,
            "--config=episodes/dugongs",
            "--trainer.max_steps=3",
            "--scoring.programs_per_step=4",
            "--scoring.warmup_programs=4",
            "--model.init_args.sampling.max_new_tokens=160",
            "--scoring.sampling.max_new_tokens=160",
            "--data.init_args.batch_size=4",
            "--report.num_programs=null",
        )
    module, buffer = cli.model, cli.datamodule.buffer
    (prompt,) = prompts_of(cli)
    asked = [body["prompt"] for body in rounds(served)]
    assert all(given[: len(prompt)] == prompt for given in asked)
    turns = [given for given in asked if len(given) > len(prompt)]
    assert turns
    # each is what the trainer has of an episode so far, token by token
    whole = [[*prompt, *item.program_ids] for item in buffer.recent]
    assert all(any(ids[: len(given)] == given for ids in whole) for given in turns)
    assert any(len(item.runs) > 2 for item in buffer.recent)
    policy = module.loaded_policy
    for item in list(buffer.recent)[:3]:
        for place in ends_of_turns(item.runs):
            assert item.program_ids[place - 1] in policy.stop_token_ids or place == len(item.program_ids)
    (path,) = tmp_path.rglob("transcripts.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    # an age counts from the version that wrote, of which there are those of the steps 0 and 2
    assert {document["step"] for document in found} == {0, 2}


def prompts_of(cli):
    """Token ids of the tasks' prompts."""
    policy = cli.model.loaded_policy
    return [policy.encode_prompt(*task_prompt(task)) for task in cli.datamodule.tasks]


def ends_of_turns(runs):
    """Where the policy's own turns end, among an episode's tokens."""
    place, ends = 0, []
    for number, length in enumerate(runs):
        place += length
        if number % 2 == 0:
            ends.append(place)
    return ends


def test_suffixes_of_a_run_go_on_from_the_tokens_of_its_programs(tmp_path, server):  # noqa: F811
    cli = fit(
        tmp_path,
        server,
        "--scoring.prefix_resampling_fraction=0.5",
        "--model.init_args.sampling.max_new_tokens=160",
        "--trainer.max_steps=2",
    )
    (prompt,) = prompts_of(cli)
    longer = [body["prompt"] for body in rounds(server) if len(body["prompt"]) > len(prompt)]
    assert longer
    whole = [[*prompt, *item.program_ids] for item in cli.datamodule.buffer.recent]
    assert all(any(ids[: len(given)] == given for ids in whole) for given in longer)
