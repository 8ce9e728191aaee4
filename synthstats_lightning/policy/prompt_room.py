"""Whether a prompt leaves room for a program, and whether a policy was made for so many columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

FEWEST_TOKENS = 64
"""Tokens that a program needs at least."""


class PromptError(ValueError):
    """A prompt that a policy cannot be given; the message says what to change."""


class PromptTooLongError(PromptError):
    """A prompt that leaves no room for a program in a policy's context."""


class UnreadableDataError(PromptError):
    """Data shown to a policy that was made for prompts without."""


def check_room(
    config: Any, policy: str, prompts: Sequence[Sequence[int]], requests: Sequence[str], max_new_tokens: int
) -> None:
    """Refuses prompts that leave no room for a program.

    Args:
        config: Configuration of the language model.
        policy: Name of the policy, for the message.
        prompts: Token ids of each prompt.
        requests: What each prompt says of its data, for the message.
        max_new_tokens: Tokens of the longest program.

    Raises:
        PromptTooLongError: If one does; the message says what to do.
    """
    context = getattr(config, "max_position_embeddings", None)
    if context is None:
        return
    wanted = min(FEWEST_TOKENS, max_new_tokens)
    for prompt, request in zip(prompts, requests, strict=True):
        if len(prompt) + wanted > context:
            begin = " ".join(request.split())[:60]
            raise PromptTooLongError(
                f"the prompt {begin!r}... takes {len(prompt)} of the {context} tokens of policy"
                f" {policy!r} and leaves fewer than {wanted} for a program: give fewer columns"
                " (`columns: [...]`, or `screen: 8` for those that go with the response best), a shorter"
                " description, or a policy with a longer context"
            )


class NotPlainError(PromptError):
    """A use that needs a policy whose tokens are text."""


@runtime_checkable
class Spelled(Protocol):
    """A policy, as far as this is about its spelling."""

    name: str
    spelling: Any


def check_plain(policy: Spelled, use: str) -> None:
    """Refuses what a policy that words requests itself was not made for.

    Args:
        policy: Who is to be used.
        use: What for, for the message.

    Raises:
        NotPlainError: If its spelling is not plain.
    """
    if not policy.spelling.plain:
        raise not_plain(policy.name, use)


def not_plain(policy: str, use: str) -> NotPlainError:
    """The error of a use that a policy which words requests itself was not made for.

    Args:
        policy: Name of the policy, for the message.
        use: What it was to be used for, for the message.
    """
    return NotPlainError(
        f"policy {policy!r} has tokens for columns and words requests itself, so that it cannot be used for"
        f" {use}; policies whose tokens are text can"
    )


def check_reads_data(config: Any, policy: str, shown: bool) -> None:
    """Refuses to show data to a policy that was made for prompts without: it writes nothing that can be used.

    Args:
        config: Configuration of the language model; `reads_data` is False where it was made so.
        policy: Name of the policy, for the message.
        shown: Whether a prompt shows rows, a digest or programs besides the request.

    Raises:
        UnreadableDataError: If one does, and the policy cannot read it.
    """
    if shown and not getattr(config, "reads_data", True):
        raise UnreadableDataError(
            f"proposal must be 'nothing', and proposal_examples 0, for policy {policy!r}, which was made for"
            " prompts without data and writes no valid program from others; larger language models read rows,"
            " digests and examples"
        )


def too_many_covariates(config: Any, policy: str, task: str, number: int) -> str:
    """A warning where a task has more covariates than a policy was made for; empty where it has not.

    Args:
        config: Configuration of the language model; `max_covariates` says how many, where it is known.
        policy: Name of the policy, for the message.
        task: Name of the task, for the message.
        number: Covariates of the task.
    """
    known = getattr(config, "max_covariates", None)
    if known is None or number <= known:
        return ""
    return (
        f"task {task!r} has {number} covariates, and policy {policy!r} was made for at most {known}: its"
        f" programs will use few of them; `columns: [...]` or `screen: {known}` choose some, and larger"
        " language models take more"
    )
