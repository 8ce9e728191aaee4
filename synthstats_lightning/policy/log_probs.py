"""Log-probabilities of given tokens, in float32, without holding the logits of all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from synthstats_lightning.policy.products import linear
from synthstats_lightning.policy.text.token_limits import Before, TokenLimits

CHUNK_ELEMENTS = 2**26
"""Logits that the chunked form holds at once: 256 MiB in float32."""

HAS_LINEAR_CROSS_ENTROPY = hasattr(functional, "linear_cross_entropy")
"""Whether this PyTorch (2.13 and later) has the fused form."""


@dataclass(frozen=True)
class OutputHead:
    """The last layer of a language model, from hidden states to logits.

    Attributes:
        module: The output embedding: a linear layer, or what an adapter made of it.
        scale: Factor on the layer's output, for architectures that have one (Cohere, Granite), else 1.
        softcap: Bound c of `c * tanh(logits / c)`, for architectures that have one (Gemma 2), else `None`.
    """

    module: Any
    scale: float = 1.0
    softcap: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether logits are just `hidden @ weight.T + bias`."""
        return type(self.module) is nn.Linear and self.scale == 1.0 and self.softcap is None

    def logits(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens vocabulary"]:
        """Logits in float32, also under autocast.

        A plain linear head computes in float32 whatever its storage; a head that an adapter wraps computes in
        the dtype of its base weight.
        """
        device = hidden.device.type
        if type(self.module) is nn.Linear:
            with torch.autocast(device, enabled=False):
                bias = self.module.bias
                logits = linear(
                    hidden.float(), self.module.weight.float(), None if bias is None else bias.float()
                )
        else:
            dtypes = {parameter.dtype for parameter in self.module.parameters()}
            low = next(
                (dtype for dtype in dtypes if dtype != torch.float32 and dtype.is_floating_point), None
            )
            with torch.autocast(device, enabled=low is not None, dtype=low):
                logits = self.module(hidden.float() if low is None else hidden).float()
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits


class ProgramLogProbs(NamedTuple):
    """What one pass over programs yields, in float32 and, but for `hidden`, in nats.

    Attributes:
        token: log π of each token, 0 where the mask is False.
        stop: log π(stop | prefix) in the place of each token, 0 where the mask is False and −inf where a
            minimum length rules stopping out.
        hidden: Last hidden states that predict each token; masked positions hold anything.
    """

    token: Float[Tensor, "batch time"]
    stop: Float[Tensor, "batch time"]
    hidden: Float[Tensor, "batch time hidden"]


class LimitedTokens(NamedTuple):
    """Tokens, and what limits which can be written in their places.

    Attributes:
        limits: What may follow each prompt.
        row: Which prompt each token follows.
        before: What stands before each.
    """

    limits: TokenLimits
    row: Int[Tensor, " tokens"]
    before: Before


def token_log_probs(
    hidden: Float[Tensor, "tokens hidden"],
    targets: Int[Tensor, " tokens"],
    head: OutputHead,
    limited: LimitedTokens | None = None,
) -> Float[Tensor, " tokens"]:
    """The log softmax(logits)[target] of each token, in float32.

    Neither form holds the `[tokens, vocabulary]` logits; both recompute them in pieces for the gradient.

    Args:
        hidden: Last hidden states of the positions that predict the targets.
        targets: Token id that each position predicts.
        head: What turns hidden states into logits.
        limited: Which tokens can be written in their places; all where it is not given.

    Returns:
        Log-probabilities in nats.
    """
    if limited is None and head.is_plain and HAS_LINEAR_CROSS_ENTROPY and hidden.shape[0] > 0:
        return fused_token_log_probs(hidden, targets, head)
    return _chunked(hidden, targets, head, None, CHUNK_ELEMENTS, limited)[:, 0]


def fused_token_log_probs(
    hidden: Float[Tensor, "tokens hidden"], targets: Int[Tensor, " tokens"], head: OutputHead
) -> Float[Tensor, " tokens"]:
    """`token_log_probs` by `torch.nn.functional.linear_cross_entropy`, for a plain head."""
    weight, bias = head.module.weight, head.module.bias
    with torch.autocast(hidden.device.type, enabled=False):
        loss: Tensor = functional.linear_cross_entropy(
            hidden.float(),
            weight.float(),
            targets,
            linear_bias=None if bias is None else bias.float(),
            reduction="none",
            # its own choice of chunks is three times slower on CPU
            options=nn.LinearCrossEntropyOptions(
                batch_chunk_size=_chunk_size(weight.shape[0], CHUNK_ELEMENTS), chunking_method=None
            ),
        )
    return -loss


def chunked_token_log_probs(
    hidden: Float[Tensor, "tokens hidden"],
    targets: Int[Tensor, " tokens"],
    head: OutputHead,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> Float[Tensor, " tokens"]:
    """`token_log_probs` by a loop over chunks of tokens, each recomputed for the gradient; for any head."""
    return _chunked(hidden, targets, head, None, chunk_elements)[:, 0]


class TokenLogProbs(NamedTuple):
    """Of each token.

    Attributes:
        token: log softmax(logits)[target], in nats.
        stop: Log-probability of ending the program in its place, in nats: of all stop tokens together.
    """

    token: Float[Tensor, " tokens"]
    stop: Float[Tensor, " tokens"]


def token_and_stop_log_probs(
    hidden: Float[Tensor, "tokens hidden"],
    targets: Int[Tensor, " tokens"],
    head: OutputHead,
    stop_ids: tuple[int, ...],
    limited: LimitedTokens | None = None,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> TokenLogProbs:
    """`token_log_probs` and, from the same pass over the vocabulary, the probability of stopping.

    The pass yields log p(y) = h·w_y − log Σ exp; adding h·w_y back gives the normaliser, and with it the
    probability of any other token at the cost of one inner product.

    Args:
        hidden: Last hidden states of the positions that predict the targets.
        targets: Token id that each position predicts.
        head: What turns hidden states into logits.
        stop_ids: Tokens that end a program, at least one.
        limited: Which tokens can be written in their places; all where it is not given.
        chunk_elements: Logits that the chunked form holds at once.

    Returns:
        Log-probabilities in nats, float32.
    """
    if not (limited is None and head.is_plain and HAS_LINEAR_CROSS_ENTROPY and hidden.shape[0] > 0):
        token, stop = _chunked(hidden, targets, head, stop_ids, chunk_elements, limited).unbind(-1)
        return TokenLogProbs(token, stop)
    token = fused_token_log_probs(hidden, targets, head)
    weight, bias = head.module.weight, head.module.bias
    stops = torch.tensor(stop_ids, device=hidden.device)
    with torch.autocast(hidden.device.type, enabled=False):
        states = hidden.float()
        logit = torch.linalg.vecdot(states, weight[targets].float())
        stop_logits = functional.linear(
            states, weight[stops].float(), None if bias is None else bias[stops].float()
        )
        if bias is not None:
            logit = logit + bias[targets].float()
        stop = stop_logits.logsumexp(-1) - (logit - token)
    return TokenLogProbs(token, stop)


def forbid_early_stop(
    token: Float[Tensor, "batch time"], stop: Float[Tensor, "batch time"], min_new_tokens: int
) -> tuple[Float[Tensor, "batch time"], Float[Tensor, "batch time"]]:
    """Log-probabilities under the policy that may not stop before it has written so many tokens.

    Its first tokens are those of the policy given that they do not stop: p / (1 − q).

    Args:
        token: log p of each token, in nats; the first `min_new_tokens` are no stop tokens.
        stop: log q of stopping in their place, in nats.
        min_new_tokens: Tokens that come before any stop token.

    Returns:
        The new log p and log q, which is −inf for the first tokens.
    """
    early = torch.arange(token.shape[1], device=token.device) < min_new_tokens
    # rounding may leave q = 1, where no token is left to write
    going_on = torch.log(-torch.expm1(stop.clamp(max=-1e-7)))
    return torch.where(early, token - going_on, token), stop.masked_fill(early, -torch.inf)


def _chunked(
    hidden: Tensor,
    targets: Tensor,
    head: OutputHead,
    stop_ids: tuple[int, ...] | None,
    chunk_elements: int,
    limited: LimitedTokens | None = None,
) -> Float[Tensor, "tokens values"]:
    """Per token, the log-probability of the target and, where asked for, of the stop tokens."""

    def piece(hidden: Tensor, targets: Tensor, *where: Tensor) -> Tensor:
        logits = head.logits(hidden)
        if limited is not None:
            row, *before = where
            logits = limited.limits.masked(logits, row, Before(*before))
        values = [logits.gather(-1, targets[:, None])[:, 0]]
        if stop_ids is not None:
            values.append(logits[:, list(stop_ids)].logsumexp(-1))
        return torch.stack(values, -1) - logits.logsumexp(-1, keepdim=True)

    size = _chunk_size(int(head.module.weight.shape[0]), chunk_elements)
    where = () if limited is None else (limited.row, *limited.before)
    parts = (torch.split(each, size) for each in (hidden, targets, *where))
    pieces = [
        checkpoint(piece, *part, use_reentrant=False) if torch.is_grad_enabled() else piece(*part)
        for part in zip(*parts, strict=True)
    ]
    return torch.cat(pieces)


def _chunk_size(vocabulary: int, chunk_elements: int) -> int:
    """Tokens whose logits are held at once."""
    return max(1, chunk_elements // vocabulary)
