"""A policy whose trained parameters are never rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from synthstats_lightning.policy.full.frozen_copy import FrozenCopy
from synthstats_lightning.policy.language_part import text_backbone, text_config


class WideAdapter(nn.Module):
    """Follows moves between devices and changes of dtype, but for trained parameters that would lose bits.

    A precision plugin such as `bf16-true` rounds the base weights, which are not trained. An adapter in
    bfloat16 stands still as soon as its steps are smaller than a 512th of its weights.

    Attributes:
        model: A transformers causal LM, or a `peft.PeftModel` around one.
        frozen: The reference's own weights, where all weights of the policy are trained; else `None`.
    """

    model: Any
    frozen: FrozenCopy | None = None

    @property
    def has_adapter(self) -> bool:
        """Whether there is an adapter to train."""
        return hasattr(self.model, "peft_config")

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.has_adapter or self.frozen is not None

    @property
    def language_model(self) -> Any:
        """The transformers model, its layers adapted in place if there is an adapter."""
        return self.model.get_base_model() if self.has_adapter else self.model

    @property
    def backbone(self) -> Any:
        """The part of the model that reads and writes text, without its head."""
        return text_backbone(self.language_model)

    @property
    def text_config(self) -> Any:
        """Configuration of that part."""
        return text_config(self.language_model.config)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        kept = {id(parameter) for parameter in trained} | {id(parameter.grad) for parameter in trained}
        if self.frozen is not None:
            self.frozen.follow(fn)
            kept |= {id(buffer) for buffer in self.buffers()}  # what belongs to trained weights

        def keep_trained(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            rounded = id(tensor) in kept and moved.dtype.itemsize < tensor.dtype.itemsize
            return tensor.to(moved.device) if rounded else moved

        return super()._apply(keep_trained, recurse)  # type: ignore[no-untyped-call]

    def adapter_state_dict(self) -> dict[str, Tensor]:
        """Trainable parameters by their names in `named_parameters`, detached."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}

    def load_adapter_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `adapter_state_dict`.

        Raises:
            ValueError: If names are missing or unknown, or a shape differs.
        """
        own = {name: p for name, p in self.named_parameters() if p.requires_grad}
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"adapter state does not fit: missing {missing[:3]}, unknown {unknown[:3]}")
        wrong = [name for name, p in own.items() if p.shape != state[name].shape]
        if wrong:
            raise ValueError(
                f"adapter state does not fit: other shapes in {wrong[:3]}; was the rank changed?"
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(state[name])
