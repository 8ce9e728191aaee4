"""How many programs are decoded at once: a plan for the memory that there is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from synthstats_lightning.policy.log_probs import CHUNK_ELEMENTS
from synthstats_lightning.policy.memory_plan.free_memory import free_bytes

SHARE = 0.8
"""Of the memory that is free: the rest is for what is not counted, and for the allocator."""
LOGIT_BYTES = 28
"""Bytes that a row takes for each token of the vocabulary while one is drawn: logits, probabilities, sums."""
SORTED_LOGIT_BYTES = 64
"""The same where the vocabulary is sorted, for `top_p`."""
ROW_BYTES = 32
"""Bytes of a token of the result: ids, log-probabilities, random numbers."""
CACHE_BLOCK = 64
"""Tokens by which caches grow."""
PROBED = (4, 12)
"""Tokens of the two sequences whose caches are weighed."""
TOKENS_PER_PASS = 16_384
"""Prompt and program tokens that one teacher-forced pass without gradient sees at most."""
GIB = 2**30


class CacheSize(NamedTuple):
    """Bytes that one row's cache takes.

    Attributes:
        per_token: For each token of prompt and program.
        fixed: Whatever the length: states of linear attention and convolutions.
    """

    per_token: float
    fixed: float


@dataclass(frozen=True)
class MemoryPlan:
    """How a number of programs is decoded.

    Attributes:
        free: Bytes that were free when the plan was made.
        budget: Bytes that decoding may take.
        cache: What a row's cache takes.
        row: Bytes that a row takes when it is longest, cache included.
        prompt_tokens: How many the longest prompt has.
        new_tokens: How many the longest program may have.
        num_rows: Programs in all.
        rows: Programs that are decoded at once.
        frozen: Bytes that the reference's own weights take beside, none of them free; 0 if it has none.
    """

    free: int
    budget: int
    cache: CacheSize
    row: int
    prompt_tokens: int
    new_tokens: int
    num_rows: int
    rows: int
    frozen: int = 0

    @property
    def num_blocks(self) -> int:
        """How many blocks are decoded one after the other."""
        return math.ceil(self.num_rows / self.rows)

    def __str__(self) -> str:
        blocks = "all at once" if self.num_blocks == 1 else f"in {self.num_blocks} blocks of {self.rows}"
        beside = f" beside {self.frozen / GIB:.2f} GiB of the reference's weights" if self.frozen else ""
        return (
            f"memory: {self.free / GIB:.2f} GiB free{beside}, {self.budget / GIB:.2f} GiB for decoding;"
            f" {self.cache.per_token / 1024:.1f} KiB a token of cache, {self.row / 2**20:.1f} MiB a program"
            f" of {self.prompt_tokens} + {self.new_tokens} tokens: {self.num_rows} programs {blocks}"
        )


class DecodingMemory:
    """Plans decoding for one policy.

    Args:
        budget: Bytes that decoding may take; `None` takes `SHARE` of what is free when it begins.

    Attributes:
        budget: Bytes that decoding may take, as given.
        share: Of the budget that is planned with; halved when it was too much.
        plan: The last plan; `None` before the first.
        frozen: Bytes that the reference's own weights take on the policy's device, for the plan to say so:
            what is free is measured when they are there.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = budget
        self.share = 1.0
        self.plan: MemoryPlan | None = None
        self.frozen = 0
        self._cache: CacheSize | None = None

    def halve(self) -> None:
        """Plans with half as much from now on."""
        self.share /= 2

    def available(self, device: torch.device) -> tuple[int, int]:
        """Bytes that are free and bytes that may be planned with.

        Args:
            device: Where the weights are.
        """
        free = free_bytes(device)
        return free, int(self.share * (SHARE * free if self.budget is None else self.budget))

    def cache_size(self, backbone: nn.Module, config: Any, device: torch.device) -> CacheSize:
        """What a row's cache takes, weighed once.

        Args:
            backbone: Language model without its head, in eval mode.
            config: Configuration of the language model.
            device: Where the weights are.
        """
        if self._cache is None:
            self._cache = weigh_cache(backbone, config, device)
        return self._cache

    def make_plan(
        self,
        backbone: nn.Module,
        config: Any,
        head: nn.Module,
        num_rows: int,
        num_prompts: int,
        prompt_tokens: int,
        new_tokens: int,
        sorts: bool = False,
    ) -> MemoryPlan:
        """How so many programs are decoded.

        Args:
            backbone: Language model without its head, in eval mode.
            config: Configuration of the language model.
            head: Output layer of the language model.
            num_rows: Programs in all.
            num_prompts: Different prompts, each of which is run once in a block.
            prompt_tokens: How many the longest prompt has.
            new_tokens: How many the longest program may have.
            sorts: Whether the vocabulary is sorted at each token.
        """
        weight = next(head.parameters())
        cache = self.cache_size(backbone, config, weight.device)
        free, budget = self.available(weight.device)
        length = -(-(prompt_tokens + new_tokens) // CACHE_BLOCK) * CACHE_BLOCK
        logits = weight.shape[0] * (SORTED_LOGIT_BYTES if sorts else LOGIT_BYTES)
        row = int(
            _copies(config) * (cache.per_token * length + cache.fixed) + logits + ROW_BYTES * new_tokens
        )
        prompt = prompt_tokens * activation_bytes(config, next(backbone.parameters()).element_size())
        # the head computes in float32, with a copy of its weights where they are not
        left = budget - (0 if weight.dtype == torch.float32 else 4 * weight.numel())
        rows = left // (row + prompt)
        if rows > num_prompts:
            rows = (left - num_prompts * prompt) // row
        rows = min(num_rows, max(1, rows))
        rows = math.ceil(num_rows / math.ceil(num_rows / rows))
        given = prompt_tokens, new_tokens, num_rows, rows
        self.plan = MemoryPlan(free, budget, cache, row, *given, self.frozen)
        return self.plan

    def tokens_per_pass(self, backbone: nn.Module, config: Any, head: nn.Module) -> int:
        """Padded tokens that one teacher-forced pass without gradient sees.

        Args:
            backbone: Language model without its head, in eval mode.
            config: Configuration of the language model.
            head: Output layer of the language model.
        """
        weight = next(head.parameters())
        _, budget = self.available(weight.device)
        cache = self.cache_size(backbone, config, weight.device)
        token = activation_bytes(config, next(backbone.parameters()).element_size()) + 2 * cache.per_token
        left = budget - (0 if weight.dtype == torch.float32 else 4 * weight.numel())
        chunked = 3 * 4 * CHUNK_ELEMENTS
        tokens = left / (token + 3 * 4 * weight.shape[0])
        if tokens * 3 * 4 * weight.shape[0] > chunked:
            tokens = (left - chunked) / token
        return int(max(1, min(TOKENS_PER_PASS, tokens)))


@torch.no_grad()
def weigh_cache(backbone: nn.Module, config: Any, device: torch.device) -> CacheSize:
    """What a row's cache takes, from the caches of two short sequences.

    Args:
        backbone: Language model without its head, in eval mode.
        config: Configuration of the language model.
        device: Where the weights are.
    """
    from synthstats_lightning.policy.cache import cache_bytes, sampling_cache
    from synthstats_lightning.policy.hidden import run_backbone

    weights = []
    for length in PROBED:
        cache = sampling_cache(config)
        run_backbone(backbone, torch.zeros(1, length, dtype=torch.long, device=device), None, cache)
        weights.append(cache_bytes(cache))
    per_token = (weights[1] - weights[0]) / (PROBED[1] - PROBED[0])
    return CacheSize(per_token, weights[0] - PROBED[0] * per_token)


def activation_bytes(config: Any, element_size: int) -> int:
    """Bytes that a layer holds of each token that goes through it without a gradient.

    Args:
        config: Configuration of the language model.
        element_size: Bytes of a number.
    """
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "n_embd", 0) or 0)
    inner = int(getattr(config, "intermediate_size", 0) or getattr(config, "ffn_dim", 0) or 4 * hidden)
    return 4 * element_size * (inner + 3 * hidden)


def _copies(config: Any) -> float:
    """How often a row's cache is held at the worst moment: a layer grows, or is repeated for its heads."""
    layers = int(getattr(config, "num_hidden_layers", None) or 1)
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    groups = heads / int(getattr(config, "num_key_value_heads", None) or heads)
    return 1 + (1 + 2 * groups) / layers
