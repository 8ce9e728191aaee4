"""What a real vLLM answers, against plain passes of transformers over the tokens that come back."""

from __future__ import annotations

import time
import urllib.request
from contextlib import nullcontext

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, Policy, SamplingSettings, copy_adapter, load_policy
from synthstats_lightning.policy.loading import resolve
from synthstats_lightning.rollouts import AdapterVersions, Connection, ServerBackend
from synthstats_lightning.rollouts.completions import PATH, Completion, CompletionRequest, read_completions
from synthstats_lightning.rollouts.errors import RefusedError, WeightsError
from synthstats_lightning.rollouts.weight_check import check_gap, checked_programs, gap, long_prompt
from synthstats_lightning.tasks import BUNDLED_TASKS, task_prompt
from synthstats_lightning.testing.server_process import serving_by
from synthstats_lightning.testing.stale_cache import stale_gaps
from tests.rollouts.conftest import change, publish
from tests.servers.conftest import SCRIPT
from tests.support.completion_server import plain_log_probs

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

BASE = "base"
LENGTH = 110
LIMIT = 1e-4
"""Nats a program."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving_by(SCRIPT, resolve("tiny"), tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture
def policy() -> Policy:
    made = load_policy("tiny", LoraSettings(rank=16, alpha=32.0), seed=0)
    change(made, 1, 0.02)
    return made


@pytest.fixture
def backend(server, tmp_path):
    connected = Connection(server.url, timeout_s=300.0, patience_s=300.0)
    made = ServerBackend([connected], AdapterVersions([connected], tmp_path / "adapters", keep=0))
    yield made
    made.versions.close()
    made.close()


@pytest.fixture
def prompt(policy) -> tuple[int, ...]:
    """Longer than a block of the server's cache."""
    return long_prompt(policy, [policy.encode_prompt(*task_prompt(BUNDLED_TASKS["dugongs"]()))])


def asked(policy, backend, model, prompt, number=32, **changes) -> list[Completion]:
    """What the server writes."""
    given = {"max_tokens": LENGTH, "seed": 3, "vocabulary": int(policy.text_config.vocab_size)} | changes
    request = CompletionRequest(tuple(prompt), number, **given)
    found = read_completions(backend.connections[0].ask_patiently(PATH, request.body(model)), request)
    assert found is not None
    return found


def gaps(policy, prompt, programs, reference=False) -> torch.Tensor:
    """Nats between the server and a plain pass, of each program."""
    with policy.evaluating(), policy.reference() if reference else nullcontext():
        own = plain_log_probs(policy, list(prompt), [list(each.ids) for each in programs])
    pairs = zip(own, programs, strict=True)
    return torch.tensor([abs(sum(mine) - sum(each.log_probs)) for mine, each in pairs])


def test_base_and_two_adapters_agree_to_a_ten_thousandth_of_a_nat_a_program(policy, backend, prompt):
    base = asked(policy, backend, BASE, prompt)
    assert all(len(each.ids) == LENGTH for each in base)
    assert gaps(policy, prompt, base, reference=True).max() < LIMIT
    assert gaps(policy, prompt, base).max() > 1.0
    for step in (1, 2):
        change(policy, step, 0.02)
        version = publish(backend, policy, step)
        written = asked(policy, backend, version.name, prompt)
        assert gaps(policy, prompt, written).max() < LIMIT
        assert gaps(policy, prompt, written, reference=True).max() > 1.0
        assert [each.ids for each in written] != [each.ids for each in base]


def test_a_stale_cache_is_caught(policy, backend, prompt):
    """The same name and the same path with another file: the server keeps blocks that the first has made."""
    versions, connection = backend.versions, backend.connections[0]
    first, second, version = stale_gaps(policy, versions, connection, prompt, lambda: change(policy, 5, 0.05))
    assert first < 1e-4
    with pytest.raises(WeightsError, match="differ from the trainer's by"):
        check_gap(second, 0.05, "the second")
    # a prompt of less than a block does not show it, and neither does a version of a new name
    short = prompt[:40]
    hidden = checked_programs(policy, connection, version.name, short)
    check_gap(gap(policy, short, hidden()), 1e-3, "a short prompt")
    other = publish(backend, policy, 1)
    check_gap(gap(policy, prompt, checked_programs(policy, connection, other.name, prompt)()), 1e-3, "new")


def test_programs_under_way_end_on_the_version_that_began_them(policy, backend, server):
    first = publish(backend, policy, 1)
    before = copy_adapter(policy)
    prompts = [policy.encode_prompt(*task_prompt(BUNDLED_TASKS["dugongs"]()))]
    settings = SamplingSettings(max_new_tokens=300, min_new_tokens=299)
    rows = torch.zeros(24, dtype=torch.long)
    served = backend.begin(policy, prompts, rows, settings, torch.Generator().manual_seed(0))
    deadline = time.monotonic() + 120
    while running_requests(server.url) < 24:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    change(policy, 6, 0.05)
    publish(backend, policy, 2)  # nothing is kept: the first one goes
    with pytest.raises(RefusedError, match=f"status 404.*{first.name}"):
        asked(policy, backend, first.name, prompts[0], 1)
    assert not any(answer.done() for answer in served.answers)
    (answer,) = backend.wait(served.answers)
    assert answer.step == 1
    assert gaps(policy, prompts[0], answer.programs).max() > 1.0
    policy.load_adapter_state_dict(before)
    assert gaps(policy, prompts[0], answer.programs).max() < 3 * LIMIT  # of three times the length


def running_requests(url: str) -> float:
    """How many programs the server writes at present."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running")
    )


def test_programs_of_one_request_are_those_of_single_ones_with_following_seeds(policy, backend, prompt):
    version = publish(backend, policy)
    together = asked(policy, backend, version.name, prompt, 8, max_tokens=40, seed=100)
    alone = [
        asked(policy, backend, version.name, prompt, 1, max_tokens=40, seed=100 + row)[0] for row in range(8)
    ]
    assert [each.ids for each in together] == [each.ids for each in alone]
    assert len({each.ids for each in together}) == 8


def test_the_stop_token_is_part_of_a_program(policy, backend):
    given = policy.encode_prompt(*task_prompt(BUNDLED_TASKS["dugongs"]()))
    stops = tuple(policy.stop_token_ids)
    found = asked(policy, backend, BASE, given, 64, max_tokens=45, stop_ids=stops)
    ended = [each for each in found if each.stopped]
    assert 5 < len(ended) < 64
    assert all(each.ids[-1] in stops and not set(each.ids[:-1]) & set(stops) for each in ended)
    assert all(len(each.ids) == 45 for each in found if not each.stopped)
    assert gaps(policy, given, found, reference=True).max() < LIMIT


@pytest.mark.parametrize(("least", "most"), [(0, 12), (60, 64)])
def test_least_and_most_tokens(policy, backend, least, most):
    given = policy.encode_prompt(*task_prompt(BUNDLED_TASKS["dugongs"]()))
    # half of the vocabulary stops a program, so that limits are met all the time
    stops = tuple(range(3, 1024, 2))
    limits = {"min_tokens": least, "max_tokens": most, "stop_ids": stops}
    found = asked(policy, backend, BASE, given, 32, **limits)
    lengths = [len(each.ids) for each in found]
    assert least < min(lengths) <= least + 3
    assert max(lengths) <= most
    # of the model, which knows of no least length: where it may not stop, tokens are of hundreds of nats
    assert gaps(policy, given, found, reference=True).max() < 5 * LIMIT


def test_log_probabilities_are_raw_at_any_temperature(policy, backend, prompt):
    version = publish(backend, policy)
    warm = asked(policy, backend, version.name, prompt, temperature=1.7)
    assert gaps(policy, prompt, warm).max() < LIMIT
    plain = asked(policy, backend, version.name, prompt)
    assert sum(sum(each.log_probs) for each in warm) < sum(sum(each.log_probs) for each in plain) - 100.0


def test_a_run_s_own_programs(policy, backend):
    """Through `Policy.sample`, as a run does: what the server says of a program is what the trainer says."""
    publish(backend, policy)
    given = [policy.encode_prompt(*task_prompt(BUNDLED_TASKS[name]())) for name in sorted(BUNDLED_TASKS)[:3]]
    backend.same_weights = True
    drawn = policy.sample(given, 16, SamplingSettings(max_new_tokens=100), seed=0, backend=backend)
    assert (drawn.log_prob - drawn.proposal_log_prob).abs().max() < LIMIT
    assert backend.take_counts().metrics()["rollout/server_gap"] < 1e-5
