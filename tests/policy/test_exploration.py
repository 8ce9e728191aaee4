"""Exploration: what is drawn, and that no log-probability notices."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import Policy, SamplingSettings, annealed, on_policy, resample_suffixes
from synthstats_lightning.policy.sampling import behaviour_probabilities, row_temperatures
from tests.policy.test_sampling import PROMPTS, stop_often


def test_every_program_has_a_temperature_of_its_own() -> None:
    settings = SamplingSettings(temperature=0.5, temperature_high=2.0)
    found = row_temperatures(settings, 2000, torch.Generator().manual_seed(0))
    assert found is not None
    assert 0.5 <= float(found.min()) < 0.51
    assert 1.99 < float(found.max()) <= 2.0
    assert float(found.mean()) == pytest.approx(1.25, abs=0.03)
    logits = torch.randn(2, 30, generator=torch.Generator().manual_seed(1))
    both = behaviour_probabilities(logits, settings, torch.tensor([0.5, 1.7]))
    for row, temperature in enumerate((0.5, 1.7)):
        alone = behaviour_probabilities(logits, SamplingSettings(temperature=temperature))[row]
        torch.testing.assert_close(both[row], alone)


def test_without_a_range_no_random_number_is_used() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert row_temperatures(SamplingSettings(), 5, generator) is None
    assert torch.equal(generator.get_state(), before)


def test_log_probs_of_hot_samples_are_the_policys_own(policy: Policy) -> None:
    stop_often(policy)
    settings = SamplingSettings(max_new_tokens=12, temperature=0.7, temperature_high=3.0, epsilon=0.05)
    drawn = policy.sample(PROMPTS, 6, settings, seed=1)
    prompts = torch.zeros(12, 7, dtype=torch.long)
    mask = torch.zeros(12, 7, dtype=torch.bool)
    for row, index in enumerate(drawn.prompt_index.tolist()):
        prompt = PROMPTS[index]
        prompts[row, 7 - len(prompt) :], mask[row, 7 - len(prompt) :] = torch.tensor(prompt), True
    with torch.no_grad(), policy.evaluating():
        forced = policy.program_log_probs(prompts, drawn.program_ids, drawn.program_mask, mask)
    torch.testing.assert_close(drawn.log_prob, forced, atol=1e-4, rtol=1e-4)


def test_annealing_ends_without_exploration() -> None:
    start = SamplingSettings(40, temperature=1.5, temperature_high=2.5, epsilon=0.1, top_p=0.6)
    half = annealed(start, 1.0, 0.5)
    assert (half.temperature, half.temperature_high) == (1.25, 1.75)
    assert (half.epsilon, half.top_p) == (0.05, 0.8)
    assert annealed(start, 1.0, 7.0) == SamplingSettings(40, temperature_high=1.0)
    assert annealed(start, 1.0, 0.0) == start
    assert on_policy(start) == SamplingSettings(40)


def test_a_range_must_rise() -> None:
    with pytest.raises(
        ValueError, match=r"temperature_high must be finite and at least temperature=1.0, got 0.5"
    ):
        SamplingSettings(temperature_high=0.5)


def test_rewritten_ends_keep_their_beginnings_and_their_log_probs_are_the_policys_own(policy: Policy) -> None:
    stop_often(policy)
    settings = SamplingSettings(max_new_tokens=12)
    prefixes = [(10, 11, 12), (50,), (10, 11, 12), (7, 8, 9, 10, 11, 12, 13, 14, 15)]
    index = [0, 1, 1, 0]
    made = resample_suffixes(policy, PROMPTS, index, prefixes, settings, seed=3)
    again = resample_suffixes(policy, PROMPTS, index, prefixes, settings, seed=3)
    other = resample_suffixes(policy, PROMPTS, index, prefixes, settings, seed=4)
    assert torch.equal(made.program_ids, again.program_ids)
    assert made.program_ids.shape != other.program_ids.shape or not made.program_ids.equal(other.program_ids)
    assert made.prompt_index.tolist() == index
    for row, prefix in enumerate(prefixes):
        ids = made.program_ids[row][made.program_mask[row]].tolist()
        assert tuple(ids[: len(prefix)]) == prefix
        assert len(prefix) < len(ids) <= 12
        assert bool(made.stopped[row]) == (ids[-1] in policy.stop_token_ids)
        assert not set(ids[:-1]) & set(policy.stop_token_ids)
        prompt, tokens = torch.tensor([PROMPTS[index[row]]]), torch.tensor([ids])
        with torch.no_grad(), policy.evaluating():
            mask = torch.ones_like(tokens, dtype=torch.bool)
            own = policy.program_log_probs(prompt, tokens, mask)
            with policy.reference():
                reference = policy.program_log_probs(prompt, tokens, mask)
        torch.testing.assert_close(made.log_prob[row : row + 1], own, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(made.reference_log_prob[row : row + 1], reference, atol=1e-4, rtol=1e-4)


def test_ends_are_drawn_as_the_policy_would(policy: Policy) -> None:
    """The first new token against the policy's own probabilities."""
    settings = SamplingSettings(max_new_tokens=3)
    prefix = (10, 11)
    made = resample_suffixes(policy, PROMPTS, [0] * 3000, [prefix] * 3000, settings, seed=0)
    with torch.no_grad(), policy.evaluating():
        whole = torch.tensor([[*PROMPTS[0], *prefix]])
        logits = policy.language_model(input_ids=whole).logits[0, -1]
    expected = logits.float().softmax(0)
    counts = torch.bincount(made.program_ids[:, 2], minlength=len(expected)) / 3000
    assert float((counts - expected).abs().sum() / 2) < 2 * float((expected / 3000).sqrt().sum() / 2)


def test_beginnings_of_very_different_lengths_fit_the_positions_that_the_model_knows(policy: Policy) -> None:
    config = policy.language_model.config
    known = config.max_position_embeddings
    limit = known - len(PROMPTS[0])
    settings = SamplingSettings(max_new_tokens=limit)
    policy.stop_token_ids = tuple(range(config.vocab_size // 2))
    prefixes = [(config.vocab_size - 1,), (config.vocab_size - 1,) * (limit - 1)]
    made = resample_suffixes(policy, PROMPTS, [0, 0], prefixes, settings, seed=0)
    assert int(made.program_mask.sum(1).max()) == limit


@pytest.mark.parametrize("prefix", [(), (7,), tuple(range(20))])
def test_beginnings_of_wrong_length_are_refused(policy: Policy, prefix: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a prefix must have at least 2 and fewer than 12 tokens"):
        resample_suffixes(policy, PROMPTS, [0], [prefix], SamplingSettings(12, min_new_tokens=2), seed=0)
