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
@pytest.mark.parametrize("mask", [None, "bool", "float", "heads"])
@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_softmax_written_out(
    heads: int,
    groups: int,
    time: int,
    scaling: float | None,
    mask: str | None,
    time_last: bool,
    dtype: torch.dtype,
) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, heads, 1, 8, generator=generator, dtype=dtype)
    key, value = (torch.randn(2, groups, time, 8, generator=generator, dtype=dtype) for _ in range(2))
    layer = nn.Module()
    layer.num_key_value_groups = heads // groups
    hidden = torch.zeros(2, 1, 1, time, dtype=torch.bool)
    if mask is not None:
        hidden[0, ..., :3] = True
    given = {
        None: None,
        "bool": ~hidden,
        "float": torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -torch.inf),
        "heads": ~hidden.expand(2, heads, 1, time),
    }[mask]
    keys = key.mT.contiguous().mT if time_last else key
    found, weights = grouped_attention(layer, query, keys, value, given, scaling)
    assert weights is None
    assert found.shape == (2, 1, heads, 8)
    for head in range(heads):
        group = head // (heads // groups)
        scores = (query[:, head] @ key[:, group].mT) * (8**-0.5 if scaling is None else scaling)
        scores = scores.masked_fill(hidden[:, 0], -torch.inf)
        torch.testing.assert_close(found[:, :, head], scores.softmax(-1) @ value[:, group])


def test_autocast_does_not_round_the_inner_products() -> None:
    """Rounded to bfloat16, they would put the result off by 0.025."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, n, 64, generator=generator) for n in (1, 50, 50))
    rounded = [(x.bfloat16() * factor) for x, factor in ((query, 5), (key, 1), (value, 1))]
    query, key, value = (x.float() for x in rounded)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = grouped_attention(nn.Module(), query, key, value, None)
    exact = ((query.double() @ key.double().mT) / 8).softmax(-1) @ value.double()
    assert (found[:, 0].double() - exact[:, :, 0]).abs().max() < 0.01


def test_what_it_does_not_know_is_left_to_transformers() -> None:
    query, key = torch.ones(1, 4, 1, 8), torch.ones(1, 2, 3, 8)
    layer = nn.Module()
    layer.num_key_value_groups = 2
    with pytest.raises(ValueError, match="softcap"):
        grouped_attention(layer, query, key, key, None, softcap=30.0)


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
