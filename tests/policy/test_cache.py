"""The cache with room to grow, against transformers' own that concatenates."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import Qwen3Config
from transformers.cache_utils import DynamicCache

from synthstats_lightning.policy.cache import BLOCK, BufferedLayer, sampling_cache

HEADS, SIZE = 2, 4


def test_keys_and_values_are_those_of_a_cache_that_concatenates() -> None:
    config = Qwen3Config(num_hidden_layers=1, num_key_value_heads=HEADS, head_dim=SIZE)
    ours, theirs = sampling_cache(config), DynamicCache(config=config)
    assert type(ours.layers[0]) is BufferedLayer
    generator = torch.Generator().manual_seed(0)

    def go_on(rows: int, tokens: int) -> None:
        keys, values = torch.randn(2, rows, HEADS, tokens, SIZE, generator=generator)
        found, expected = ours.update(keys, values, 0), theirs.update(keys, values, 0)
        assert all(map(torch.equal, found, expected))
        assert ours.get_seq_length() == theirs.get_seq_length()

    def choose(*rows: int) -> None:
        index: Tensor = torch.tensor(rows)
        for cache in (ours, theirs):
            cache.reorder_cache(index)

    choose()  # nothing to choose from yet
    go_on(2, BLOCK - 2)
    choose(0, 0, 1, 1, 1)
    for _ in range(4):  # past the end of a buffer
        go_on(5, 1)
    choose(4, 1)
    choose(1, 0)
    go_on(2, 3)
    choose(1)
    go_on(1, 2 * BLOCK)
    go_on(1, 1)


def test_rows_can_be_dropped_without_a_copy_at_the_next_token() -> None:
    layer = BufferedLayer()
    layer.update(torch.ones(4, HEADS, 3, SIZE), torch.ones(4, HEADS, 3, SIZE))
    layer.reorder_cache(torch.tensor([0, 2]))
    assert layer.buffers is not None
    places = [buffer.data_ptr() for buffer in layer.buffers]
    keys, values = layer.update(torch.ones(2, HEADS, 1, SIZE), torch.ones(2, HEADS, 1, SIZE))
    assert [keys.data_ptr(), values.data_ptr()] == places
    assert keys.shape == (2, HEADS, 4, SIZE)
    assert bool((keys == 1).all())
    assert bool((values == 1).all())
