"""Whether a server writes with the weights that it should have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.forced import forced_token_log_probs
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.rollouts.completions import Completion, CompletionRequest
from synthstats_lightning.rollouts.errors import RolloutError, WeightsError
from synthstats_lightning.rollouts.transport import Transport

PROGRAMS, TOKENS = 2, 16
"""Of one check."""
PROMPT_TOKENS = 160
"""Of its prompt at least: with shorter ones than a block of the server's cache a stale one is invisible."""
WARM = 1.7
"""Temperature at which a server shows of what its log-probabilities are."""


def long_prompt(policy: Policy, prompts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """A prompt for checks: a run's own, repeated until it is long enough.

    Args:
        policy: Whose positions it has to leave room in.
        prompts: Token ids of the run's prompts.
    """
    least = max(PROMPT_TOKENS, *map(len, prompts))
    found: Sequence[int] = max(prompts, key=len)
    longest = list(found)
    positions = getattr(policy.text_config, "max_position_embeddings", None) or PROMPT_TOKENS + TOKENS
    while len(longest) < least:
        longest = longest + longest
    return tuple(longest[: min(least, positions - TOKENS)])


def checked_programs(
    policy: Policy,
    connection: Transport,
    model: str,
    prompt: tuple[int, ...],
    temperature: float = 1.0,
    base: bool = False,
) -> Callable[[], list[Completion]]:
    """A call that has a server write `PROGRAMS` programs of `TOKENS` tokens.

    Args:
        policy: The policy that the trainer holds.
        connection: The server that is checked.
        model: What it is asked for there.
        prompt: Token ids of a prompt, from `long_prompt`.
        temperature: At which the programs are drawn.
        base: Whether that is the base model.
    """
    vocabulary = int(policy.text_config.vocab_size)
    request = CompletionRequest(
        prompt, PROGRAMS, seed=1, max_tokens=TOKENS, temperature=temperature, vocabulary=vocabulary
    )

    def call() -> list[Completion]:
        dialect = connection.dialect
        answer = connection.ask_patiently(dialect.path, dialect.body(request, model, not base))
        programs = dialect.read(answer, request)
        if programs is None:
            raise RolloutError(f"{connection.url}: a check of the weights was broken off")
        return programs

    return call


def gap(
    policy: Policy, prompt: tuple[int, ...], programs: Sequence[Completion], reference: bool = False
) -> float:
    """Mean absolute difference between a server's log-probabilities and the trainer's, in nats a token.

    Args:
        policy: The policy that the trainer holds.
        prompt: Token ids of the prompt.
        programs: What the server wrote.
        reference: Whether the base model wrote, without the adapter.
    """
    ids, mask = pad_right([each.ids for each in programs], policy.pad_token_id, policy.device)
    rows = torch.zeros(len(programs), dtype=torch.long, device=policy.device)
    with torch.no_grad(), policy.evaluating(), policy.reference() if reference else nullcontext():
        own = forced_token_log_probs(policy, [prompt], rows, ids, mask)
    server = torch.tensor([each.log_probs for each in programs], device=own.device)
    return float((own - server).abs().mean())


def check_gap(found: float, limit: float, what: str) -> None:
    """Refuses a server whose weights are others.

    Args:
        found: What `gap` has returned, in nats a token.
        limit: The largest that rounding explains, in nats a token.
        what: Which server, and which weights.

    Raises:
        WeightsError: If it is larger.
    """
    if not found <= limit:
        raise WeightsError(
            f"{what}: log-probabilities differ from the trainer's by {found:.3g} nats a token, max_gap is"
            f" {limit:g}: it has other weights, another tokenizer, or a stale cache"
        )
