"""The language model of a policy with pointers: Qwen3 whose embedding reads a digest's positions.

Imports transformers: import this module inside functions only.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from synthstats_lightning.policy.pointers.slots import BITS_OF_POINTERS, FIRST_ID, LAYOUTS
from synthstats_lightning.policy.pointers.vocabulary import SOURCES


class WriterConfig(Qwen3Config):
    """Qwen3's configuration and what the embedding of a digest needs.

    Attributes:
        slot_rows: Rows of the table of levels; those of the package that the model was made with.
        slot_width: Units of the perceptron that a position's sum goes through; 0 for none.
        source_ids: Token ids of the pointers to columns, in the order of `vocabulary.SOURCES`.
    """

    model_type = "synthstats_writer"

    def __init__(
        self,
        slot_rows: int | None = None,
        slot_width: int = 0,
        source_ids: list[int] | None = None,
        **more: Any,
    ) -> None:
        self.slot_rows = slot_table_rows() if slot_rows is None else slot_rows
        self.slot_width = slot_width
        self.source_ids = list(range(len(SOURCES))) if source_ids is None else list(source_ids)
        super().__init__(**more)


class SlotEmbedding(nn.Embedding):
    """Embedding of tokens, and of a digest's positions as a sum over their slots.

    Args:
        config: What the model is made from.
    """

    def __init__(self, config: WriterConfig) -> None:
        super().__init__(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.sources = tuple(config.source_ids)
        width = config.hidden_size
        self.levels = nn.Parameter(torch.empty(slot_table_rows(), width))
        self.inner = nn.Parameter(torch.empty(config.slot_width, width))
        self.outer = nn.Parameter(torch.empty(width, config.slot_width))
        self.start(config.initializer_range)

    @torch.no_grad()
    def start(self, deviation: float) -> None:
        """First values: neighbouring levels are near each other.

        Args:
            deviation: Standard deviation of the entries, like that of the tokens.
        """
        if self.levels.is_meta:
            return
        for layout in LAYOUTS.values():
            self.levels[layout.first_row].normal_(std=deviation)
            for _, radix, row in layout.places:
                place = torch.linspace(-1.0, 1.0, radix - 1)[:, None]
                features = [place, *(f(math.pi * k * place) for k in (1, 2) for f in (torch.sin, torch.cos))]
                shape = torch.cat([features[0] * 2, *features[1:]], 1)
                directions = torch.randn(shape.shape[1], self.levels.shape[1])
                self.levels[row] = deviation * torch.randn(self.levels.shape[1])
                self.levels[row + 1 : row + radix] = deviation * shape @ directions / math.sqrt(3)
        self.inner.normal_(std=1 / math.sqrt(self.inner.shape[1]))
        self.outer.zero_()

    def forward(self, input: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape width"]:
        """Embeds tokens and positions.

        Args:
            input: Ids: tokens, and from `slots.FIRST_ID` on positions of a digest.
        """
        told = input >= FIRST_ID
        embedded = super().forward(input.masked_fill(told, 0))
        if not bool(told.any()):
            return embedded
        summed = self._summed(input[told] - FIRST_ID)
        if self.inner.shape[0]:
            hidden = functional.gelu(functional.linear(summed / self.weight.std().detach(), self.inner))
            summed = summed + functional.linear(hidden, self.outer)
        return embedded.masked_scatter(told[..., None], summed.to(embedded.dtype))

    def _summed(self, payload: Int[Tensor, " told"]) -> Float[Tensor, "told width"]:
        """The row of the kind, that of the column's pointer, and those of the levels."""
        factor, radix, row, begin = (each.to(payload.device) for each in slot_places())
        kind, pointer = payload % 8, payload // 8 % (1 << BITS_OF_POINTERS)
        level = payload[:, None] // factor[kind] % radix[kind]
        rows = torch.where(radix[kind] > 1, row[kind] + level, begin[kind][:, None])
        weight = (radix[kind] > 1).to(self.levels.dtype)
        summed = self.levels[begin[kind]] + (self.levels[rows] * weight[..., None]).sum(1)
        sources = torch.tensor([0, *self.sources], device=payload.device)[pointer]
        return summed + self.weight[sources] * (pointer > 0)[:, None]


class WriterForCausalLM(Qwen3ForCausalLM):
    """Qwen3 that reads digests."""

    config_class = WriterConfig

    def __init__(self, config: WriterConfig) -> None:
        if config.slot_rows != slot_table_rows():
            raise ValueError(
                f"the policy was made for digests of {config.slot_rows} levels in all, and those of this"
                f" version have {slot_table_rows()}"
            )
        super().__init__(config)
        self.model.embed_tokens = SlotEmbedding(config)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, SlotEmbedding):
            module.start(self.config.initializer_range)


def slot_table_rows() -> int:
    """Rows of the table of levels."""
    return sum(layout.rows for layout in LAYOUTS.values())


@cache
def slot_places() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each kind's slots factor, radix and first row, padded with radix 1; and each kind's own row."""
    most = max(len(layout.slots) for layout in LAYOUTS.values())
    table = torch.ones(3, 8, most, dtype=torch.long)
    begin = torch.zeros(8, dtype=torch.long)
    for layout in LAYOUTS.values():
        begin[layout.kind] = layout.first_row
        for place, values in enumerate(layout.places):
            table[:, layout.kind, place] = torch.tensor(values)
    return table[0], table[1], table[2], begin


def register() -> None:
    """Makes the model known to transformers; what loads a folder calls it."""
    AutoConfig.register(WriterConfig.model_type, WriterConfig, exist_ok=True)
    AutoModelForCausalLM.register(WriterConfig, WriterForCausalLM, exist_ok=True)
