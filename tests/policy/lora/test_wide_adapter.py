"""Trained parameters, and their gradients, are never rounded; frozen ones follow."""

import torch

from synthstats_lightning.policy.wide_adapter import WideAdapter


class Half(WideAdapter):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(2, 2).requires_grad_(False)
        self.adapter = torch.nn.Linear(2, 2)


def test_gradients_keep_the_dtype_of_their_parameters():
    module = Half()
    module.adapter(torch.ones(1, 2)).sum().backward()
    before = [value.clone() for value in (module.adapter.weight, module.adapter.weight.grad)]
    module.to(torch.bfloat16)
    assert module.base.weight.dtype == torch.bfloat16
    for value, old in zip((module.adapter.weight, module.adapter.weight.grad), before, strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, old)
    module.to(torch.float64)
    assert {value.dtype for value in module.parameters()} == {torch.float64}
    assert module.adapter.weight.grad.dtype == torch.float64
