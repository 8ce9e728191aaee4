"""A key-value cache that does not copy itself at every token.

Imports transformers: import this module inside functions only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

BLOCK = 64
"""Tokens by which a layer's buffers grow."""


class BufferedLayer(DynamicLayer):
    """A layer of keys and values in buffers with room to grow.

    `DynamicLayer` concatenates at every token, which copies the whole cache: on CPU that costs more than the
    model itself. This one writes in place and copies once every `BLOCK` tokens. For sampling only: in-place
    writes and gradients do not mix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized: bool = False
        self.keys: Tensor
        self.values: Tensor
        self.buffers: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append keys and values `[batch, heads, new, size]`; return all so far."""
        start = self.get_seq_length() if self.is_initialized else 0
        new = key_states.shape[-2]
        end = start + new
        if self.buffers is None or self.buffers[0].shape[-2] < end:
            self.buffers = (
                _grown(self.keys, key_states, start, end),
                _grown(self.values, value_states, start, end),
            )
        key_buffer, value_buffer = self.buffers
        key_buffer[..., start:end, :] = key_states
        value_buffer[..., start:end, :] = value_states
        self.keys, self.values = key_buffer[..., :end, :], value_buffer[..., :end, :]
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        return self.keys, self.values

    @torch.no_grad()
    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep, repeat or drop rows of the batch, in buffers with room for more tokens."""
        length = self.get_seq_length()
        if not length:
            return
        buffers = (
            _room(self.keys, len(beam_idx), length + 1),
            _room(self.values, len(beam_idx), length + 1),
        )
        self.keys, self.values = (
            torch.index_select(past, 0, beam_idx.to(past.device), out=buffer[..., :length, :])
            for past, buffer in zip((self.keys, self.values), buffers, strict=True)
        )
        self.buffers = buffers


def _grown(past: Tensor | None, new: Tensor, start: int, end: int) -> Tensor:
    """A buffer with room for `end` tokens, whose first `start` are `past`."""
    buffer = _room(new, new.shape[0], end)
    if past is not None and start > 0:
        buffer[..., :start, :] = past
    return buffer


def _room(like: Tensor, batch: int, tokens: int) -> Tensor:
    """An empty `[batch, heads, tokens or more, size]` with the heads and the size of another."""
    heads, size, room = like.shape[1], like.shape[-1], -(-tokens // BLOCK) * BLOCK
    return like.new_empty(batch, heads, room, size)


def sampling_cache(config: Any) -> Cache:
    """An empty cache for a model: buffers for layers of plain full attention.

    Other layers (sliding windows, states of linear attention) stay as transformers makes them.
    """
    cache = DynamicCache(config=config)
    cache.layers = [BufferedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def training_cache(config: Any) -> Cache:
    """An empty cache that gradients pass through."""
    return DynamicCache(config=config)


def keeps_every_state(config: Any) -> bool:
    """Whether a model's cache only ever grows, so that gradients pass through a cache that rows share.

    States of linear attention and convolutions are overwritten at every call: what the first call saved for
    its gradient is gone after the second, and not every model goes on from them with several tokens.
    """
    layers = DynamicCache(config=config).layers
    return all(isinstance(layer, DynamicLayer) and not hasattr(layer, "conv_states") for layer in layers)


def cache_bytes(cache: Cache) -> int:
    """Bytes of all tensors that a cache holds, without the room that it has beyond them."""
    return sum(_tensor_bytes(value) for layer in cache.layers for value in _held(layer))


def _held(layer: Any) -> list[Any]:
    return [value for name, value in vars(layer).items() if name != "buffers"]


def _tensor_bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_tensor_bytes, value)) if isinstance(value, list | tuple) else 0
