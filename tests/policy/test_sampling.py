from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from scipy import stats

from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.sampling import (
    LARGE_VOCABULARY,
    behaviour_probabilities,
    draw_tokens,
    stream_seed,
)
from tests.policy.conftest import awaken, save_random_model

PROMPTS = [[1, 10, 11, 12, 13, 14, 2], [1, 20, 21, 2]]


def stop_often(policy: Policy) -> Policy:
    """Let a tenth of all tokens end the program, so that some do and some do not."""
    policy.stop_token_ids = (3, *range(200, 230))
    return policy


def fields_equal(a, b) -> bool:
    tensors = all(torch.equal(x, y) for x, y in zip(a[:6], b[:6], strict=True) if x.shape == y.shape)
    return tensors and a.program_ids.shape == b.program_ids.shape and a.sources == b.sources


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be positive and finite, got 0.0"),
        ({"epsilon": 1.5}, r"epsilon must be in \[0, 1\], got 1.5"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
    ],
)
def test_settings_are_checked(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingSettings(**changes)


def test_stream_seeds_are_fixed_and_distinct() -> None:
    assert stream_seed(0, 0, 0) == 8387133978117270309
    seeds = {stream_seed(*key) for key in itertools.product(range(5), range(5), range(5))}
    assert len(seeds) == 125
    assert stream_seed(1, 11, 1) != stream_seed(11, 1, 1)


def test_same_call_same_samples_and_the_global_generator_rests(policy: Policy) -> None:
    stop_often(policy)
    settings = SamplingSettings(max_new_tokens=12, epsilon=0.1, temperature=1.2)
    state = torch.get_rng_state()
    first = policy.sample(PROMPTS, 4, settings, seed=7, rank=1, step=3)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(99)
    assert fields_equal(first, policy.sample(PROMPTS, 4, settings, seed=7, rank=1, step=3))
    for other in ({"seed": 8}, {"rank": 0}, {"step": 4}):
        assert not fields_equal(
            first, policy.sample(PROMPTS, 4, settings, **({"seed": 7, "rank": 1, "step": 3} | other))
        )


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(max_new_tokens=16),
        SamplingSettings(max_new_tokens=16, temperature=2.0, epsilon=0.2),
        SamplingSettings(max_new_tokens=16, temperature=0.7, top_p=0.8),
    ],
    ids=["plain", "exploring", "top-p"],
)
@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1]], ids=["padded", "single"])
def test_log_probs_are_those_of_teacher_forcing_at_temperature_one(
    policy: Policy, settings: SamplingSettings, prompts: list[list[int]]
) -> None:
    stop_often(policy)
    sampled = policy.sample(prompts, 8, settings, seed=0)
    assert sampled.stopped.any()
    prompt_ids, prompt_mask = pad_left(prompts, 0)
    index = sampled.prompt_index
    arguments = (prompt_ids[index], sampled.program_ids, sampled.program_mask, prompt_mask[index])
    assert sampled.log_prob.dtype == sampled.reference_log_prob.dtype == torch.float32
    forced = policy.program_log_probs(*arguments, share_prompts=False)
    assert torch.allclose(sampled.log_prob, forced, atol=1e-4)
    with policy.reference():
        reference = policy.program_log_probs(*arguments, share_prompts=False)
    assert torch.allclose(sampled.reference_log_prob, reference, atol=1e-4)
    assert not torch.allclose(reference, forced, atol=1e-2)
    assert not sampled.log_prob.requires_grad


def test_shapes_order_and_ends(policy: Policy) -> None:
    stop_often(policy)
    sampled = policy.sample(PROMPTS, 8, SamplingSettings(max_new_tokens=10), seed=0)
    assert sampled.prompt_index.tolist() == [0] * 8 + [1] * 8
    lengths = sampled.program_mask.sum(1)
    assert int(lengths.max()) == sampled.program_ids.shape[1] <= 10
    assert sampled.stopped.any()
    assert not sampled.stopped.all()
    for row in range(16):
        tokens = sampled.program_ids[row, : lengths[row]].tolist()
        stops = [token in policy.stop_token_ids for token in tokens]
        assert not any(stops[:-1])
        assert stops[-1] == bool(sampled.stopped[row])
        assert sampled.stopped[row] or lengths[row] == 10
        assert (sampled.program_ids[row, lengths[row] :] == policy.pad_token_id).all()
        assert sampled.sources[row] == policy.decode(tokens)


def test_each_distinct_prompt_runs_once_and_finished_rows_leave(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthstats_lightning.policy import sampling

    stop_often(policy)
    calls: list[tuple[int, int]] = []
    original = sampling.run_backbone

    def watched(backbone, ids, mask, past_key_values, past=0):
        calls.append(tuple(ids.shape))
        return original(backbone, ids, mask, past_key_values, past)

    monkeypatch.setattr(sampling, "run_backbone", watched)
    policy.sample([PROMPTS[0], PROMPTS[1], PROMPTS[0]], 16, SamplingSettings(max_new_tokens=30), seed=0)
    assert calls[0] == (2, 7)
    rows = [batch for batch, new in calls[1:] if new == 1]
    assert rows[0] > 32
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 16


def test_a_row_does_not_depend_on_when_others_finish(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    from synthstats_lightning.policy import sampling

    stop_often(policy)
    settings = SamplingSettings(max_new_tokens=20)
    first = policy.sample(PROMPTS, 8, settings, seed=0)
    monkeypatch.setattr(sampling, "COMPACT_BELOW", 0.0)
    second = policy.sample(PROMPTS, 8, settings, seed=0)
    assert torch.equal(first.program_ids, second.program_ids)
    assert torch.allclose(first.log_prob, second.log_prob, atol=1e-4)


def test_programs_follow_the_policy(tmp_path: Path) -> None:
    """Frequencies against the exact probabilities of the model's own logits."""
    folder = save_random_model(tmp_path, vocabulary=300, initializer_range=0.3)
    policy = awaken(load_policy(str(folder), LoraSettings(rank=2), seed=0))
    prompt = [1, 10, 2]
    with torch.no_grad():
        first = policy.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    sampled = policy.sample([prompt], 3000, SamplingSettings(max_new_tokens=1), seed=0)
    counts = torch.bincount(sampled.program_ids[:, 0], minlength=300).double()
    common = first * 3000 >= 5
    observed = [*counts[common].tolist(), float(counts[~common].sum())]
    expected = [*(3000 * first[common]).tolist(), float(3000 * first[~common].sum())]
    scale = sum(observed) / sum(expected)
    assert stats.chisquare(observed, [scale * value for value in expected]).pvalue > 1e-3
    # and the second token given the first
    token = int(counts.argmax())
    with torch.no_grad():
        second = policy.model(torch.tensor([[*prompt, token]])).logits[0, -1].softmax(-1)
    sampled = policy.sample([[*prompt, token]], 3000, SamplingSettings(max_new_tokens=1), seed=0)
    longer = policy.sample([prompt], 3000, SamplingSettings(max_new_tokens=2), seed=5)
    continued = longer.program_ids[longer.program_ids[:, 0] == token, 1]
    likely = int(second.argmax())
    share = float((continued == likely).double().mean())
    assert abs(share - float(second[likely])) < 4 * (0.25 / len(continued)) ** 0.5


def test_behaviour_distribution() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    plain = behaviour_probabilities(logits, SamplingSettings())
    assert torch.allclose(plain, logits.softmax(-1))
    hot = behaviour_probabilities(logits, SamplingSettings(temperature=2.0, epsilon=0.2))
    assert torch.allclose(hot, 0.8 * (logits / 2).softmax(-1) + 0.05)
    # probabilities 0.644, 0.237, 0.087, 0.032: the first two reach 0.7
    nucleus = behaviour_probabilities(logits, SamplingSettings(top_p=0.7))
    assert torch.allclose(nucleus, torch.tensor([[0.7311, 0.2689, 0.0, 0.0]]), atol=1e-4)
    assert torch.equal(
        behaviour_probabilities(logits, SamplingSettings(top_p=1e-9)), torch.tensor([[1.0, 0, 0, 0]])
    )


def test_drawing_inverts_the_cumulative_distribution() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]]).expand(4, -1)
    uniforms = torch.tensor([0.0, 0.2499, 0.2501, 1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(probabilities, uniforms).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("vocabulary", [8193, 9216, 20_001])
def test_drawing_from_a_large_vocabulary_is_the_same(vocabulary: int) -> None:
    assert vocabulary > LARGE_VOCABULARY
    generator = torch.Generator().manual_seed(vocabulary)
    probabilities = (3.0 * torch.randn(500, vocabulary, generator=generator)).softmax(-1)
    # long runs of tokens that cannot be, at the ends too
    probabilities[probabilities < probabilities.mean()] = 0.0
    probabilities[:, :600] = probabilities[:, -700:] = 0.0
    uniforms = torch.rand(500, generator=generator, dtype=torch.float64)
    uniforms[0], uniforms[1] = 0.0, 1.0 - 2.0**-53
    cumulative = probabilities.double().cumsum(-1)
    expected = (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(1)
    drawn = draw_tokens(probabilities, uniforms)
    assert torch.equal(drawn, expected)
    assert (probabilities.gather(1, drawn[:, None]) > 0).all()


def test_gets_along_with_inference_mode_and_without_adapter(model_folder: Path, policy: Policy) -> None:
    base = load_policy(str(model_folder), lora=None)
    with torch.inference_mode():
        policy.sample(PROMPTS, 2, SamplingSettings(max_new_tokens=4), seed=0)
        sampled = base.sample(PROMPTS, 2, SamplingSettings(max_new_tokens=4), seed=0)
    assert torch.allclose(sampled.log_prob, sampled.reference_log_prob, atol=1e-4)
    assert not base.training


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_sliding_windows(dtype: str, tmp_path: Path) -> None:
    """Layers whose cache is not a plain one."""
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    folder = save_random_model(tmp_path, **window)
    policy = load_policy(str(folder), LoraSettings(rank=2), ModelSettings(dtype=dtype), seed=0)
    assert policy.language_model.config.layer_types == ["full_attention", "sliding_attention"]
    sampled = policy.sample(PROMPTS, 4, SamplingSettings(max_new_tokens=12), seed=0)
    # a fresh adapter is the identity: decoding and teacher forcing give the same number
    assert torch.allclose(
        sampled.log_prob, sampled.reference_log_prob, atol=1e-4 if dtype == "float32" else 1.0
    )


@pytest.mark.parametrize(("prompts", "num_samples"), [([], 1), ([[]], 1), (PROMPTS, 0)])
def test_refuses_nothing_to_do(policy: Policy, prompts: list[list[int]], num_samples: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        policy.sample(prompts, num_samples, SamplingSettings(), seed=0)


def test_refuses_more_tokens_than_the_model_has_positions(policy: Policy) -> None:
    with pytest.raises(ValueError, match="max_new_tokens must be at most 505, got 506"):
        policy.sample(PROMPTS, 1, SamplingSettings(max_new_tokens=506), seed=0)


def test_programs_know_what_they_were_drawn_with(policy: Policy) -> None:
    policy = stop_often(policy)
    own = policy.sample(PROMPTS, 3, SamplingSettings(max_new_tokens=8), seed=0)
    assert torch.equal(own.proposal_log_prob, own.log_prob)
    uniform = policy.sample(PROMPTS, 3, SamplingSettings(max_new_tokens=8, epsilon=1.0), seed=0)
    each = -torch.tensor(float(policy.language_model.config.vocab_size)).log()
    assert torch.allclose(uniform.proposal_log_prob, each * uniform.program_mask.sum(1), atol=1e-4)
    # weights of the policy against what was drawn have mean 1, whichever way it was explored
    for options in ({"temperature": 1.5}, {"temperature_high": 2.0}, {"temperature": 0.9, "epsilon": 0.2}):
        settings = SamplingSettings(max_new_tokens=3, **options)
        drawn = policy.sample(PROMPTS[:1], 2000, settings, seed=1)
        weight = (drawn.log_prob - drawn.proposal_log_prob).exp()
        assert abs(float(weight.mean()) - 1) < 4 * float(weight.std()) / 2000**0.5
