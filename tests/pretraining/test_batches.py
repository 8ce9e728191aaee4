"""Packed rows against programs in rows of their own."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
import torch

from synthstats_lightning.pretraining.attention import register
from synthstats_lightning.pretraining.batches import Row, draw_rows, pack, packed_batches
from synthstats_lightning.pretraining.model import make_model, make_tokenizer
from synthstats_lightning.pretraining.settings import ModelSettings
from synthstats_lightning.pretraining.train import token_log_probs

SETTINGS = ModelSettings(
    vocabulary=600, hidden=32, layers=2, heads=4, key_value_heads=2, head=8, feed_forward=48
)


@cache
def tokenizer():
    return make_tokenizer(seed=3, examples=200, vocabulary=SETTINGS.vocabulary)


@pytest.fixture
def model():
    return make_model(SETTINGS, tokenizer(), seed=4).eval()


def separate(model, row: Row) -> list[torch.Tensor]:
    """Log-probabilities of each program's tokens by a plain causal pass of transformers' own attention."""
    found = []
    for program in row.programs:
        tokens = torch.tensor([row.request + program])
        with torch.no_grad():
            log_probs = torch.log_softmax(model(input_ids=tokens).logits[0].float(), dim=-1)
        start = len(row.request)
        targets = torch.tensor(program[1:])
        found.append(log_probs[start:-1].gather(-1, targets[:, None])[:, 0])
    return found


def test_packed_log_probs_equal_those_of_separate_rows(model):
    rows = draw_rows(Random(7), tokenizer(), 5, 3)
    expected = torch.cat([part for row in rows for part in separate(model, row)])
    model.set_attn_implementation(register())
    with torch.no_grad():
        packed = token_log_probs(model, pack(rows, tokenizer().pad_token_id), "fp32")
    torch.testing.assert_close(packed[0], expected, atol=2e-5, rtol=0)


def test_only_program_and_stop_tokens_count():
    batch = pack([Row([1, 9, 9], [[2, 7, 3], [2, 8, 8, 3]]), Row([1, 9], [[2, 6, 3]])], pad=0)
    assert batch.tokens.tolist() == [[1, 9, 9, 2, 7, 3, 2, 8, 8, 3], [1, 9, 2, 6, 3, 0, 0, 0, 0, 0]]
    assert batch.targets[batch.counted].tolist() == [7, 3, 8, 8, 3, 6, 3]
    assert batch.positions[0].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6]
    assert batch.visible[0, 7].tolist() == [True] * 3 + [False] * 3 + [True] * 2 + [False] * 2


def test_batches_keep_to_the_longest_row_and_repeat_with_their_seed():
    def draw():
        batches = packed_batches(Random(1), tokenizer(), batch_size=4, num_programs=3, max_length=200, pool=2)
        return [next(batches) for _ in range(6)]

    first, second = draw(), draw()
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(first, second, strict=True))
    assert max(batch.tokens.shape[1] for batch in first) <= 200
