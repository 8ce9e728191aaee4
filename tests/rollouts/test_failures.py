"""Servers that are away, slow, broken or gone: nothing is lost, and nothing wrong is learned from."""

from __future__ import annotations

import threading

import pytest
import torch

from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.rollouts import Connection, RolloutError, connection, server_backend
from synthstats_lightning.rollouts.errors import AnswerError, RefusedError
from tests.policy.test_sampling import PROMPTS, stop_often
from tests.rollouts.conftest import publish

SETTINGS = SamplingSettings(max_new_tokens=6)


def sample(policy, backend):
    return policy.sample(PROMPTS, 2, SETTINGS, seed=0, backend=backend)


def failing(server, answer, times):
    left = [times]

    def before(path, body):
        if path == "/v1/completions" and left[0]:
            left[0] -= 1
            return answer
        return None

    server.before = before


@pytest.mark.parametrize("answer", [(500, "broken"), (503, "busy"), (429, "too many"), (0, "")])
def test_what_may_pass_is_asked_again_and_changes_nothing(policy, server, backend, answer):
    publish(backend, stop_often(policy))
    before = sample(policy, backend)
    backend.take_counts()
    failing(server, answer, 3)
    after = sample(policy, backend)
    assert torch.equal(before.program_ids, after.program_ids)
    assert backend.take_counts().failed == 3


def test_a_run_waits_for_a_server_that_is_gone_and_says_so(policy, server, backend, monkeypatch):
    monkeypatch.setattr(server_backend, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(server_backend, "TELL_SECONDS", 0.0)
    publish(backend, stop_often(policy))
    expected = sample(policy, backend)
    server.stop()
    told = threading.Event()

    def back():  # not before the run has said that it waits
        if backend._told and not told.is_set():
            told.set()
            server.start()

    backend.between = back
    with pytest.warns(UserWarning, match=r"the inference server is away: .* 60 s at most"):
        found = sample(policy, backend)
    assert told.is_set()
    assert torch.equal(found.program_ids, expected.program_ids)


def test_a_server_that_stays_away_ends_the_run(policy, server, backend):
    publish(backend, policy)
    backend.connections[0].patience_s = 0.05
    failing(server, (503, {"error": {"message": "no room"}}), 10**6)
    with pytest.raises(RolloutError, match=r"status 503: no room \(for 0 s; patience_s=0.05\)"):
        sample(policy, backend)


def test_a_slow_server_is_asked_again(policy, server, backend):
    publish(backend, stop_often(policy))
    expected = sample(policy, backend)
    released, asked = threading.Event(), []

    def slow_once(path, body):
        asked.append(body["seed"])
        if len(asked) == 1:
            released.wait(60)  # until the same request has come again
            return 503, "late"
        if asked.count(asked[0]) > 1:
            released.set()
        return None

    own, timeout = backend.connections[0]._client, backend.connections[0]._client.timeout
    server.before, own.timeout = slow_once, 1.0
    try:
        found = sample(policy, backend)
    finally:
        own.timeout = timeout
        released.set()
    assert asked.count(asked[0]) > 1
    assert torch.equal(found.program_ids, expected.program_ids)


def test_a_refusal_is_told_in_the_server_s_words(policy, server, backend):
    publish(backend, policy)
    failing(server, (400, {"error": {"message": "maximum context length is 8"}}), 1)
    with pytest.raises(RefusedError, match="status 400: maximum context length is 8"):
        sample(policy, backend)


def test_a_wrong_answer_ends_the_run(policy, server, backend):
    publish(backend, stop_often(policy))

    def other_prompt(document):
        document["choices"][0]["prompt_token_ids"] = [1]
        return document

    server.change = other_prompt
    with pytest.raises(AnswerError, match="prompt_token_ids must be the 7 tokens that were sent"):
        policy.sample(PROMPTS[:1], 2, SETTINGS, seed=0, backend=backend)


def test_what_a_server_broke_off_is_written_again(policy, server, backend):
    publish(backend, stop_often(policy))
    expected, left = sample(policy, backend), [1]

    def aborted(document):
        if left[0]:
            left[0] -= 1
            document["choices"][0]["finish_reason"] = "abort"
        return document

    server.change = aborted
    assert torch.equal(sample(policy, backend).program_ids, expected.program_ids)


def test_an_adapter_that_cannot_be_loaded_again_ends_the_run(policy, server, backend):
    publish(backend, policy)
    failing(server, (404, {"error": {"message": "no such model"}}), 10**6)
    with pytest.raises(RolloutError, match=r"no programs, 3 times in a row: .* no such model"):
        sample(policy, backend)


def test_without_a_version_nothing_is_asked(policy, backend):
    with pytest.raises(RolloutError, match="no adapter is published yet"):
        sample(policy, backend)


def test_waiting_ends_with_the_run(policy, server, backend):
    publish(backend, policy)
    failing(server, (503, "busy"), 10**6)

    def ends():
        raise KeyboardInterrupt

    backend.between = ends
    with pytest.raises(KeyboardInterrupt):
        sample(policy, backend)
    backend.close()
    assert backend.threads._threads == []


def test_the_key_is_sent_and_kept_out_of_the_configuration(server, monkeypatch):
    with pytest.raises(ValueError, match=r"api_key_env must name a variable .*, got 'NO_SUCH_KEY'"):
        Connection(server.url, api_key_env="NO_SUCH_KEY")
    monkeypatch.setenv("ROLLOUT_KEY", "secret")
    made = Connection(f"{server.url}/v1/", api_key_env="ROLLOUT_KEY")
    assert made.ask("/v1/models")["data"][0]["id"] == "base"
    made.close()
    assert server.headers[-1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", ""])
def test_what_is_no_address(url):
    with pytest.raises(ValueError, match="url must be that of a server, such as"):
        connection.check_url(url)
