"""Adapted linear layers whose low-rank update is part of the matrix products, in both directions.

PEFT computes `result + lora_B(lora_A(x)) * scaling`: two more passes over memory for each layer's output, and
as many over the input's gradient. For small models they cost as much as the products.

Imports PEFT: import this module inside functions only.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from peft.tuners.lora.layer import Linear, LoraLayer
from torch import Tensor, nn
from torch.nn import functional

from synthstats_lightning.policy.products import linear, packed, times


class LowRankLinear(torch.autograd.Function):
    """`x Wᵀ + bias + s x Aᵀ Bᵀ`, with W and the bias frozen."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, low: Tensor, high: Tensor, scale: float
    ) -> Tensor:
        """The output `[tokens, out]` of `x [tokens, in]`, `low [rank, in]` (A) and `high [out, rank]` (B)."""
        with torch.autocast(x.device.type, enabled=False):
            inner = functional.linear(x, low)
            output = linear(x, weight, bias).addmm_(inner, high.T, alpha=scale)
        context.save_for_backward(x, weight, low, high, inner)
        context.scale = scale
        return output

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, A and B."""
        x, weight, low, high, inner = context.saved_tensors
        grad_x = grad_low = grad_high = None
        with torch.autocast(grad.device.type, enabled=False):
            reduced = (grad @ high).mul_(context.scale)
            if context.needs_input_grad[0]:
                grad_x = times(grad, weight).addmm_(reduced, low)
            if context.needs_input_grad[3]:
                grad_low = reduced.T @ x
            if context.needs_input_grad[4]:
                grad_high = (grad.T @ inner).mul_(context.scale)
        return grad_x, None, None, grad_low, grad_high, None


class FusedLinear(Linear):
    """PEFT's adapted linear layer, computed by `LowRankLinear` wherever that says the same."""

    folded: tuple[Tensor, Tensor | None] | None = None

    def forward(self, x: Float[Tensor, "*rows width"], *args: Any, **kwargs: Any) -> Tensor:
        """The layer's output; whatever is out of the ordinary goes PEFT's way."""
        if self.folded is not None:
            return linear(x, *self.folded)
        name = self.only_adapter()
        if (
            self.disable_adapters
            and type(self.base_layer) is nn.Linear
            and not (self.merged or args or kwargs)
        ):
            return linear(x, self.base_layer.weight, self.base_layer.bias)
        if name is None or args or kwargs:
            output: Tensor = super().forward(x, *args, **kwargs)
            return output
        base, low, high = self.base_layer, self.lora_A[name].weight, self.lora_B[name].weight
        device = x.device.type
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        elif x.dtype == base.weight.dtype == low.dtype:
            dtype = x.dtype
        else:  # a half-precision base, whose update PEFT computes in float32
            output = super().forward(x)
            return output
        rows = x.to(dtype).reshape(-1, x.shape[-1])
        bias = None if base.bias is None else base.bias.to(dtype)
        flat: Tensor = LowRankLinear.apply(  # type: ignore[no-untyped-call]
            rows, base.weight.to(dtype), bias, low.to(dtype), high.to(dtype), self.scaling[name]
        )
        return flat.view(*x.shape[:-1], flat.shape[-1])

    @torch.no_grad()
    def fold(self) -> None:
        """Until `unfold`, one product with the sum of weight and update, both as they are now."""
        name = self.only_adapter()
        if name is None:
            raise ValueError("only a layer with one plain adapter can be folded")
        low, high = self.lora_A[name].weight, self.lora_B[name].weight
        weight = torch.addmm(self.base_layer.weight, high, low, alpha=self.scaling[name])
        self.folded = (packed(weight), self.base_layer.bias)

    def unfold(self) -> None:
        """The end of `fold`."""
        self.folded = None

    def only_adapter(self) -> str | None:
        """The adapter in use, if there is just one, of the plain kind, on a frozen plain layer."""
        active = [name for name in self.active_adapters if name in self.lora_A]
        plain = (
            len(active) == 1
            and not self.disable_adapters
            and not self.merged
            and active[0] not in self.lora_variant
            # with dropout the update sees another input than the base
            and (type(self.lora_dropout[active[0]]) is nn.Identity or not self.training)
            and type(self.base_layer) is nn.Linear
            and not self.base_layer.weight.requires_grad
            and self.lora_A[active[0]].bias is None
            and self.lora_B[active[0]].bias is None
        )
        return active[0] if plain else None


def fuse_layers(model: Any) -> Any:
    """Makes the adapted linear layers of a model compute their updates as part of the matrix products.

    Args:
        model: A `peft.PeftModel`; changed in place.

    Returns:
        The same model.
    """
    for module in model.modules():
        # other kinds (quantised bases, convolutions, embeddings) stay as they are
        if isinstance(module, LoraLayer) and type(module) is Linear:
            module.__class__ = FusedLinear
    return model
