"""Programs of a server: which tokens come back, and whose log-probabilities they get."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, resample_suffixes, sample_episodes
from synthstats_lightning.policy.memory_plan.row_blocks import decode_rows
from synthstats_lightning.policy.sampling import stream_seed
from synthstats_lightning.policy.sampling_backend import SamplingBackend
from synthstats_lightning.rollouts import server_backend
from tests.policy.test_sampling import PROMPTS, stop_often
from tests.policy.test_sampling_backend import Twice
from tests.policy.test_turns import TEMPLATE
from tests.rollouts.conftest import change, publish
from tests.support.completion_server import plain_log_probs, seeded

SETTINGS = SamplingSettings(max_new_tokens=12)


def rows_of(drawn):
    return [row[mask].tolist() for row, mask in zip(drawn.program_ids, drawn.program_mask, strict=True)]


def first_seed(seed, rank=0, step=0):
    generator = torch.Generator().manual_seed(stream_seed(seed, rank, step))
    return int(torch.randint(1 << server_backend.SEED_BITS, (1,), generator=generator))


@pytest.mark.parametrize("api", ["vllm", "sglang"])
def test_equal_seeds_give_the_policy_s_own_programs_and_log_probabilities(policy, server, backend):
    assert isinstance(backend, SamplingBackend)
    change(stop_often(policy), 1)
    publish(backend, policy)
    backend.same_weights = True
    drawn = policy.sample(PROMPTS, [3, 2], SETTINGS, seed=7, rank=1, step=3, backend=backend)
    # by hand: each program from a seed of its own
    seed, expected = first_seed(7, 1, 3), []
    for number, (prompt, count) in enumerate(zip(PROMPTS, [3, 2], strict=True)):
        for child in range(count):
            randomness = seeded(SETTINGS, [seed + number * server_backend.SEED_SPACING + child])
            with policy.evaluating():
                one = one_program(policy, prompt, randomness)
            expected.append(one)
    assert rows_of(drawn) == expected
    assert len({tuple(row) for row in expected}) > 1
    assert drawn.stopped.tolist() == [row[-1] in policy.stop_token_ids for row in expected]
    prompts = [PROMPTS[index] for index in drawn.prompt_index.tolist()]
    policy.eval()
    for row, (prompt, ids) in enumerate(zip(prompts, expected, strict=True)):
        values = torch.tensor(plain_log_probs(policy, prompt, [ids])[0])
        assert torch.allclose(drawn.token_log_probs[row, : len(ids)], values, atol=1e-4)
        assert drawn.log_prob[row].item() == pytest.approx(values.sum().item(), abs=1e-3)
        with policy.reference():
            reference = sum(plain_log_probs(policy, prompt, [ids])[0])
        assert drawn.reference_log_prob[row].item() == pytest.approx(reference, abs=1e-3)
    assert torch.allclose(drawn.proposal_log_prob, drawn.log_prob, atol=1e-3)
    metrics = backend.take_counts().metrics()
    assert metrics["rollout/server_gap"] < 1e-5
    assert metrics["rollout/tokens_per_second"] > 0
    # and once more the same
    again = policy.sample(PROMPTS, [3, 2], SETTINGS, seed=7, rank=1, step=3, backend=backend)
    assert rows_of(again) == expected


def one_program(policy, prompt, randomness):
    rows = torch.zeros(1, dtype=torch.long)
    found = decode_rows(policy, [prompt], rows, SETTINGS, torch.Generator(), randomness)
    return found.program_ids[0][found.program_mask[0]].tolist()


def asked(server):
    """Prompts of the requests, whatever they are written in."""
    return [body["prompt"] for body in server.bodies("completions")] + [
        body["input_ids"][0] for body in server.bodies("/generate")
    ]


def test_the_loss_sees_the_policy_of_now_not_that_of_the_server(policy, server, backend):
    publish(backend, stop_often(policy))
    before = policy.sample(PROMPTS, 2, SETTINGS, seed=0, backend=backend)
    change(policy, 2)
    after = policy.sample(PROMPTS, 2, SETTINGS, seed=0, backend=backend)
    assert rows_of(after) == rows_of(before)
    assert (after.log_prob - before.log_prob).abs().min() > 0.01
    # what it was drawn with is what it was
    assert torch.allclose(after.proposal_log_prob, before.log_prob, atol=1e-3)


def test_requests_say_all_and_hold_programs_of_one_prompt(policy, server, backend, monkeypatch):
    monkeypatch.setattr(server_backend, "MOST_PROGRAMS", 2)
    version = publish(backend, stop_often(policy))
    settings = SamplingSettings(max_new_tokens=9, min_new_tokens=3, temperature=1.3, top_p=0.9)
    drawn = policy.sample(PROMPTS, [3, 1], settings, seed=0, backend=backend)
    bodies = sorted(server.bodies("completions"), key=lambda body: body["seed"])
    assert [(body["prompt"], body["n"]) for body in bodies] == [
        (PROMPTS[0], 2),
        (PROMPTS[0], 1),
        (PROMPTS[1], 1),
    ]
    seeds = [body["seed"] - first_seed(0) for body in bodies]
    assert seeds == [0, server_backend.SEED_SPACING, 2 * server_backend.SEED_SPACING]
    for body in bodies:
        assert body["model"] == body["cache_salt"] == version.name
        assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (1.3, 0.9, 0, 0.0)
        assert (body["max_tokens"], body["min_tokens"]) == (9, 3)
        assert body["stop_token_ids"] == list(policy.stop_token_ids)
        assert body["return_token_ids"] is True
    # tempered, and raw log-probabilities: nobody knows what it was drawn with
    assert drawn.proposal_log_prob is None
    lengths = drawn.program_mask.sum(1) - drawn.stopped.int()
    assert lengths.min() >= 3


def test_processed_log_probabilities_tell_the_proposal(policy, server, backend):
    server.processed, backend.mode = True, "processed"
    publish(backend, stop_often(policy))
    settings = SamplingSettings(max_new_tokens=9, temperature=1.7)
    drawn = policy.sample(PROMPTS[:1], 3, settings, seed=0, backend=backend)
    policy.eval()
    expected = [sum(each) for each in plain_log_probs(policy, PROMPTS[0], rows_of(drawn), 1.7)]
    assert drawn.proposal_log_prob.tolist() == pytest.approx(expected, abs=1e-3)


def test_a_temperature_a_program_is_a_request_a_program(policy, server, backend):
    publish(backend, stop_often(policy))
    settings = SamplingSettings(max_new_tokens=6, temperature=0.5, temperature_high=1.5)
    policy.sample(PROMPTS, 2, settings, seed=0, backend=backend)
    bodies = server.bodies("completions")
    assert [body["n"] for body in bodies] == [1] * 4
    temperatures = {body["temperature"] for body in bodies}
    assert len(temperatures) == 4
    assert all(0.5 <= value <= 1.5 for value in temperatures)


def test_uniform_tokens_are_refused(policy, server, backend):
    publish(backend, policy)
    with pytest.raises(ValueError, match=r"epsilon must be 0 where a server samples, got 0.1"):
        policy.sample(PROMPTS, 1, SamplingSettings(9, epsilon=0.1), seed=0, backend=backend)


@pytest.mark.parametrize("api", ["sglang"])
def test_sglang_is_asked_for_programs_one_by_one(policy, server, backend):
    server.processed, backend.mode = True, "tempered"
    version = publish(backend, stop_often(policy))
    settings = SamplingSettings(max_new_tokens=9, temperature=1.7)
    drawn = policy.sample(PROMPTS[:1], 3, settings, seed=0, backend=backend)
    (body,) = server.bodies("/generate")
    assert body["input_ids"] == [PROMPTS[0]] * 3
    assert body["lora_path"] == [version.name] * 3
    seeds = [each["sampling_seed"] - first_seed(0) for each in body["sampling_params"]]
    assert seeds == [0, 1, 2]
    for each in body["sampling_params"]:
        assert (each["n"], each["temperature"], each["top_k"], each["no_stop_trim"]) == (1, 1.7, -1, True)
        assert each["stop_token_ids"] == list(policy.stop_token_ids)
    # of the tempered model: what was drawn from, but where top_p cuts it off
    policy.eval()
    expected = [sum(each) for each in plain_log_probs(policy, PROMPTS[0], rows_of(drawn), 1.7)]
    assert drawn.proposal_log_prob.tolist() == pytest.approx(expected, abs=1e-3)
    cut = SamplingSettings(max_new_tokens=9, temperature=1.7, top_p=0.9)
    assert policy.sample(PROMPTS[:1], 1, cut, seed=0, backend=backend).proposal_log_prob is None


@pytest.mark.parametrize("api", ["vllm", pytest.param("sglang", marks=pytest.mark.slow)])
def test_suffixes_and_turns_come_from_the_server(policy, server, backend, monkeypatch):
    monkeypatch.setattr(policy.tokenizer, "chat_template", TEMPLATE)
    publish(backend, stop_often(policy), step=8)
    drawn = resample_suffixes(policy, PROMPTS, [0, 1], [(40, 41), (42,)], SETTINGS, seed=0, backend=backend)
    assert rows_of(drawn)[0][:2] == [40, 41]
    assert drawn.weights_step.tolist() == [8, 8]
    assert sorted(asked(server)) == sorted([[*PROMPTS[0], 40, 41], [*PROMPTS[1], 42]])
    server.log.clear()
    talks = sample_episodes(policy, [Twice()], PROMPTS[:1], 4, SETTINGS, seed=0, backend=backend)
    said = asked(server)
    assert said[0] == PROMPTS[0]
    assert len(said) > 1
    # the second turn's prompt is what was written, token by token, and the answer behind it
    begun = [[*PROMPTS[0], *row.tolist()] for row in talks.program_ids]
    assert all(any(whole[: len(prompt)] == prompt for whole in begun) for prompt in said)
    assert talks.weights_step.tolist() == [8] * 4
    policy.eval()
    for row in range(4):
        ids = talks.program_ids[row][talks.program_mask[row]].tolist()
        each = torch.tensor(plain_log_probs(policy, PROMPTS[0], [ids])[0])
        own = talks.own_mask[row][: len(ids)]
        assert talks.log_prob[row].item() == pytest.approx(each[own].sum().item(), abs=1e-3)
    assert torch.allclose(talks.proposal_log_prob, talks.log_prob, atol=1e-3)
