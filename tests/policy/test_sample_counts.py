"""Different numbers of programs for different prompts."""

import pytest
import torch

from synthstats_lightning.policy import SamplingSettings

SETTINGS = SamplingSettings(max_new_tokens=6)


def test_each_prompt_gets_its_own_number_of_programs(policy):
    prompts = [policy.encode_prompt("rules", name) for name in ("age", "length", "rows")]
    drawn = policy.sample(prompts, [2, 0, 3], SETTINGS, seed=1)
    assert drawn.prompt_index.tolist() == [0, 0, 2, 2, 2]
    assert len(drawn.sources) == len(drawn.log_prob) == 5
    same = policy.sample([prompts[0], prompts[2]], [2, 3], SETTINGS, seed=1)
    assert drawn.sources == same.sources
    assert torch.equal(drawn.reference_log_prob, same.reference_log_prob)


def test_equal_numbers_are_the_same_as_one_number(policy):
    prompts = [policy.encode_prompt("rules", name) for name in ("age", "length")]
    one, each = (policy.sample(prompts, count, SETTINGS, seed=1) for count in (3, [3, 3]))
    assert one.sources == each.sources
    assert torch.equal(one.prompt_index, each.prompt_index)


@pytest.mark.parametrize("counts", [0, [0, 0], [1], [1, -1]])
def test_wrong_numbers_are_named(policy, counts):
    prompts = [policy.encode_prompt("rules", name) for name in ("age", "length")]
    with pytest.raises(ValueError, match="num_samples must be at least 1, or a number for each of 2 prompts"):
        policy.sample(prompts, counts, SETTINGS, seed=1)
