"""Random language models of a given shape, for timing: what they say does not matter, what they cost does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, load_policy, resolve
from synthstats_lightning.policy.loading import output_head
from synthstats_lightning.policy.lora import add_adapter

LORA = LoraSettings(rank=16, alpha=32.0)


@dataclass(frozen=True)
class Shape:
    """Sizes of a Qwen3 model.

    Attributes:
        vocabulary: Tokens.
        hidden: Width of the hidden states.
        layers: Number of layers.
        heads: Query heads a layer.
        key_value_heads: Key and value heads a layer.
        head: Width of a head.
        feed_forward: Width of the feed-forward layers.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head: int
    feed_forward: int

    @property
    def weights(self) -> int:
        """Weights of the linear layers but for the output head: what a token is multiplied with."""
        attention = self.hidden * self.head * (2 * self.heads + 2 * self.key_value_heads)
        return self.layers * (attention + 3 * self.hidden * self.feed_forward)


SHAPES = {
    "tiny": Shape(1_024, 192, 4, 6, 2, 32, 448),
    "wide": Shape(151_936, 256, 4, 4, 2, 64, 768),
    "qwen3-layers": Shape(1_024, 1_024, 4, 16, 8, 128, 3_072),
    "qwen3-0.6b": Shape(151_936, 1_024, 28, 16, 8, 128, 3_072),
    "qwen3-4b": Shape(151_936, 2_560, 36, 32, 8, 128, 9_728),
}
"""The bundled policy, a small model with the vocabulary of Qwen3, four layers of Qwen3-0.6B with that of the
bundled policy, and two of Qwen3 themselves."""


def language_model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """The bundled model, or one of random weights.

    Args:
        name: Key of `SHAPES`.
        dtype: Of the weights.
    """
    from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

    if name == "tiny":
        return AutoModelForCausalLM.from_pretrained(resolve("tiny"), dtype=dtype)
    shape = SHAPES[name]
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=4_096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=3,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return Qwen3ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(default)


def tokenizer() -> Any:
    """That of the bundled policy, which serves all."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(resolve("tiny"))


def policy(name: str, dtype: torch.dtype = torch.float32, settings: ModelSettings | None = None) -> Policy:
    """A policy with a fresh adapter.

    Args:
        name: Key of `SHAPES`.
        dtype: Of the base weights.
        settings: `micro_batch_tokens`, `compile` and `gradient_checkpointing` count.
    """
    settings = settings or ModelSettings()
    if name == "tiny" and dtype == torch.float32:
        return load_policy("tiny", LORA, settings, seed=0)
    model = language_model(name, dtype).requires_grad_(False)
    head = output_head(model)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    adapted = add_adapter(model, LORA)
    return Policy(adapted, tokenizer(), name, head, settings).train()
