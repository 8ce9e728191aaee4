"""The next round is written while the trainer learns, by the weights that there were."""

from __future__ import annotations

import threading

import torch

from synthstats_lightning.policy import SamplingSettings, resample_suffixes, sample_episodes
from synthstats_lightning.rollouts import server_backend
from tests.policy.test_sampling import PROMPTS, stop_often
from tests.policy.test_sampling_backend import Twice
from tests.policy.test_turns import TEMPLATE
from tests.rollouts.conftest import change, publish

SETTINGS = SamplingSettings(max_new_tokens=6)


def sample(policy, backend, step, number=2, settings=SETTINGS):
    return policy.sample(PROMPTS, number, settings, seed=0, step=step, backend=backend)


def asked(server):
    return len(server.bodies("completions"))


def all_done(backend):
    """Waits for what is under way."""
    for served in backend._ahead.values():
        backend.wait(served.answers)


def test_a_round_that_comes_again_is_asked_for_ahead(policy, server, backend):
    publish(backend, stop_often(policy), step=0)
    backend.overlap = True
    sample(policy, backend, 0, number=5)  # the warm-up, larger
    sample(policy, backend, 1)
    all_done(backend)
    assert asked(server) == 4
    sample(policy, backend, 2)
    all_done(backend)
    assert asked(server) == 8  # that round, and the next
    change(policy, 7)
    publish(backend, policy, step=8)
    backend.current_step = 8
    backend.take_counts()
    third = sample(policy, backend, 3)
    # written before the new version was there; the loss sees the new one
    assert third.weights_step.tolist() == [0] * 4
    assert backend.take_counts().metrics()["rollout/version_age"] == 8.0
    policy.eval()
    again = policy.program_log_probs(
        torch.tensor([[0] * (7 - len(PROMPTS[i])) + PROMPTS[i] for i in third.prompt_index.tolist()]),
        third.program_ids,
        third.program_mask,
    )
    assert torch.allclose(third.log_prob, again.detach(), atol=1e-4)
    assert (third.log_prob - third.proposal_log_prob).abs().max() > 0.01
    fourth = sample(policy, backend, 4)
    assert fourth.weights_step.tolist() == [8] * 4
    seeds = [body["seed"] for body in server.bodies("completions")]
    assert len(set(seeds)) == len(seeds)


def test_the_trainer_goes_on_meanwhile(policy, server, backend):
    publish(backend, stop_often(policy))
    backend.overlap = True
    sample(policy, backend, 0)
    gate = threading.Event()
    held = 2 * len(PROMPTS)
    server.before = lambda path, body: None if asked(server) <= held else gate.wait(120) and None
    sample(policy, backend, 1)  # its own requests pass, those of the next round are held
    (served,) = backend._ahead.values()
    assert not any(answer.done() for answer in served.answers)
    gate.set()
    assert sample(policy, backend, 2).program_ids.shape[0] == 4


def test_other_limits_are_another_round(policy, server, backend):
    publish(backend, stop_often(policy))
    backend.overlap = True
    for step in range(2):
        sample(policy, backend, step)
    longer = sample(policy, backend, 2, settings=SamplingSettings(max_new_tokens=9))
    assert longer.program_ids.shape[1] <= 9
    assert {body["max_tokens"] for body in server.bodies("completions")[-2:]} >= {9}


def test_suffixes_and_episodes_are_never_asked_for_ahead(policy, server, backend, monkeypatch):
    monkeypatch.setattr(policy.tokenizer, "chat_template", TEMPLATE)
    publish(backend, stop_often(policy))
    backend.overlap = True
    for step in range(3):
        prefixes = [(40 + step,)]
        resample_suffixes(policy, PROMPTS, [0], prefixes, SETTINGS, seed=0, step=step, backend=backend)
        sample_episodes(policy, [Twice()], PROMPTS[:1], 1, SETTINGS, seed=0, step=step, backend=backend)
    assert not backend._ahead


def test_suffixes_between_rounds_do_not_end_the_overlap(policy, server, backend, monkeypatch):
    monkeypatch.setattr(server_backend, "RECENT_ROUNDS", 2)
    backend = server_backend.ServerBackend(backend.connections, backend.versions)
    publish(backend, stop_often(policy))
    backend.overlap = True
    for step in range(4):
        sample(policy, backend, step, number=1)
        if step:
            assert len(backend._ahead) == 1
        prefixes = [(40 + step,)]
        resample_suffixes(policy, PROMPTS, [0], prefixes, SETTINGS, seed=0, step=step, backend=backend)


def test_what_is_under_way_at_the_end_is_left(policy, server, backend):
    publish(backend, stop_often(policy))
    backend.overlap = True
    sample(policy, backend, 0)
    gate, held = threading.Event(), 2 * len(PROMPTS)
    server.before = lambda path, body: None if asked(server) <= held else gate.wait(120) and None
    sample(policy, backend, 1)
    threads = list(backend.threads._threads)
    (served,) = backend._ahead.values()
    backend.threads.close(0.0)
    backend.close()
    gate.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert all(answer.done() for answer in served.answers)
