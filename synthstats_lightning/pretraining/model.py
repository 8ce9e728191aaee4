"""The tiny policy before training: tokenizer and random weights."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from synthstats_lightning.pretraining.datasets import MAX_COVARIATES
from synthstats_lightning.pretraining.grammar import draw_example
from synthstats_lightning.pretraining.settings import ModelSettings
from synthstats_lightning.pretraining.tokenizer import END, PAD, TASK, train_tokenizer


def make_tokenizer(seed: int, examples: int, vocabulary: int) -> PreTrainedTokenizerFast:
    """Trains the tokenizer on texts of the grammar."""
    rng = Random(seed)  # noqa: S311
    drawn = [draw_example(rng, 2) for _ in range(examples)]
    return train_tokenizer(
        (text for example in drawn for text in (example.data.request, *example.programs)), vocabulary
    )


def make_model(settings: ModelSettings, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 model with random weights."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(**model_arguments(settings, tokenizer), max_covariates=MAX_COVARIATES, reads_data=False)
    )


def model_arguments(settings: ModelSettings, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """What a configuration of transformers calls the sizes and the special tokens.

    Args:
        settings: Widths, layers and context of the network.
        tokenizer: The tokenizer with the special tokens.
    """
    return {
        "vocab_size": settings.vocabulary,
        "hidden_size": settings.hidden,
        "intermediate_size": settings.feed_forward,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.key_value_heads,
        "head_dim": settings.head,
        "max_position_embeddings": settings.context,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "pad_token_id": tokenizer.convert_tokens_to_ids(PAD),
        "bos_token_id": tokenizer.convert_tokens_to_ids(TASK),
        "eos_token_id": tokenizer.convert_tokens_to_ids(END),
        "use_cache": True,
        "attn_implementation": "sdpa",
    }


@torch.no_grad()
def sharpen(model: Qwen3ForCausalLM, temperature: float) -> None:
    """Makes a model at temperature 1 what it was at another: divides its logits by `temperature`, in place.

    The logits are linear in the scale of the last norm. Below 1 this takes from the tail of every token's
    distribution, where misspellings live.

    Args:
        model: Any Qwen3 model.
        temperature: Temperature whose distribution becomes that of temperature 1; positive.
    """
    model.model.norm.weight /= temperature
