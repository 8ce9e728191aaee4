"""Muon against singular value decompositions and against PyTorch's, which rounds to bfloat16."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.pretraining.muon import Muon, orthogonal
from synthstats_lightning.pretraining.precision import in_bfloat16


@pytest.mark.parametrize("shape", [(3, 24, 40), (2, 40, 24), (1, 16, 16)])
def test_steps_have_the_singular_vectors_of_what_they_are_made_of(shape):
    generator = torch.Generator().manual_seed(2)
    matrices = torch.randn(shape, generator=generator)
    found = orthogonal(matrices)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    inside = left.mT @ found @ right.mT
    sizes = inside.diagonal(dim1=1, dim2=2)
    assert (inside - torch.diag_embed(sizes)).abs().max() < 1e-4
    assert sizes.min() > 0.3
    assert sizes.max() < 1.3


def test_it_goes_where_pytorchs_goes():
    generator = torch.Generator().manual_seed(3)
    starts = [torch.randn(shape, generator=generator) for shape in ((12, 20), (20, 12), (12, 20))]
    target = [torch.randn(start.shape, generator=generator) for start in starts]
    ends = []
    for kind, more in ((Muon, {}), (torch.optim.Muon, {"adjust_lr_fn": "match_rms_adamw"})):
        parameters = [torch.nn.Parameter(start.clone()) for start in starts]
        optimizer = kind(parameters, lr=0.05, weight_decay=0.1, **more)
        for _ in range(5):
            optimizer.zero_grad()
            sum(((each - aim) ** 2).sum() for each, aim in zip(parameters, target, strict=True)).backward()
            optimizer.step()
        ends.append(parameters)
    for start, own, other in zip(starts, *ends, strict=True):
        assert (own - start).norm() > 0.5
        assert (own - other).norm() < 0.02 * (own - start).norm()


def test_precision_is_one_of_three():
    assert in_bfloat16("bf16")
    assert not in_bfloat16("fp32")
    assert in_bfloat16("auto") in (True, False)
    with pytest.raises(ValueError, match="precision must be one of auto, bf16, fp32, got 'fp64'"):
        in_bfloat16("fp64")
