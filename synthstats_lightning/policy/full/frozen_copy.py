"""A reference policy with weights of its own, for a policy all of whose weights are trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from synthstats_lightning.policy.language_part import text_backbone
from synthstats_lightning.policy.log_probs import OutputHead


class FrozenCopy:
    """The language model as it was loaded, beside the one that is trained.

    It is no part of the policy's parameters, so that neither checkpoints, optimisers nor distributed training
    see it, and it keeps the number type that it was loaded in, whatever the trainer's precision.

    Args:
        model: A transformers causal LM, which is copied.
        head: Its output layer.
        device: Where the copy stays; `None` has it go where the policy goes.

    Attributes:
        model: The copy of the language model.
        head: Its output layer.
        device: Where the copy stays; `None` where it goes along with the policy.
    """

    def __init__(self, model: Any, head: OutputHead, device: str | None = None) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.head = replace(head, module=self.model.get_output_embeddings())
        self.device = device
        if device is not None:
            self.model.to(device)

    @property
    def num_bytes(self) -> int:
        """Memory that its weights take, in bytes."""
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    @property
    def place(self) -> torch.device:
        """Where its weights are."""
        place: torch.device = next(self.model.parameters()).device
        return place

    def follow(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Goes where the policy goes, unless it has a device of its own; it is never rounded.

        Args:
            fn: What moves or converts each of the policy's tensors.
        """
        if self.device is None:
            self.model._apply(lambda tensor: tensor.to(fn(tensor).device))

    @contextmanager
    def in_place_of(self, policy: Any) -> Iterator[None]:
        """Within this context the policy's model is this copy.

        Args:
            policy: The `Policy`, whose own model comes back afterwards.
        """
        own = policy.model, policy._head
        policy.model, policy._head = self.model.eval(), self.head
        try:
            yield
        finally:
            policy.model, policy._head = own


def train_all_weights(model: Any) -> None:
    """Has all weights of a model's language part learn, in float32; of other parts none.

    Args:
        model: A transformers causal LM.
    """
    for part in (text_backbone(model), model.get_output_embeddings()):
        part.float()
        part.requires_grad_(True)
