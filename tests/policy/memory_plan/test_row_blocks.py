"""Decoding in blocks: the same programs, no more memory than the budget, and one retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.memory_plan import row_blocks
from synthstats_lightning.policy.memory_plan.plan import GIB
from tests.policy.conftest import awaken, save_random_model
from tests.support.live_bytes import LiveBytes

PROMPTS = [[1, 20, 21, 22, 2], [1, 30, 2]]
SETTINGS = SamplingSettings(max_new_tokens=16, temperature=1.1)
LORA = LoraSettings(rank=2)


def loaded(folder: Any, budget: float | None = None) -> Policy:
    settings = ModelSettings(memory_gib=None if budget is None else budget / GIB)
    return awaken(load_policy(str(folder), LORA, settings, seed=0))


def row_bytes(folder: Any, rows: int) -> int:
    policy = loaded(folder)
    policy.sample(PROMPTS, rows // 2, SETTINGS, seed=0)
    plan = policy.memory.plan
    assert plan is not None
    assert plan.num_blocks == 1
    return plan.row


def test_programs_are_the_same_in_blocks(model_folder: Any) -> None:
    whole = loaded(model_folder).sample(PROMPTS, 12, SETTINGS, seed=0)
    policy = loaded(model_folder, 5.5 * row_bytes(model_folder, 24))
    blocks = policy.sample(PROMPTS, 12, SETTINGS, seed=0)
    plan = policy.memory.plan
    assert plan is not None
    assert plan.num_blocks > 3
    assert f"24 programs in {plan.num_blocks} blocks of {plan.rows}" in str(plan)
    assert blocks.sources == whole.sources
    assert torch.equal(blocks.program_ids, whole.program_ids)
    assert torch.equal(blocks.prompt_index, whole.prompt_index)
    assert torch.allclose(blocks.log_prob, whole.log_prob, atol=1e-4)
    assert torch.allclose(blocks.reference_log_prob, whole.reference_log_prob, atol=1e-4)


def test_a_token_of_cache_is_weighed(model_folder: Any) -> None:
    policy = loaded(model_folder)
    policy.sample(PROMPTS, 1, SETTINGS, seed=0)
    plan = policy.memory.plan
    assert plan is not None
    # two layers, keys and values, two heads of eight numbers in float32
    assert plan.cache == (2 * 2 * 2 * 8 * 4, 0)
    assert 0 < plan.budget < plan.free


def failing(limit: int, failures: int) -> Callable[..., Any]:
    """Decoding that runs out of memory for more rows than a limit, so many times."""
    real, left = row_blocks.decode_programs, [failures]

    def decode(backbone: Any, config: Any, head: Any, prompts: Any, row_prompt: Any, *others: Any) -> Any:
        if left[0] and len(row_prompt) > limit:
            left[0] -= 1
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(backbone, config, head, prompts, row_prompt, *others)

    return decode


def test_out_of_memory_halves_the_block_once(model_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = loaded(model_folder)
    whole = policy.sample(PROMPTS, 6, SETTINGS, seed=0)
    monkeypatch.setattr(row_blocks, "decode_programs", failing(6, 1))
    with pytest.warns(UserWarning, match="going on with 6. `model.init_args.model.memory_gib` sets"):
        halved = policy.sample(PROMPTS, 6, SETTINGS, seed=0)
    assert halved.sources == whole.sources
    assert policy.memory.share == 0.5
    monkeypatch.setattr(row_blocks, "decode_programs", failing(1, 2))
    with pytest.warns(UserWarning, match="out of memory"), pytest.raises(torch.cuda.OutOfMemoryError):
        policy.sample(PROMPTS, 6, SETTINGS, seed=0)


def test_other_errors_are_errors(model_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise RuntimeError("shapes do not fit")

    policy = loaded(model_folder)
    monkeypatch.setattr(row_blocks, "decode_programs", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        policy.sample(PROMPTS, 2, SETTINGS, seed=0)


def test_budgets_are_positive() -> None:
    with pytest.raises(ValueError, match="memory_gib must be positive, got 0"):
        ModelSettings(memory_gib=0.0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_peak_is_within_a_budget_forty_times_smaller_than_the_cache(tmp_path: Any) -> None:
    folder = save_random_model(tmp_path, hidden=64, layers=4, head_dim=128, num_key_value_heads=4)
    settings = SamplingSettings(max_new_tokens=16)
    probe = loaded(folder)
    probe.sample(PROMPTS, 1, settings, seed=0)
    assert probe.memory.plan is not None
    cache = probe.memory.plan.cache.per_token * 64 * 512
    policy = loaded(folder, cache / 40)
    policy.tokens_per_pass()  # weighs the cache outside
    with LiveBytes() as memory:
        drawn = policy.sample(PROMPTS, 256, settings, seed=0)
    plan = policy.memory.plan
    assert plan is not None
    assert plan.num_blocks >= 40
    assert len(drawn.sources) == 512
    results = sum(each.untyped_storage().nbytes() for each in drawn if isinstance(each, torch.Tensor))
    assert plan.cache.per_token * 16 * plan.rows < memory.peak <= cache / 40 + results
