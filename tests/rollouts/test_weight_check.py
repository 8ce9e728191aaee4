"""A server is believed only while its log-probabilities are those of the weights that it should have."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.rollouts.errors import WeightsError
from synthstats_lightning.rollouts.weight_check import (
    PROMPT_TOKENS,
    WARM,
    check_gap,
    checked_programs,
    gap,
    long_prompt,
)
from tests.policy.test_sampling import PROMPTS
from tests.rollouts.conftest import change, publish
from tests.support.completion_server import BASE

LIMIT = 0.05


def found(policy, backend, model, reference=False, temperature=1.0):
    prompt = long_prompt(policy, PROMPTS)
    connection = backend.connections[0]
    programs = checked_programs(policy, connection, model, prompt, temperature, reference)()
    assert all(len(each.ids) == 16 for each in programs)
    return gap(policy, prompt, programs, reference)


def test_the_prompt_is_longer_than_a_block_of_a_cache(policy):
    prompt = long_prompt(policy, PROMPTS)
    assert len(prompt) == PROMPT_TOKENS > 128
    assert list(prompt[:14]) == PROMPTS[0] * 2
    assert len(long_prompt(policy, [[5] * 300])) == 300
    assert len(long_prompt(policy, [[5] * 600])) == 512 - 16


@pytest.mark.parametrize("api", ["vllm", pytest.param("sglang", marks=pytest.mark.slow)])
def test_equal_weights_agree(policy, server, backend):
    change(policy, 1)
    version = publish(backend, policy)
    assert found(policy, backend, BASE, reference=True) < 1e-5
    assert found(policy, backend, version.name) < 1e-5
    # raw log-probabilities do not know of a temperature, processed ones do
    assert found(policy, backend, BASE, reference=True, temperature=WARM) < 1e-5
    server.processed = True
    assert found(policy, backend, BASE, reference=True, temperature=WARM) > LIMIT
    assert found(policy, backend, BASE, reference=True) < 1e-5


@pytest.mark.parametrize("fault", ["the base", "an older version", "another base"])
def test_other_weights_are_found(policy, server, backend, fault):
    version = publish(backend, policy)
    if fault == "the base":
        model, reference = BASE, False
    elif fault == "an older version":  # the same name, and what is behind it has changed
        change(policy, 2)
        model, reference = version.name, False
    else:
        with torch.no_grad():
            policy.backbone.norm.weight.mul_(1.5)
        model, reference = BASE, True
    different = found(policy, backend, model, reference)
    assert different > LIMIT
    with pytest.raises(WeightsError, match=r"here: .* differ from the trainer's by .* max_gap is 0.05"):
        check_gap(different, LIMIT, "here")


def test_what_is_no_number_is_another_weight():
    check_gap(0.01, LIMIT, "here")
    with pytest.raises(WeightsError, match="by nan nats a token"):
        check_gap(float("nan"), LIMIT, "here")
