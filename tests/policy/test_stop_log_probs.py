"""Stop probabilities from the pass that gives the tokens', and programs of a minimum length."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from synthstats_lightning.policy import LoraSettings, Policy, SamplingSettings, adapter_as, copy_adapter
from synthstats_lightning.policy.log_probs import (
    HAS_LINEAR_CROSS_ENTROPY,
    OutputHead,
    forbid_early_stop,
    token_and_stop_log_probs,
)
from tests.policy.conftest import awaken

HIDDEN, VOCABULARY, TOKENS = 24, 97, 41
PROMPT = [5, 6, 7]


def problem(bias: bool) -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(HIDDEN, VOCABULARY, bias=bias)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    hidden = torch.randn(TOKENS, HIDDEN, generator=generator).requires_grad_()
    return hidden, torch.randint(VOCABULARY, (TOKENS,), generator=generator), layer


@pytest.mark.parametrize("softcap", [None, pytest.param(30.0, id="chunked")])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("stop_ids", [(3,), (3, 90, 0)])
def test_equals_naive_log_softmax_in_value_and_gradient(softcap, bias, stop_ids) -> None:
    hidden, targets, layer = problem(bias)
    head = OutputHead(layer, softcap=softcap)
    values = token_and_stop_log_probs(hidden, targets, head, stop_ids, chunk_elements=10 * VOCABULARY)
    table = head.logits(hidden).double().log_softmax(-1)
    expected = table.gather(-1, targets[:, None])[:, 0], table[:, list(stop_ids)].logsumexp(-1)
    for ours, theirs in zip(values, expected, strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.double(), theirs, atol=1e-5)
        weights = torch.linspace(-1, 2, TOKENS)
        grads = [
            torch.autograd.grad((weights * v).sum(), hidden, retain_graph=True)[0] for v in (ours, theirs)
        ]
        assert torch.allclose(grads[0], grads[1], atol=1e-4)


@pytest.mark.skipif(not HAS_LINEAR_CROSS_ENTROPY, reason="needs PyTorch 2.13")
def test_the_vocabulary_is_passed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from synthstats_lightning.policy import log_probs

    calls = []
    fused = log_probs.fused_token_log_probs
    monkeypatch.setattr(log_probs, "fused_token_log_probs", lambda *a: calls.append(1) or fused(*a))
    hidden, targets, layer = problem(bias=False)
    widest = []
    linear = nn.functional.linear

    def measured(*arguments):
        made = linear(*arguments)
        widest.append(made.shape[-1])
        return made

    monkeypatch.setattr(log_probs.functional, "linear", measured)
    token_and_stop_log_probs(hidden, targets, OutputHead(layer), (3, 4))
    assert calls == [1]
    assert widest == [2]  # of the stop tokens alone


def test_policy_gives_both_of_ragged_programs(policy: Policy) -> None:
    programs = torch.tensor([[10, 11, 12, 3], [10, 3, 0, 0]])
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    prompts = torch.tensor([PROMPT, PROMPT])
    both = policy.token_and_stop_log_probs(prompts, programs, mask)
    assert torch.allclose(both.token, policy.token_log_probs(prompts, programs, mask), atol=1e-6)
    logits = policy.model(input_ids=torch.cat([prompts, programs], 1)).logits[:, len(PROMPT) - 1 : -1]
    stop = logits.log_softmax(-1)[..., list(policy.stop_token_ids)].logsumexp(-1)
    assert torch.allclose(both.stop[mask], stop[mask], atol=1e-5)
    assert (both.stop[~mask] == 0).all()
    assert both.hidden.shape[:2] == programs.shape
    # the stop token's own probability is that of stopping
    assert both.stop[0, 3].item() == pytest.approx(both.token[0, 3].item(), abs=1e-5)


def test_buckets_of_length_change_nothing(policy: Policy) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([3] * 24 + [30] * 24)
    programs = torch.randint(10, 290, (48, 30), generator=generator)
    mask = torch.arange(30) < lengths[:, None]
    prompts = torch.tensor([PROMPT]).expand(48, -1)
    whole = policy.token_and_stop_log_probs(prompts, programs, mask)
    for rows in (slice(0, 8), slice(40, 48)):
        part = policy.token_and_stop_log_probs(prompts[rows], programs[rows], mask[rows])
        for ours, theirs in zip(whole[:2], part[:2], strict=True):
            assert torch.allclose(ours[rows], theirs, atol=1e-4)
    width = 3
    short = policy.token_and_stop_log_probs(prompts[:8], programs[:8, :width], mask[:8, :width])
    assert torch.allclose(whole.hidden[:8, :width], short.hidden, atol=1e-4)


def test_without_early_stops_the_other_tokens_sum_to_one() -> None:
    logits = torch.randn(1, 3, 5, dtype=torch.float64).log_softmax(-1)
    stop = logits[..., 4]
    for token in range(4):
        ours, forbidden = forbid_early_stop(logits[..., token], stop, 2)
        expected = logits[..., :4].log_softmax(-1)[..., token]
        assert torch.allclose(ours[0, :2], expected[0, :2])
        assert ours[0, 2] == logits[0, 2, token]
        assert forbidden[0].isinf().tolist() == [True, True, False]
    certain = torch.zeros(1, 1, requires_grad=True)
    ours, _ = forbid_early_stop(torch.full((1, 1), -20.0), certain, 1)
    ours.sum().backward()
    assert torch.isfinite(ours).all()
    assert torch.isfinite(certain.grad).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.9])
def test_programs_reach_the_minimum_length_and_keep_their_probability(policy: Policy, epsilon: float) -> None:
    settings = SamplingSettings(max_new_tokens=9, min_new_tokens=4, epsilon=epsilon)
    with torch.no_grad():  # make stopping likely
        policy.language_model.lm_head.weight[list(policy.stop_token_ids)] *= 3
    sampled = policy.sample([PROMPT], 200, settings, seed=0)
    tokens = sampled.program_mask.sum(1) - sampled.stopped.long()
    assert tokens.min() >= 4
    assert sampled.stopped.any()
    given = (torch.tensor([PROMPT]).expand(200, -1), sampled.program_ids, sampled.program_mask)
    with torch.no_grad():
        again = policy.program_log_probs(*given, min_new_tokens=4)
        free = policy.program_log_probs(*given)
    assert torch.allclose(again, sampled.log_prob, atol=1e-3)
    assert (again >= free - 1e-5).all()
    assert (again > free + 1e-3).any()
    with torch.no_grad(), policy.evaluating(), policy.reference():
        reference = policy.program_log_probs(*given, min_new_tokens=4)
    assert torch.allclose(reference, sampled.reference_log_prob, atol=1e-3)


def test_a_forced_stop_is_flagged_and_is_no_factor(policy: Policy) -> None:
    sampled = policy.sample([PROMPT], 300, SamplingSettings(max_new_tokens=2), seed=1)
    cut = ~sampled.stopped
    assert cut.any()
    last = sampled.program_ids[cut][:, -1]
    assert not torch.isin(last, torch.tensor(policy.stop_token_ids)).any()
    # all programs of at most two tokens, the cut ones among them, have probability 1 together
    vocabulary = policy.language_model.config.vocab_size
    stops = set(policy.stop_token_ids)
    first = [t for t in range(vocabulary) if t not in stops]
    rows = [[s] for s in stops] + [list(pair) for pair in itertools.product(first[:40], range(vocabulary))]
    ids = torch.tensor([row + [0] * (2 - len(row)) for row in rows])
    mask = torch.tensor([[True, len(row) == 2] for row in rows])
    with torch.no_grad(), policy.evaluating():
        log_prob = policy.program_log_probs(torch.tensor([PROMPT]).expand(len(rows), -1), ids, mask)
        start = policy.model(input_ids=torch.tensor([PROMPT])).logits[0, -1].softmax(-1)
    expected = start[list(stops)].sum() + start[first[:40]].sum()
    assert log_prob.exp().sum().item() == pytest.approx(expected.item(), abs=1e-3)


def test_minimum_length_must_fit() -> None:
    with pytest.raises(ValueError, match="min_new_tokens must be at least 0 and less than max_new_tokens=4"):
        SamplingSettings(max_new_tokens=4, min_new_tokens=4)


def test_prompt_features_do_not_follow_the_adapter(model_folder) -> None:
    from synthstats_lightning.policy import load_policy

    policy = load_policy(str(model_folder), LoraSettings(rank=2), seed=0)
    ids, mask = torch.tensor([[0, 5, 6], [7, 8, 9]]), torch.tensor([[False, True, True], [True] * 3])
    before = policy.prompt_features(ids, mask)
    awaken(policy)
    assert torch.equal(policy.prompt_features(ids, mask), before)
    alone = policy.prompt_features(torch.tensor([[5, 6]]), torch.tensor([[True, True]]))
    assert torch.allclose(alone[0], before[0], atol=1e-4)


def test_lines_end_at_tokens_with_a_line_break(policy: Policy) -> None:
    ids = policy.encode_program("x = 1\ny = 2\n")
    text = [policy.tokenizer.decode([token]) for token in ids]
    assert policy.ends_line[torch.tensor(ids)].tolist() == ["\n" in piece for piece in text]
    assert policy.ends_line.sum() >= 1


def test_another_adapter_for_a_while(policy: Policy) -> None:
    programs, mask = torch.tensor([[10, 11, 3]]), torch.ones(1, 3, dtype=torch.bool)
    prompts = torch.tensor([PROMPT])
    before = policy.program_log_probs(prompts, programs, mask)
    snapshot = copy_adapter(policy)
    awaken(policy)
    moved = policy.program_log_probs(prompts, programs, mask)
    assert not torch.allclose(moved, before, atol=1e-4)
    with adapter_as(policy, snapshot):
        assert torch.allclose(policy.program_log_probs(prompts, programs, mask), before, atol=1e-6)
    assert torch.equal(policy.program_log_probs(prompts, programs, mask), moved)
