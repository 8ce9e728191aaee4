"""Batches of made-up episodes: whole conversations, of which the policy's own turns count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerFast

from synthstats_lightning.pretraining.batches import PackedBatch
from synthstats_lightning.pretraining.episodes.made_up import MadeUpEpisode, made_up_episode
from synthstats_lightning.pretraining.tokenizer import END, PAD, PROGRAM, TASK
from synthstats_lightning.tasks.experiments.messages import ERROR, EXPERIMENTS_LEFT, TURNS_LEFT

PHRASES = (
    "<observe>",
    "</observe>",
    "<program>",
    "</program>",
    "<think>",
    "</think>",
    EXPERIMENTS_LEFT,
    TURNS_LEFT,
    ERROR,
    "\nexperiments: ",
    ", turns: ",
    "\ndesign ",
    ": a number from ",
    ": a whole number from ",
)
"""Fixed texts of episodes, each a token of its own."""


class EpisodeTokens(NamedTuple):
    """One episode as tokens.

    Attributes:
        ids: From the task token to the last stop token.
        counted: Whether the token is one of the policy's to imitate.
    """

    ids: list[int]
    counted: list[bool]


def add_phrases(tokenizer: PreTrainedTokenizerFast) -> int:
    """Makes `PHRASES` tokens of the tiny tokenizer, in place, and returns how many were new."""
    from tokenizers import AddedToken

    return int(tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in PHRASES]))


def encode_episodes(
    tokenizer: PreTrainedTokenizerFast, episodes: Sequence[MadeUpEpisode]
) -> list[EpisodeTokens]:
    """Episodes as tokens, in the form that the tiny chat template gives a conversation.

    Args:
        tokenizer: The tiny tokenizer.
        episodes: At least one.
    """
    # not verbose: it would warn of episodes that turn out too long
    encoded: Any = tokenizer([_text(episode) for episode in episodes], verbose=False)["input_ids"]
    start, end = tokenizer.convert_tokens_to_ids([PROGRAM, END])
    return [
        EpisodeTokens(ids, _counted(ids, [turn.imitated for turn in episode.turns], start, end))
        for ids, episode in zip(encoded, episodes, strict=True)
    ]


def _text(episode: MadeUpEpisode) -> str:
    said = "".join(
        PROGRAM + turn.text + END + (TASK + turn.answer if turn.answer else "") for turn in episode.turns
    )
    return TASK + episode.request + said


def _counted(ids: list[int], imitated: list[bool], start: int, end: int) -> list[bool]:
    """True on the tokens of imitated turns, their stop tokens included."""
    counted, turn, inside = [], -1, False
    for token in ids:
        counted.append(inside and imitated[turn])
        if token == start:
            turn, inside = turn + 1, True
        elif token == end:
            inside = False
    return counted


def pack_episodes(rows: Sequence[EpisodeTokens], pad: int) -> PackedBatch:
    """One batch of episodes, right-padded.

    Args:
        rows: At least one.
        pad: Token of the places to the right of shorter rows.
    """
    shape = (len(rows), max(len(row.ids) for row in rows))
    tokens, targets = torch.full(shape, pad), torch.full(shape, pad)
    counted = torch.zeros(shape, dtype=torch.bool)
    for index, row in enumerate(rows):
        length = len(row.ids)
        tokens[index, :length] = torch.tensor(row.ids)
        targets[index, : length - 1] = torch.tensor(row.ids[1:])
        counted[index, : length - 1] = torch.tensor(row.counted[1:])
    positions = torch.arange(shape[1]).expand(shape).contiguous()
    causal = torch.ones(shape[1], shape[1], dtype=torch.bool).tril()
    return PackedBatch(tokens, positions, causal.expand(shape[0], -1, -1).contiguous(), targets, counted)


def episode_batches(
    rng: Random,
    tokenizer: PreTrainedTokenizerFast,
    *,
    batch_size: int,
    max_length: int,
    pool: int = 16,
) -> Iterator[PackedBatch]:
    """Batches without end, drawn as they are needed.

    Args:
        rng: Source of randomness.
        tokenizer: The tiny tokenizer with `PHRASES`.
        batch_size: Episodes per batch.
        max_length: Longer episodes are left out.
        pool: Batches that are drawn at once and sorted by length, so that a batch has rows of like length.
    """
    pad = tokenizer.convert_tokens_to_ids(PAD)
    while True:
        episodes = [made_up_episode(rng) for _ in range(pool * batch_size)]
        rows = [row for row in encode_episodes(tokenizer, episodes) if len(row.ids) <= max_length]
        rows.sort(key=lambda row: len(row.ids))
        groups = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        rng.shuffle(groups)
        for group in groups:
            yield pack_episodes(group, pad)
