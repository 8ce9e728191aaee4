"""Attention of one new token against softmax written out, and in a model against transformers' own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from synthstats_lightning.policy import LoraSettings, load_policy
from synthstats_lightning.policy.cache import sampling_cache
from synthstats_lightning.policy.grouped_attention import NAME, grouped_attention
from synthstats_lightning.policy.hidden import run_backbone


@pytest.mark.parametrize(("heads", "groups", "time"), [(6, 2, 9), (4, 4, 5), (3, 1, 70)])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_equals_softmax_written_out(heads: int, groups: int, time: int, scaling: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, heads, 1, 8, generator=generator)
    key, value = (torch.randn(2, groups, time, 8, generator=generator) for _ in range(2))
    layer = nn.Module()
    layer.num_key_value_groups = heads // groups
    found, weights = grouped_attention(layer, query, key, value, None, scaling)
    assert weights is None
    for head in range(heads):
        group = head // (heads // groups)
        scores = (query[:, head] @ key[:, group].mT) * (8**-0.5 if scaling is None else scaling)
        torch.testing.assert_close(found[:, :, head], scores.softmax(-1) @ value[:, group])


@pytest.mark.parametrize("padding", [0, 2])
def test_a_model_decodes_as_it_does_with_the_attention_of_transformers(padding: int) -> None:
    policy = load_policy("tiny", LoraSettings(rank=2), seed=0)
    backbone = policy.model.get_base_model().model
    assert backbone.config._attn_implementation == NAME
    ids = torch.randint(5, 900, (3, 12), generator=torch.Generator().manual_seed(1))
    hidden = []
    for name in (NAME, "sdpa"):
        backbone.set_attn_implementation(name)
        cache = sampling_cache(backbone.config)
        mask = None
        if padding:
            mask = torch.ones_like(ids, dtype=torch.bool)
            mask[0, :padding] = False
        steps = [run_backbone(backbone, ids[:, :8], None if mask is None else mask[:, :8], cache)[:, -1]]
        for time in range(8, 12):
            seen = None if mask is None else mask[:, : time + 1]
            steps.append(run_backbone(backbone, ids[:, time : time + 1], seen, cache, past=time)[:, -1])
        hidden.append(torch.stack(steps))
    torch.testing.assert_close(*hidden, rtol=1e-4, atol=1e-5)
